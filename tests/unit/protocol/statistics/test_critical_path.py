"""The critical path: from the trigger without a gap to the last answer, the completion and the last commit."""

from __future__ import annotations

import pytest
from tests.unit.protocol.statistics.view_kit import answer, record_of, silence

from snapline.protocol.statistics.critical_path import last_answer, last_commit, longest, missing, open_path, path_of
from snapline.protocol.statistics.explanation import PathPart, PathStep
from snapline.types import FailureReason, SubtaskId

P = PathPart


def parts(path: tuple[PathStep, ...]) -> list[tuple[PathPart, str, int, int]]:
    return [(step.part, step.vertex, step.from_ms, step.to_ms) for step in path]


def test_the_path_is_that_of_the_subtask_that_answered_last() -> None:
    slow = answer(1000, start_delay_ms=300, alignment_ms=200, sync_ms=100, async_ms=350)
    record = record_of({"source": [answer(5), answer(9)], "counts": [answer(50), slow]}, completed_ms=1100)
    assert last_answer(record) is not None
    assert parts(path_of(record)) == [
        (P.START_DELAY, "counts", 0, 300),
        (P.ALIGNMENT, "counts", 300, 500),
        (P.SYNCHRONOUS, "counts", 500, 600),
        (P.ASYNCHRONOUS, "counts", 600, 950),
        (P.ACKNOWLEDGEMENT, "counts", 950, 1000),
        (P.COMPLETION, "", 1000, 1100),
    ]
    assert {step.subtask for step in path_of(record)} == {1, None}


def test_commits_follow_the_completion() -> None:
    sink = [answer(80, commit_ms=20), answer(90, commit_ms=400)]
    record = record_of({"sink": sink}, completed_ms=100)
    assert last_commit(record) == (SubtaskId("sink", 1), 400)
    assert parts(path_of(record))[-1] == (P.COMMIT, "sink", 100, 500)


def test_what_the_driver_did_before_the_tasks_is_a_part_of_its_own() -> None:
    record = record_of({"source": [answer(700, start_delay_ms=650)]}, completed_ms=700, started_ms=600)
    assert parts(path_of(record)) == [
        (P.PREPARATION, "", 0, 600),
        (P.START_DELAY, "source", 600, 650),
        (P.ACKNOWLEDGEMENT, "source", 650, 700),
    ]


def test_a_start_delay_by_a_clock_that_is_ahead_takes_no_more_than_is_left() -> None:
    record = record_of({"counts": [answer(500, start_delay_ms=9000, alignment_ms=100, async_ms=200)]}, completed_ms=500)
    assert parts(path_of(record)) == [
        (P.START_DELAY, "counts", 0, 200),
        (P.ALIGNMENT, "counts", 200, 300),
        (P.ASYNCHRONOUS, "counts", 300, 500),
    ]


def test_a_start_delay_that_was_not_measured_is_what_is_left() -> None:
    record = record_of({"counts": [answer(500, start_delay_ms=-1, alignment_ms=-1, sync_ms=100)]}, completed_ms=500)
    assert parts(path_of(record)) == [(P.START_DELAY, "counts", 0, 400), (P.SYNCHRONOUS, "counts", 400, 500)]


@pytest.mark.parametrize(
    ("alignment_ms", "longer"),
    [(900, [P.ALIGNMENT]), (800, [P.ALIGNMENT, P.ASYNCHRONOUS]), (10, [P.SYNCHRONOUS, P.ASYNCHRONOUS])],
)
def test_where_barriers_overtake_state_is_written_during_the_alignment(
    alignment_ms: int, longer: list[PathPart]
) -> None:
    subtask = answer(910, start_delay_ms=10, alignment_ms=alignment_ms, sync_ms=5, async_ms=895, unaligned=True)
    record = record_of({"counts": [subtask]}, completed_ms=910)
    assert [step.part for step in path_of(record)] == [P.START_DELAY, *longer]


def test_without_any_answer_there_is_no_path() -> None:
    record = record_of({"counts": [silence()]})
    assert (path_of(record), last_answer(record), last_commit(record), longest(path_of(record))) == (
        (),
        None,
        None,
        None,
    )
    assert missing(record) == [(SubtaskId("counts", 0), record.vertices[0].subtasks[0])]


def test_a_subtask_that_has_not_answered_may_wait_for_its_barrier() -> None:
    record = record_of({"source": [answer(5)], "counts": [silence()]}, started_ms=20)
    assert parts(open_path(record, SubtaskId("counts", 0), 3000)) == [
        (P.PREPARATION, "", 0, 20),
        (P.START_DELAY, "counts", 20, 3000),
    ]


def test_a_subtask_that_gave_up_shows_how_far_it_had_come() -> None:
    gave_up = silence(start_delay_ms=100, alignment_ms=50, sync_ms=10)
    record = record_of({"counts": [gave_up]}, failed=(2000, FailureReason.CHECKPOINT_EXPIRED, ""))
    assert parts(open_path(record, SubtaskId("counts", 0), 2000)) == [
        (P.START_DELAY, "counts", 0, 100),
        (P.ALIGNMENT, "counts", 100, 150),
        (P.SYNCHRONOUS, "counts", 150, 160),
        (P.ASYNCHRONOUS, "counts", 160, 2000),
    ]
    overtaken = silence(start_delay_ms=100, sync_ms=10, unaligned=True)
    record = record_of({"counts": [overtaken]}, failed=(2000, FailureReason.CHECKPOINT_EXPIRED, ""))
    assert open_path(record, SubtaskId("counts", 0), 2000)[-1].part is P.ALIGNMENT


def test_the_driver_may_be_what_is_waited_for() -> None:
    record = record_of({"source": [answer(50, start_delay_ms=50)]})
    assert parts(open_path(record, None, 900)) == [(P.START_DELAY, "source", 0, 50), (P.COMPLETION, "", 50, 900)]
    record = record_of({"source": [silence()]}, started_ms=None)
    assert parts(open_path(record, None, 900)) == [(P.PREPARATION, "", 0, 900)]


def test_the_longest_step() -> None:
    steps = [PathStep(P.ALIGNMENT, "a", 0, 0, 10), PathStep(P.SYNCHRONOUS, "a", 0, 10, 50)]
    assert longest(steps) is steps[1]
