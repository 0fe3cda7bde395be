"""The archive of Spark's classes: made once, used where it is, and done without where Java makes none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapline.devtools.servers.spark_classes import (
    QUICK_START,
    classes_archive,
    ensure_classes_archive,
    java_options,
)
from snapline.errors import ConfigurationError


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def replace_run(monkeypatch: pytest.MonkeyPatch, *, makes: bool, code: int = 0) -> list[dict[str, str]]:
    """What the programs that are run instead of Spark find in their environments."""
    seen: list[dict[str, str]] = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        seen.append(env)
        if makes:
            option = next(part for part in env["PYSPARK_SUBMIT_ARGS"].split() if "ArchiveClassesAtExit" in part)
            Path(option.partition("=")[2]).write_text("classes")
        return subprocess.CompletedProcess(command, code, b"no Java")

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_it_is_made_once(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = replace_run(monkeypatch, makes=True)
    assert java_options() == QUICK_START
    assert ensure_classes_archive() == ensure_classes_archive() == classes_archive()
    assert len(runs) == 1
    assert runs[0]["JAVA_TOOL_OPTIONS"] == QUICK_START
    assert f"-XX:SharedArchiveFile={classes_archive()}" in java_options()
    assert list(prefix.iterdir()) == [classes_archive()]


def test_a_java_that_makes_none_is_no_problem(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_run(monkeypatch, makes=False)
    ensure_classes_archive()
    assert java_options() == QUICK_START
    assert list(prefix.iterdir()) == []


def test_nor_is_one_that_takes_too_long(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], *, timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    ensure_classes_archive()
    assert "it starts without" in capsys.readouterr().out
    assert java_options() == QUICK_START


@pytest.mark.usefixtures("prefix")
def test_a_spark_that_does_not_run_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_run(monkeypatch, makes=False, code=1)
    with pytest.raises(ConfigurationError, match="Spark does not run: no Java"):
        ensure_classes_archive()
