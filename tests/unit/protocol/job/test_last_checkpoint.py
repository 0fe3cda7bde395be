"""The last checkpoint of a bounded job: when it is asked for, and when again."""

from __future__ import annotations

import pytest

from snapline.protocol.job.last_checkpoint import (
    PAUSE_MS,
    RETRY_MS,
    Ending,
    LastCheckpoint,
    RequestLastCheckpoint,
    SetLastCheckpointTimer,
)
from snapline.types import SubtaskId

A, B = SubtaskId("read", 0), SubtaskId("read", 1)
TAKE = [RequestLastCheckpoint()]


def running(*sources: SubtaskId, is_wanted: bool = True) -> LastCheckpoint:
    machine = LastCheckpoint(is_wanted=is_wanted)
    machine.prepared(sources)
    assert machine.running() == []
    return machine


def taking() -> LastCheckpoint:
    machine = running(A)
    assert machine.source_ended(A) == TAKE
    return machine


def test_it_is_asked_for_once_every_source_has_ended() -> None:
    machine = running(A, B)
    assert machine.source_ended(A) == []
    assert machine.source_ended(A) == []
    assert machine.source_ended(B) == TAKE
    assert machine.source_ended(B) == [], "it is being taken"


@pytest.mark.parametrize("sources", [(), (A,)])
def test_it_waits_until_all_tasks_run(sources: tuple[SubtaskId, ...]) -> None:
    machine = LastCheckpoint(is_wanted=True)
    machine.prepared(sources)
    for source in sources:
        assert machine.source_ended(source) == []
    assert machine.running() == TAKE


def test_a_job_without_checkpoints_takes_none() -> None:
    machine = running(A, is_wanted=False)
    assert machine.source_ended(A) == []


def test_subtasks_that_had_not_seen_the_end_get_another_one_soon() -> None:
    machine = taking()
    assert machine.completed() == [SetLastCheckpointTimer(PAUSE_MS)]
    assert machine.time_is_up() == TAKE
    assert machine.time_is_up() == [], "it is being taken"


def test_the_next_ones_come_less_and_less_often() -> None:
    machine = taking()
    pauses = []
    for _ in range(6):
        pauses += machine.completed()
        assert machine.time_is_up() == TAKE
    assert pauses == [SetLastCheckpointTimer(pause) for pause in (100, 200, 400, 800, RETRY_MS, RETRY_MS)]
    machine.prepared([A])
    machine.running()
    machine.source_ended(A)
    assert machine.completed() == [SetLastCheckpointTimer(PAUSE_MS)], "of another attempt"


def test_one_that_fails_is_taken_again_later() -> None:
    machine = taking()
    assert machine.failed() == [SetLastCheckpointTimer(RETRY_MS)]
    assert machine.failed() == [], "another one, that nobody here has asked for"
    assert machine.time_is_up() == TAKE


def test_checkpoints_before_the_end_count_for_nothing() -> None:
    machine = running(A)
    assert machine.completed() == []
    assert machine.failed() == []
    assert machine.time_is_up() == []
    assert machine.state is Ending.READING


def test_nothing_of_an_attempt_that_is_over_counts() -> None:
    machine = taking()
    machine.left()
    assert machine.completed() == []
    assert machine.failed() == []
    assert machine.source_ended(A) == []
    machine.prepared([A])
    assert machine.time_is_up() == []
    assert machine.running() == [], "its source reads again"
    assert machine.source_ended(A) == TAKE


def test_sources_of_regions_that_go_on_are_remembered() -> None:
    machine = running(A, B)
    assert machine.source_ended(A) == []
    machine.left()
    machine.prepared([B], again=[B])
    assert machine.running() == []
    assert machine.source_ended(B) == TAKE
    machine.left()
    machine.prepared([A], again=[A])
    assert machine.running() == []
    assert machine.source_ended(A) == TAKE
