"""`snapline dispose`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.unit.cli.cli_kit import StubServer, Terminal, address_of, job_now, leave_in_home

from snapline.protocol.snapshot import Snapshot
from snapline.storage import snapshot_metadata
from snapline.storage.objects.file_objects import FileObjects
from snapline.types import SavepointFormat, SnapshotKind


def write(directory: Path, kind: SnapshotKind = SnapshotKind.SAVEPOINT) -> Path:
    snapshot = Snapshot(7, kind, 2, 1, str(directory), {}, format=SavepointFormat.CANONICAL)
    FileObjects().write(snapshot.metadata_path, snapshot_metadata.encode(snapshot))
    return directory


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_savepoint_is_deleted(terminal: Terminal, tmp_path: Path) -> None:
    path = write(tmp_path / "sp" / "savepoint-1")
    assert terminal.run("dispose", path, "--yes") == 0
    assert terminal.out == f"deleted {path}\n"
    assert not path.exists()
    assert terminal.json("dispose", write(path), "-y") == {"path": str(path), "id": 7, "timestamp_ms": 1}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("Yes\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_it_asks(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    path = write(tmp_path / "savepoint-1")
    monkeypatch.setattr("sys.stdin", Keyboard(answer))
    assert terminal.run("dispose", path) == code
    assert f"Delete savepoint 7 in {path} (0 B in 0 files)? [y/N]" in terminal.err
    assert path.exists() is (code == 1)


def test_nobody_is_asked_without_a_terminal(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    path = write(tmp_path / "savepoint-1")
    assert terminal.run("dispose", path) == 2
    assert "say --yes" in terminal.err
    assert path.exists()


def test_only_savepoints_are_deleted(terminal: Terminal, tmp_path: Path) -> None:
    path = write(tmp_path / "job" / "chk-7", SnapshotKind.CHECKPOINT)
    assert terminal.run("dispose", path, "--yes") == 2
    assert "is checkpoint 7, no savepoint" in terminal.err
    assert terminal.run("dispose", path.parent, "--yes") == 2
    assert "is the directory of a job" in terminal.err
    assert terminal.run("dispose", tmp_path / "nothing", "--yes") == 2
    assert path.exists()


def test_through_a_running_job(server: StubServer, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.cli.dispose_command.POLL_S", 0.001)
    job = job_now(server)
    server.serve(job)
    leave_in_home(address_of(job))
    server.answers["POST /savepoint-disposal"] = (202, {"request-id": "7f"})
    running = {"status": {"id": "IN_PROGRESS"}, "operation": None}
    answers = [running, {"status": {"id": "COMPLETED"}, "operation": {}}]
    server.answers["GET /savepoint-disposal/7f"] = lambda _: (200, answers.pop(0))
    assert terminal.run("dispose", "s3://bucket/sp/savepoint-1", "--job", "clicks", "--yes") == 0
    assert [body for method, _, body, _ in server.asked if method == "POST"] == [
        {"savepoint-path": "s3://bucket/sp/savepoint-1"}
    ]
    cause = {"class": "x.ConfigurationError", "stack-trace": "ConfigurationError: it is in no directory of this job"}
    answers.append({"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}})
    assert terminal.run("dispose", "/sp/savepoint-1", "--job", "clicks", "--yes") == 1
    assert "it is in no directory of this job" in terminal.err
