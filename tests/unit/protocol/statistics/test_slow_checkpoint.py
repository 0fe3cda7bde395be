"""Why a checkpoint took its time: each cause is told from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.unit.protocol.statistics.view_kit import TRIGGER_MS, answer, plan_of, record_of, silence, task_of, tasks_of

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, SubtaskStatistics
from snapline.protocol.statistics.explanation import Explanation, PathPart, SlowCause
from snapline.protocol.statistics.job_view import SubtaskView
from snapline.protocol.statistics.slow_checkpoint import explain
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.types import FailureReason, SubtaskId

PLAN = plan_of({"source": 1, "counts": 2, "sink": 1}, ("source", "counts"), ("counts", "sink"))
C = SlowCause


def slow(counts: SubtaskStatistics, **fields: int) -> CheckpointRecord:
    """A checkpoint whose last answer is that of the second subtask of `counts`."""
    parts = {"source": [answer(5)], "counts": [answer(9), counts], "sink": [answer(12)]}
    return record_of(parts, **{"completed_ms": counts.end_to_end_duration_ms + 10, **fields})  # type: ignore[arg-type]


def said_of(
    record: CheckpointRecord,
    tasks: Mapping[SubtaskId, SubtaskView] | None = None,
    earlier: Sequence[CheckpointRecord] = (),
    after_ms: int = 20_000,
) -> Explanation:
    return explain(record, PLAN, tasks or {}, earlier, TRIGGER_MS + after_ms)


@pytest.mark.parametrize(
    ("measured", "cause"),
    [
        ({"start_delay_ms": 3000}, C.BACK_PRESSURE),
        ({"start_delay_ms": 100, "alignment_ms": 3000}, C.BACK_PRESSURE),
        ({"sync_ms": 3000}, C.LONG_SYNCHRONOUS_PART),
        ({"async_ms": 3000, "checkpointed_bytes": 5_000}, C.SLOW_STORAGE),
        ({"async_ms": 3000, "checkpointed_bytes": 900_000_000}, C.SKEW),
        ({}, C.DRIVER),
    ],
)
def test_the_part_that_took_longest_leads_to_the_cause(measured: dict[str, int], cause: SlowCause) -> None:
    said = said_of(slow(answer(3200, **measured)))
    assert (said.checkpoint_id, said.cause) == (7, cause)
    assert said.advice
    if cause is not C.DRIVER:
        assert (said.vertex, said.subtask) == ("counts", 1)
    assert said.path[0].from_ms == 0
    assert said.path[-1].to_ms == 3210


def test_a_quick_checkpoint_is_not_slow_whatever_took_longest() -> None:
    said = said_of(slow(answer(42, start_delay_ms=2, async_ms=38)))
    assert said.cause is C.NOTHING
    assert said.sentence == "nothing slow: 52 ms, the longest part was the asynchronous write of `counts`/1"
    assert (said.advice, said.vertex) == ("", "")
    assert len(said.path) == 4


def test_a_slow_one_of_which_no_part_stands_out_says_so() -> None:
    said = said_of(slow(answer(1200, start_delay_ms=300, sync_ms=300, async_ms=310), completed_ms=1500))
    assert said.cause is C.NOTHING
    assert said.sentence == (
        "nothing stands out: 1.5 s, the longest part was the asynchronous write of `counts`/1 (310 ms)"
    )


def test_one_without_subtasks_has_little_to_say() -> None:
    assert said_of(record_of({}, completed_ms=2000)).sentence == "nothing slow: 2.0 s"


def test_time_on_the_driver_is_told_by_when_it_was() -> None:
    before = said_of(slow(answer(3200, start_delay_ms=3100), started_ms=3000))
    assert (before.cause, before.vertex) == (C.DRIVER, "")
    assert before.sentence.startswith("the driver took 3.0 s before it triggered the tasks")
    after = said_of(slow(answer(20), completed_ms=2500, metadata_bytes=12_000))
    assert (after.cause, after.vertex) == (C.DRIVER, "")
    assert (
        "the driver took 2.5 s after the last subtask had answered, to write the metadata (12.0 kB)" in after.sentence
    )


def test_a_late_answer_is_blamed_on_a_busy_subtask() -> None:
    record = slow(answer(3200, start_delay_ms=5))
    said = said_of(record, tasks_of(task_of("counts", 1, busy=0.98)))
    assert (said.cause, said.vertex, said.subtask) == (C.BACK_PRESSURE, "counts", 1)
    assert "answered 3.2 s after it had written its state: its thread was busy with rows (98 %)" in said.sentence


def test_a_barrier_that_was_sent_late_is_blamed_on_who_prepared_its_snapshot() -> None:
    parts = {
        "source": [answer(5)],
        "counts": [answer(9), answer(2100, start_delay_ms=3, sync_ms=2050)],
        "sink": [answer(2150, start_delay_ms=10, alignment_ms=2080)],
    }
    said = said_of(record_of(parts, completed_ms=2200))
    assert (said.cause, said.vertex, said.subtask) == (C.LONG_SYNCHRONOUS_PART, "counts", 1)


def test_commits_count_only_if_they_take_longer_than_the_checkpoint() -> None:
    sink = {"sink": [answer(100, commit_ms=4000)]}
    said = said_of(record_of(sink, completed_ms=110))
    assert (said.cause, said.vertex, said.subtask) == (C.FAILING_COMMITS, "sink", 0)
    assert said.path[-1].part is PathPart.COMMIT
    slow_too = {"sink": [answer(9000, start_delay_ms=8900, commit_ms=4000)]}
    assert said_of(record_of(slow_too, completed_ms=9100)).cause is C.BACK_PRESSURE


def test_commits_that_wait_are_told_while_they_do() -> None:
    tasks = tasks_of(task_of("sink", commits=CommitFigures(waiting=1, waiting_ms=5000, retries=2)))
    said = said_of(slow(answer(42)), tasks, after_ms=5100)
    assert (said.cause, said.vertex) == (C.FAILING_COMMITS, "sink")


def test_one_in_progress_is_explained_once_it_is_slow() -> None:
    record = record_of({"source": [answer(5)], "counts": [answer(9), silence()], "sink": [silence()]})
    tasks = tasks_of(task_of("counts", 1, busy=1.0, stuck_ms=9000))
    young = said_of(record, tasks, after_ms=300)
    assert (young.cause, young.sentence) == (C.NOTHING, "in progress for 300 ms, 2 of 4 subtasks have answered")
    old = said_of(record, tasks, after_ms=9500)
    assert (old.cause, old.vertex, old.subtask) == (C.HUNG_OPERATOR, "counts", 1)
    assert [(step.part, step.from_ms, step.to_ms) for step in old.path] == [(PathPart.START_DELAY, 0, 9500)]


def test_a_clock_that_was_set_back_does_no_harm() -> None:
    record = record_of({"source": [silence()]})
    assert said_of(record, after_ms=-5000).sentence == "in progress for 0 ms, 0 of 1 subtasks have answered"


def test_failed_ones_are_told_by_their_reason_and_expired_ones_by_what_was_slow() -> None:
    parts = {"source": [answer(5)], "counts": [answer(9), silence()], "sink": [silence()]}
    tasks = tasks_of(task_of("counts", 1, busy=1.0, stuck_ms=9000))
    expired = said_of(record_of(parts, failed=(10_000, FailureReason.CHECKPOINT_EXPIRED, "late")), tasks)
    assert (expired.cause, expired.vertex, expired.subtask) == (C.HUNG_OPERATOR, "counts", 1)
    assert expired.path[-1].to_ms == 10_000
    declined = said_of(record_of(parts, failed=(10_000, FailureReason.CHECKPOINT_DECLINED, "counts/0#1 no")), tasks)
    assert (declined.cause, declined.vertex, declined.subtask) == (C.FAILED, "counts", 0)
