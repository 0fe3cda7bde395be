"""`snapline checkpoint`, `savepoint`, `stop` and `cancel`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.cli_kit import Answer, StubServer, Terminal, address_of, job_now, leave_in_home

from snapline.cli import operation_wait
from snapline.protocol.snapshot import Snapshot
from snapline.storage.journals.journal_client import JournalClient
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.objects.file_objects import FileObjects
from snapline.types import JobStatus, SnapshotKind

REQUEST = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_wait, "POLL_S", 0.001)


def operation(status: str, **changes: Any) -> Answer:
    row = {"request_id": REQUEST, "what": "savepoint", "status": status}
    return 200, {**row, "location": None, "checkpoint_id": None, "error": None, **changes}


class Asked:
    """A job that is asked for something, and how that goes."""

    def __init__(self, server: StubServer, storage: Path) -> None:
        self.server = server
        job = job_now(server)
        server.serve(job)
        leave_in_home(address_of(job, storage=str(storage)))
        self.bodies: list[tuple[str, Any]] = []
        for what in ("checkpoint", "savepoint", "stop", "cancel"):
            server.answers[f"POST /snapline/jobs/clicks/{what}"] = partial(self._take, what)

    def _take(self, what: str, body: Any) -> Answer:
        self.bodies.append((what, body))
        return 202, {"request_id": REQUEST}

    def goes(self, *answers: Answer) -> None:
        left = list(answers)
        self.server.answers[f"GET /snapline/operations/{REQUEST}"] = lambda _: left.pop(0)


@pytest.fixture
def asked(server: StubServer, tmp_path: Path) -> Asked:
    return Asked(server, tmp_path / "chk")


def test_a_savepoint_prints_its_path_alone(asked: Asked, terminal: Terminal, tmp_path: Path) -> None:
    asked.goes(operation("running"), operation("running"), operation("done", location="/sp/savepoint-1"))
    assert terminal.run("savepoint", "clicks", "/sp", "--format", "native") == 0
    assert (terminal.out, terminal.err) == ("/sp/savepoint-1\n", "")
    assert asked.bodies == [("savepoint", {"directory": "/sp", "format": "NATIVE"})]


def test_a_relative_directory_is_that_of_the_user(
    asked: Asked, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (("savepoint", "clicks", "sp"), ("stop", "clicks", "--savepoint", "sp")):
        asked.goes(operation("done", location="x"))
        assert terminal.run(*arguments) == 0
        assert asked.bodies.pop()[1]["directory"] == f"{tmp_path}/sp"
    asked.goes(operation("done", location="x"))
    assert terminal.run("savepoint", "clicks", "s3://bucket/sp") == 0
    assert asked.bodies.pop()[1]["directory"] == "s3://bucket/sp"


def test_a_checkpoint(asked: Asked, terminal: Terminal) -> None:
    asked.goes(operation("done", what="checkpoint", location="/chk/clicks/chk-7", checkpoint_id=7))
    shown = terminal.json("checkpoint", "clicks", "--scope", "full")
    assert (shown["status"], shown["location"], shown["checkpoint_id"]) == ("done", "/chk/clicks/chk-7", 7)
    assert asked.bodies == [("checkpoint", {"scope": "FULL"})]


def test_a_stop_with_drain(asked: Asked, terminal: Terminal) -> None:
    asked.goes(operation("done", what="stop", location="/sp/savepoint-2"))
    assert terminal.run("stop", "clicks", "--drain") == 0
    assert (terminal.out, terminal.err) == ("/sp/savepoint-2\n", "clicks is stopped\n")
    assert asked.bodies == [("stop", {"drain": True})]


def test_a_cancel(asked: Asked, terminal: Terminal) -> None:
    asked.goes(operation("done", what="cancel"))
    assert terminal.run("cancel", "clicks") == 0
    assert (terminal.out, terminal.err) == ("", "clicks is cancelled\n")
    assert asked.bodies == [("cancel", {})]


def test_not_to_wait(asked: Asked, terminal: Terminal) -> None:
    assert terminal.run("savepoint", "clicks", "--no-wait") == 0
    assert terminal.out == f"{REQUEST}\n"
    assert terminal.json("stop", "clicks", "--no-wait") == {"request_id": REQUEST, "status": "running"}


def test_what_fails_is_an_error_with_exit_code_1(asked: Asked, terminal: Terminal) -> None:
    asked.goes(operation("failed", error="no snapshot: CHECKPOINT_EXPIRED"))
    assert terminal.run("savepoint", "clicks") == 1
    assert (terminal.out, terminal.err) == (
        "",
        "snapline: the savepoint of clicks failed: no snapshot: CHECKPOINT_EXPIRED\n",
    )
    asked.goes(operation("failed", error="no snapshot"))
    assert terminal.json("savepoint", "clicks", code=1)["error"] == "no snapshot"


def test_what_is_refused_at_once(asked: Asked, terminal: Terminal) -> None:
    for status, code in ((400, 2), (403, 1), (409, 1)):
        asked.server.answers["POST /snapline/jobs/clicks/stop"] = (status, {"errors": ["not now"]})
        assert terminal.run("stop", "clicks") == code
        assert terminal.err == "snapline: not now\n"


def test_waiting_can_be_limited(asked: Asked, terminal: Terminal) -> None:
    asked.server.answers[f"GET /snapline/operations/{REQUEST}"] = operation("running")
    assert terminal.run("savepoint", "clicks", "--timeout", "20ms") == 1
    assert f"not come to its end within 20 ms; it goes on, as request {REQUEST}" in terminal.err
    assert terminal.run("savepoint", "clicks", "--timeout", "soon") == 2
    assert terminal.run("savepoint", "clicks", "--timeout", "1s", "--no-wait") == 2
    assert len(asked.bodies) == 1


def test_ctrl_c_ends_the_waiting_only(asked: Asked, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    asked.server.answers[f"GET /snapline/operations/{REQUEST}"] = operation("running")
    monkeypatch.setattr("time.sleep", interrupt)
    assert terminal.run("stop", "clicks") == 130
    assert f"the stop of clicks goes on, as request {REQUEST}" in terminal.err


# The program ends with its job, before it could tell.


def _end(storage: Path, status: JobStatus, savepoint: str | None = None) -> None:
    """What a driver writes at the end of a job."""
    driver = JournalClient(ObjectJournal(FileObjects(), f"{storage}/clicks/journal"), "driver")
    journal, _ = driver.claim()
    if savepoint is not None:
        driver.publish(Snapshot(1, SnapshotKind.SYNC_SAVEPOINT, journal.attempt, 1, savepoint, {}))
    driver.close(journal.attempt, status)


LOST = (operation("running"), (404, {"errors": ["gone"]}))


def test_a_driver_that_ends_before_it_could_tell(asked: Asked, terminal: Terminal) -> None:
    for what in ("savepoint", "stop", "cancel"):
        asked.goes(*LOST)
        assert terminal.run(what, "clicks") == 1
        assert "the driver has ended before it could tell" in terminal.err


def test_a_cancel_that_the_storage_knows_of(asked: Asked, terminal: Terminal, tmp_path: Path) -> None:
    _end(tmp_path / "chk", JobStatus.CANCELED)
    asked.goes(*LOST)
    assert terminal.run("cancel", "clicks") == 0
    asked.goes(*LOST)
    assert terminal.run("stop", "clicks") == 1


def test_a_stop_that_the_storage_knows_of(asked: Asked, terminal: Terminal, tmp_path: Path) -> None:
    _end(tmp_path / "chk", JobStatus.FINISHED, "/sp/savepoint-3")
    asked.goes(*LOST)
    assert terminal.run("stop", "clicks") == 0
    assert terminal.out == "/sp/savepoint-3\n"
    asked.goes(*LOST)
    assert terminal.run("cancel", "clicks") == 1


def test_a_job_that_ended_by_itself_was_not_stopped(asked: Asked, terminal: Terminal, tmp_path: Path) -> None:
    _end(tmp_path / "chk", JobStatus.FINISHED)
    asked.goes(*LOST)
    assert terminal.run("stop", "clicks") == 1
