"""`snapline ui`: the page of a running job. What is stored is served in tests/integration/cli."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.cli_kit import StubServer, Terminal, address_of, job_now, leave_in_home


@pytest.fixture
def job(server: StubServer) -> dict[str, Any]:
    job = job_now(server)
    server.serve(job)
    return job


def test_the_address_of_a_running_job(terminal: Terminal, job: dict[str, Any]) -> None:
    leave_in_home(address_of(job))
    assert terminal.run("ui", "clicks") == 0
    assert (terminal.out, terminal.err) == (f"{job['url']}\n", "")
    assert terminal.json("ui", "clicks") == {
        "job_id": "clicks",
        "url": job["url"],
        "token_file": None,
        "is_live": True,
    }


def test_a_token_is_named_by_its_file_only(
    terminal: Terminal, server: StubServer, job: dict[str, Any], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    server.token = "s3cret"
    leave_in_home(address_of(job, token_file=str(token)))
    assert terminal.run("ui", "clicks") == 0
    assert terminal.err == f"the page asks for a token; it is in {token}\n"
    assert "s3cret" not in terminal.out + terminal.err


def test_a_browser_is_opened_where_somebody_can_see_it(
    terminal: Terminal, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    leave_in_home(address_of(job))
    monkeypatch.setenv("DISPLAY", ":0")
    terminal.run("ui", "clicks")
    assert opened == []  # no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    terminal.run("ui", "clicks", "--no-browser")
    assert opened == []
    terminal.run("ui", "clicks")
    assert opened == [job["url"]]


def test_neither_a_job_nor_a_path(terminal: Terminal) -> None:
    assert terminal.run("ui", "clicks") == 3
    assert terminal.run("ui", "http://127.0.0.1:9") == 3


def test_a_path_without_anything(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal.run("ui", tmp_path) == 2
    assert "holds no job" in terminal.err
