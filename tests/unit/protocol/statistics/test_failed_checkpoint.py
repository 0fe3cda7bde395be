"""Checkpoints that have failed or are not complete: whom they wait for, and why that does not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.protocol.statistics.view_kit import answer, plan_of, record_of, silence, task_of, tasks_of

from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.failed_checkpoint import HUNG_MS, explain_failure, explain_unfinished
from snapline.types import FailureReason, SnapshotKind

R = FailureReason
PLAN = plan_of({"source": 1, "calls": 2, "sink": 1}, ("source", "calls"), ("calls", "sink"))
OPEN = {"source": [answer(5)], "calls": [answer(9), silence()], "sink": [silence()]}


def test_one_inside_a_call_hangs() -> None:
    tasks = tasks_of(
        task_of("source", held_up=0.9), task_of("calls", 1, busy=1.0, stuck_ms=12_000), task_of("sink", stuck_ms=0)
    )
    id, said = explain_unfinished(record_of(OPEN), PLAN, tasks, [], 15_000)
    assert id == ("calls", 1)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.HUNG_OPERATOR, "calls", 1)
    assert said.sentence == (
        "subtask 1 of `calls` has been inside one call for 12 s without taking or emitting a row; the barrier waits "
        "for it"
    )


@pytest.mark.parametrize(("stuck_ms", "took_ms"), [(HUNG_MS - 1, 4_000), (4_000, 9_000)])
def test_a_short_call_is_slow_but_does_not_hang(stuck_ms: int, took_ms: int) -> None:
    tasks = tasks_of(task_of("calls", 1, busy=1.0, stuck_ms=stuck_ms))
    _, said = explain_unfinished(record_of(OPEN), PLAN, tasks, [], took_ms)
    assert (said.cause, said.vertex) == (SlowCause.BACK_PRESSURE, "calls")


def test_one_that_has_answered_is_not_waited_for_whatever_it_does() -> None:
    tasks = tasks_of(task_of("calls", 0, busy=1.0, stuck_ms=60_000), task_of("calls", 1, busy=0.9))
    id, said = explain_unfinished(record_of(OPEN), PLAN, tasks, [], 60_000)
    assert id == ("calls", 1)
    assert said.cause is SlowCause.BACK_PRESSURE


def test_the_first_on_the_way_of_the_barrier_is_waited_for() -> None:
    record = record_of({"source": [answer(5)], "calls": [silence(), silence()], "sink": [silence()]})
    tasks = tasks_of(
        *(task_of("calls", index, held_up=0.9) for index in (0, 1)), task_of("sink", busy=0.95, queued_bytes=10)
    )
    id, said = explain_unfinished(record, PLAN, tasks, [], 5_000)
    assert id == ("calls", 0)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.BACK_PRESSURE, "sink", 0)


def test_subtasks_that_neither_rows_nor_barriers_hold_up_wait_for_storage() -> None:
    earlier = record_of({"calls": [answer(9), answer(80, async_ms=70, checkpointed_bytes=4_000_000)]}, id=3)
    tasks = tasks_of(task_of("calls", 1, busy=0.1), task_of("sink", busy=0.1))
    id, said = explain_unfinished(record_of(OPEN), PLAN, tasks, [earlier], 8_000)
    assert id == ("calls", 1)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.SLOW_STORAGE, "calls", 1)
    assert "8.0 s were not enough for subtask 1 of `calls` and 1 other to write state" in said.sentence
    assert "in checkpoint 3 it wrote 4.0 MB in 70 ms" in said.sentence


def test_what_was_measured_before_they_gave_up_tells_writing_from_waiting() -> None:
    writing = silence(start_delay_ms=10, alignment_ms=5, sync_ms=2)
    waiting = silence(start_delay_ms=4_000)
    both = record_of({"source": [answer(5)], "calls": [writing, waiting], "sink": [silence()]})
    id, said = explain_unfinished(both, PLAN, {}, [], 5_000)
    assert id == ("calls", 1)
    assert said.cause is SlowCause.BACK_PRESSURE
    only_writing = record_of({"source": [answer(5)], "calls": [answer(8), writing], "sink": [writing]})
    assert explain_unfinished(only_writing, PLAN, {}, [], 5_000)[1].cause is SlowCause.SLOW_STORAGE


def test_the_driver_is_told_before_and_after_the_tasks() -> None:
    before = record_of({"source": [silence()]}, started_ms=None)
    id, said = explain_unfinished(before, PLAN, {}, [], 4_000)
    assert (id, said.cause, said.vertex) == (None, SlowCause.DRIVER, "")
    assert "has not triggered the tasks within 4.0 s" in said.sentence
    after = record_of({"source": [answer(5)]})
    assert "all subtasks have answered" in explain_unfinished(after, PLAN, {}, [], 4_000)[1].sentence


def test_a_failure_is_told_in_plain_words_with_the_subtask_that_declined() -> None:
    failed = (900, R.CHECKPOINT_ASYNC_EXCEPTION, "calls/1#3 declined: OSError: disk\n full")
    said = explain_failure(record_of(OPEN, failed=failed), PLAN, None)
    assert (said.cause, said.vertex, said.subtask) == (SlowCause.FAILED, "calls", 1)
    assert said.sentence == "a subtask could not write its state (calls/1#3 declined: OSError: disk full)"
    assert "checkpoint storage" in said.advice


def test_one_that_expired_is_told_with_the_subtask_that_had_not_answered() -> None:
    record = record_of(OPEN, failed=(10_000, R.CHECKPOINT_EXPIRED, "late"), kind=SnapshotKind.SAVEPOINT)
    late = Explanation(7, SlowCause.HUNG_OPERATOR, "subtask 1 of `calls` hangs", "mend it", "calls", 1)
    assert explain_failure(record, PLAN, late) == replace(
        late,
        sentence="subtask 1 of `calls` hangs; it was not complete in time (10 s), 2 of 4 subtasks had not answered",
    )
    nothing = Explanation(7, SlowCause.NOTHING, "in progress")
    assert explain_failure(record, PLAN, nothing).cause is SlowCause.FAILED


def test_routine_needs_no_advice_and_long_messages_are_cut() -> None:
    record = record_of(OPEN, failed=(5, R.CHECKPOINT_COORDINATOR_SUSPEND, "x" * 10_000))
    said = explain_failure(record, PLAN, None)
    assert said.advice == ""
    assert len(said.sentence) < 500
