"""Options of spark-submit on the command line."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from snapline.cli.entry import make_parser
from snapline.cli.submit_options import apply_submit_options
from snapline.cli.usage import UsageError


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "before")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def test_they_are_kept_in_order_up_to_the_program() -> None:
    line = "run --master local[2] --conf a=b -c c=d --verbose --name x job.py --conf mine --master"
    options = make_parser().parse_args(line.split())
    assert options.submit == [
        ("--master", "local[2]"),
        ("--conf", "a=b"),
        ("--conf", "c=d"),
        ("--verbose", None),
        ("--name", "x"),
    ]
    assert (options.script, options.arguments) == ("job.py", ["--conf", "mine", "--master"])


def test_what_spark_submit_does_not_know_is_an_error() -> None:
    for line in ("run --mastre local job.py", "run --mast local job.py", "run --master"):
        with pytest.raises(UsageError, match="; see snapline "):
            make_parser().parse_args(line.split())


def test_pyspark_starts_spark_with_them() -> None:
    apply_submit_options([("--conf", "spark.x=with 'space'"), ("--verbose", None)])
    assert shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"]) == [
        "--conf",
        "spark.ui.showConsoleProgress=false",
        "--conf",
        "spark.x=with 'space'",
        "--verbose",
        "pyspark-shell",
    ]


def test_modules_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "helper.py").touch()
    (tmp_path / "more.zip").touch()
    files = f"{tmp_path}/helper.py, file://{tmp_path}/more.zip,hdfs://host/other.zip"
    apply_submit_options([("--py-files", files)])
    assert sys.path[:2] == [f"{tmp_path}/more.zip", str(tmp_path)]
    with pytest.raises(UsageError, match="there is no file"):
        apply_submit_options([("--py-files", str(tmp_path / "none.py"))])


def test_the_driver_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_submit_options([("--deploy-mode", "client")])
    with pytest.raises(UsageError, match="--deploy-mode is client"):
        apply_submit_options([("--deploy-mode", "cluster")])
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(UsageError, match="a program of spark-submit already"):
        apply_submit_options([("--master", "local")])
