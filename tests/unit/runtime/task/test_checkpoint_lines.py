"""Triggers of the driver and lines of a reader meet."""

from __future__ import annotations

from snapline.protocol.messages import TriggerCheckpoint
from snapline.runtime.task.checkpoint_lines import CheckpointLines
from snapline.types import Barrier, ExecutionId, SubtaskId


def trigger(number: int) -> TriggerCheckpoint:
    barrier = Barrier(number, 0)
    return TriggerCheckpoint(ExecutionId(SubtaskId("v", 0), 1), barrier)


def lines() -> tuple[CheckpointLines, list[int]]:
    begun: list[int] = []
    return CheckpointLines(lambda event: begun.append(event.barrier.id)), begun


def waits(it: CheckpointLines) -> bool:
    return it.is_waiting


def test_a_checkpoint_begins_where_its_line_is() -> None:
    it, begun = lines()
    it.triggered(trigger(1))
    assert (begun, waits(it)) == ([], False)
    it.reached(1)
    assert (begun, waits(it)) == ([1], False)


def test_a_reader_stops_behind_a_line_until_its_trigger_comes() -> None:
    it, begun = lines()
    it.reached(1)
    assert waits(it)
    it.triggered(trigger(1))
    assert (begun, waits(it)) == ([1], False)


def test_a_line_of_a_checkpoint_that_was_given_up_is_passed() -> None:
    it, begun = lines()
    it.triggered(trigger(1))
    it.aborted(1)
    it.reached(1)
    assert (begun, waits(it)) == ([], False)
    it.reached(2)
    assert waits(it)
    it.aborted(2)
    assert not waits(it)
    it.reached(3)
    it.triggered(trigger(4))
    assert (begun, waits(it)) == ([], False), "the third never reached this subtask"
    it.reached(4)
    assert begun == [4]


def test_at_the_end_of_the_data_no_line_is_needed() -> None:
    it, begun = lines()
    it.triggered(trigger(1))
    it.end()
    it.triggered(trigger(2))
    assert begun == [1, 2]
