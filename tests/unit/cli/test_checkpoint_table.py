"""Checkpoints as tables."""

from __future__ import annotations

from tests.unit.cli.cli_kit import NOW_MS, checkpoint_row

from snapline.cli.checkpoint_table import history_cells, vertices_table
from snapline.cli.terminal_output import console


def test_a_completed_checkpoint() -> None:
    row = checkpoint_row(12, type="UNALIGNED_CHECKPOINT", discarded=True)
    cells = ("12", "unaligned checkpoint", "completed, deleted", "2027-01-15T07:59:55.000Z", "140 ms", "4/4")
    assert history_cells(row) == (*cells, "1.2 MB", "3.4 MB", "")


def test_one_in_progress_has_taken_this_long() -> None:
    row = checkpoint_row(13, status="IN_PROGRESS", end_to_end_duration_ms=-1, acknowledged=1)
    assert history_cells(row)[4] == ""
    assert history_cells(row, NOW_MS)[4:6] == ("5 s", "1/4")


def test_why_one_failed_or_was_slow() -> None:
    failure = {"failure_ms": NOW_MS, "reason": "CHECKPOINT_EXPIRED", "message": "after 10 min"}
    assert history_cells(checkpoint_row(1, status="FAILED", failure=failure))[-1] == "CHECKPOINT_EXPIRED: after 10 min"
    slow = {"cause": "back-pressure", "sentence": "subtask 3 waited.", "advice": "unaligned=True", "vertex": "x"}
    assert history_cells(checkpoint_row(1, explanation=slow))[-1] == "subtask 3 waited. -> unaligned=True"
    assert history_cells(checkpoint_row(1, explanation={**slow, "cause": "nothing"}))[-1] == ""


def test_a_savepoint_says_its_format() -> None:
    row = checkpoint_row(1, kind="SAVEPOINT", type="SAVEPOINT", savepoint_format="NATIVE")
    assert history_cells(row)[1] == "savepoint, native"


def test_the_parts_of_a_checkpoint_by_vertex() -> None:
    parts = {"start_delay_ms": 1, "alignment_ms": 2, "sync_ms": 3, "async_ms": 4, "commit_ms": -1}
    sizes = {"checkpointed_bytes": 1000, "state_bytes": 2000, "acknowledged": True}
    subtasks = [
        {"index": 0, "end_to_end_duration_ms": 10, **parts, **sizes},
        {"index": 1, "end_to_end_duration_ms": 9000, **parts, "alignment_ms": 8000, **sizes, "acknowledged": False},
    ]
    screen = console()
    with screen.capture() as captured:
        screen.print(vertices_table([{"id": "per-user", "subtasks": subtasks}, {"id": "none", "subtasks": []}]))
    _, first, second = captured.get().splitlines()
    assert " ".join(first.split()) == "per-user 1/2 1 ms 8 s 3 ms 4 ms 2.0 kB 4.0 kB 1"
    assert second.split() == ["none", "0/0", "0", "B", "0", "B"]
