"""What tests of commands share: a home of their own, a stub of a job's server, and a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.cli_kit import StubServer, Terminal, stub_server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory for Snapline."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SNAPLINE_TOKEN", raising=False)
    return tmp_path / "home"


@pytest.fixture
def server() -> Iterator[StubServer]:
    with stub_server() as stub:
        yield stub


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)
