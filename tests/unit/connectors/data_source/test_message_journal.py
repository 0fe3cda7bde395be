"""Messages that are kept until their commit, and which of them are to be aborted."""

from __future__ import annotations

from pathlib import Path

from snapline.connectors.data_source.message_journal import MessageJournal
from snapline.contracts.sink import SinkContext


def journal(directory: Path, attempt: int, subtask: int = 0, lineage: str = "job.1") -> MessageJournal:
    return MessageJournal(directory, SinkContext("job", "out", subtask, 2, attempt, lineage))


def test_only_what_older_attempts_of_the_lineage_kept_for_newer_checkpoints_is_found(tmp_path: Path) -> None:
    for subtask in (1, 0):
        for checkpoint in (1, 2, 3):
            journal(tmp_path, 1, subtask).keep(checkpoint, f"{checkpoint}/{subtask}".encode())
    journal(tmp_path, 1, lineage="job.2").keep(3, b"of another start")
    current = journal(tmp_path, 2)
    current.keep(2, b"of this attempt")
    found = [(checkpoint, [message for _, message in entries]) for checkpoint, entries in current.newer(1)]
    assert found == [(2, [b"2/0", b"2/1"]), (3, [b"3/0", b"3/1"])]
    for _, entries in list(current.newer(1)):
        for name, _ in entries:
            current.drop(name)
    assert list(current.newer(1)) == []
    assert [checkpoint for checkpoint, _ in current.newer(0)] == [1]


def test_no_other_file_is_deleted(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    journal(tmp_path, 1).drop("../../../other")
    journal(tmp_path, 1).drop("")
    assert other.exists()
    assert list(journal(tmp_path, 2).newer(0)) == []
