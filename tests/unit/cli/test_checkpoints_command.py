"""`snapline checkpoints`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from typing import Any

import pytest
from tests.unit.cli.cli_kit import Answer, StubServer, Terminal, address_of, checkpoint_row, job_now, leave_in_home

from snapline.cli import checkpoints_command


def history(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    counts = {"restored": 0, "total": len(rows), "in_progress": 0, "completed": len(rows), "failed": 0}
    return {"counts": counts, "not_started": None, "history": list(rows), "more": False, **changes}


@pytest.fixture
def job(server: StubServer) -> dict[str, Any]:
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job))
    rows = [checkpoint_row(13, status="IN_PROGRESS", end_to_end_duration_ms=-1), checkpoint_row(12)]
    server.answers["GET /snapline/jobs/clicks/checkpoints"] = (200, history(*rows))
    return job


@pytest.mark.usefixtures("job")
def test_once_without_a_terminal(server: StubServer, terminal: Terminal) -> None:
    assert terminal.run("checkpoints", "clicks", "--limit", "7") == 0
    heading, columns, first, second = terminal.out.splitlines()
    assert heading == "clicks: 2 completed, 0 failed, 0 in progress, 0 restored"
    assert columns.split()[:3] == ["id", "kind", "status"]
    assert first.split()[:4] == ["13", "checkpoint", "in", "progress"]
    assert second.split()[:3] == ["12", "checkpoint", "completed"]
    assert server.asked[-1][1] == "/snapline/jobs/clicks/checkpoints?limit=7"
    assert [row["id"] for row in terminal.json("checkpoints", "clicks")["history"]] == [13, 12]


@pytest.mark.usefixtures("job")
def test_why_none_starts(server: StubServer, terminal: Terminal) -> None:
    not_started = {"failure_ms": 1, "reason": "IO_EXCEPTION", "message": "the storage is read-only"}
    server.answers["GET /snapline/jobs/clicks/checkpoints"] = (200, history(not_started=not_started))
    assert terminal.run("checkpoints", "clicks") == 0
    assert "the last one could not start: IO_EXCEPTION: the storage is read-only" in terminal.out


@pytest.mark.usefixtures("job")
def test_one_checkpoint_by_vertex(server: StubServer, terminal: Terminal) -> None:
    details = checkpoint_row(12, vertices=[{"id": "per-user", "subtasks": []}])
    server.answers["GET /snapline/jobs/clicks/checkpoints/12"] = (200, details)
    assert terminal.run("checkpoints", "clicks", "--id", "12") == 0
    assert "per-user" in terminal.out
    assert terminal.json("checkpoints", "clicks", "--id", "12") == details
    assert terminal.run("checkpoints", "clicks", "--id", "99") == 3


def test_watching_without_a_terminal_prints_each_when_it_ends(
    server: StubServer, terminal: Terminal, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints_command, "POLL_S", 0.001)
    running, ended = (200, job), (200, {**job, "status": "FINISHED"})
    statuses: list[Answer] = [running, running, ended]
    server.answers["GET /snapline/jobs/clicks"] = lambda _: statuses.pop(0)
    histories: list[Answer] = [
        (200, history(checkpoint_row(13, status="IN_PROGRESS"), checkpoint_row(12))),
        (200, history(checkpoint_row(13), checkpoint_row(12))),
        (200, history(checkpoint_row(14, status="FAILED"), checkpoint_row(13))),
    ]
    server.answers["GET /snapline/jobs/clicks/checkpoints"] = lambda _: histories.pop(0)
    assert terminal.run("checkpoints", "clicks", "--watch") == 0
    _, *lines = terminal.out.splitlines()
    assert [line.split()[0] for line in lines] == ["12", "13", "14"]


def test_watching_ends_with_the_driver(server: StubServer, terminal: Terminal, job: dict[str, Any]) -> None:
    histories: list[Answer] = [(404, {"errors": ["gone"]})]
    server.answers["GET /snapline/jobs/clicks/checkpoints"] = lambda _: histories.pop(0)
    assert terminal.run("checkpoints", job["url"], "--watch") == 0


def test_on_a_terminal_the_table_is_live_until_the_job_ends(server: StubServer, job: dict[str, Any]) -> None:
    asked = threading.Event()

    def status(_: Any) -> Answer:
        ended = asked.is_set()
        asked.set()
        return 200, {**job, "status": "FINISHED" if ended else "RUNNING"}

    server.answers["GET /snapline/jobs/clicks"] = status
    read, write = pty.openpty()
    try:
        command = [sys.executable, "-m", "snapline", "checkpoints", job["url"]]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"}
        process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, env=environment)
        os.close(write)
        shown = b""
        while True:
            try:
                data = os.read(read, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        _, errors = process.communicate(timeout=30)
    finally:
        os.close(read)
    assert (process.returncode, errors) == (0, b"")
    assert shown.count(b"in progress, 0 restored") >= 2
    assert b"unaligned" not in shown


def test_what_does_not_go_together(terminal: Terminal) -> None:
    for arguments in (("--watch", "--json"), ("--watch", "--id", "3"), ("--watch", "--once"), ("--limit", "0")):
        assert terminal.run("checkpoints", "clicks", *arguments) == 2
        assert terminal.err.startswith("snapline: ")
