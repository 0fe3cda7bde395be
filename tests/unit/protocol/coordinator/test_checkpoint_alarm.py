"""Checkpoints that fail or stay away are warned of: at once, then less and less often."""

from __future__ import annotations

import itertools

import pytest

from snapline.protocol.coordinator.checkpoint_alarm import (
    FIRST_PAUSE_MS,
    LEAST_OVERDUE_MS,
    LONGEST_PAUSE_MS,
    MOST_PASSING,
    OVERDUE_INTERVALS,
    CheckpointAlarm,
)
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.types import NO_CHECKPOINT, FailureReason

R = FailureReason
EXPIRED = R.CHECKPOINT_EXPIRED


def warned_at(alarm: CheckpointAlarm, times_ms: range) -> list[int]:
    return [now for now in times_ms if alarm.failed(1, EXPIRED, "late", now) is not None]


def test_the_first_failure_is_a_warning_with_its_cause_and_advice() -> None:
    text = CheckpointAlarm().failed(7, R.IO_EXCEPTION, "disk full", 0)
    assert text is not None
    assert text.startswith("checkpoint 7 failed (IO_EXCEPTION): disk full; check that the checkpoint storage")


def test_one_that_could_not_start_says_so() -> None:
    text = CheckpointAlarm().failed(NO_CHECKPOINT, R.TRIGGER_CHECKPOINT_FAILURE, "the hook raised", 0)
    assert text is not None
    assert text.startswith("a checkpoint could not start (TRIGGER_CHECKPOINT_FAILURE): the hook raised; mend the hook")


def test_further_failures_are_warned_of_at_growing_intervals() -> None:
    times = warned_at(CheckpointAlarm(), range(0, 100 * FIRST_PAUSE_MS, 1000))
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[:4] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS, 8 * FIRST_PAUSE_MS]
    assert max(pauses) <= LONGEST_PAUSE_MS
    assert len(times) < 10


def test_a_warning_says_how_many_have_failed() -> None:
    alarm = CheckpointAlarm()
    for number in range(5):
        alarm.failed(number, EXPIRED, "late", number)
    text = alarm.failed(9, EXPIRED, "late", FIRST_PAUSE_MS)
    assert text is not None
    assert "(6 have failed since one last completed)" in text


def test_a_completed_checkpoint_ends_the_alarm() -> None:
    alarm = CheckpointAlarm()
    alarm.failed(1, EXPIRED, "late", 0)
    alarm.failed(2, EXPIRED, "late", 1)
    assert alarm.completed(2) == "checkpoints complete again, after 2 failed"
    assert alarm.completed(3) is None
    assert alarm.failed(3, EXPIRED, "late", 4) is not None, "it is the first again"


@pytest.mark.parametrize(
    "reason",
    [
        R.CHECKPOINT_COORDINATOR_SUSPEND,
        R.CHECKPOINT_COORDINATOR_SHUTDOWN,
        R.CHECKPOINT_SUBSUMED,
        R.MINIMUM_TIME_BETWEEN_CHECKPOINTS,
        R.PERIODIC_SCHEDULER_SHUTDOWN,
    ],
)
def test_what_belongs_to_a_restart_or_an_end_is_no_failure(reason: FailureReason) -> None:
    alarm = CheckpointAlarm()
    for now_ms in range(0, 100_000, 1000):
        assert alarm.failed(1, reason, "", now_ms) is None
    assert alarm.failures == 0


def test_what_may_pass_is_warned_of_when_it_does_not() -> None:
    alarm = CheckpointAlarm()
    for number in range(1, MOST_PASSING):
        assert alarm.failed(number, R.CHECKPOINT_DECLINED_TASK_CLOSING, "it ends", 0) is None
    text = alarm.failed(MOST_PASSING, R.CHECKPOINT_DECLINED_TASK_CLOSING, "it ends", 1)
    assert text is not None
    assert f"{MOST_PASSING} have failed" in text


def test_a_job_without_a_completed_checkpoint_says_so_until_one_completes() -> None:
    alarm, interval_ms = CheckpointAlarm(), 2000
    alarm.running(0)
    overdue_ms = OVERDUE_INTERVALS * interval_ms
    times = [now for now in range(0, overdue_ms + 69_000, 1000) if alarm.look(interval_ms, now) is not None]
    assert times == [overdue_ms, overdue_ms + FIRST_PAUSE_MS, overdue_ms + 3 * FIRST_PAUSE_MS]
    assert alarm.completed(overdue_ms + 80_000) == "checkpoints complete again, after 0 failed"
    assert alarm.look(interval_ms, overdue_ms + 81_000) is None


def test_the_warning_names_the_time_the_interval_and_the_last_failure() -> None:
    alarm = CheckpointAlarm()
    alarm.running(0)
    alarm.failed(3, EXPIRED, "late", 10)
    text = alarm.look(1000, FIRST_PAUSE_MS + 10)
    assert text is not None
    assert text.startswith(
        "no checkpoint has completed for 10 s, though one is due every 1 s; the last one that failed"
    )
    assert "checkpoint 3 failed (CHECKPOINT_EXPIRED): late" in text


@pytest.mark.parametrize("interval_ms", [10, 1000])
def test_short_intervals_are_given_some_time(interval_ms: int) -> None:
    alarm = CheckpointAlarm()
    alarm.running(0)
    assert alarm.look(interval_ms, LEAST_OVERDUE_MS - 1) is None
    assert alarm.look(interval_ms, LEAST_OVERDUE_MS) is not None


def test_a_job_that_does_not_run_or_takes_no_periodic_checkpoints_misses_none() -> None:
    alarm = CheckpointAlarm()
    assert alarm.look(1000, 10**6) is None
    alarm.running(0)
    assert alarm.look(None, 10**6) is None
    alarm.left()
    assert alarm.look(1000, 10**6) is None
    alarm.running(10**6)
    assert alarm.look(1000, 10**6 + 1000) is None, "time in which it did not run does not count"


def test_one_that_expired_is_told_with_the_subtask_that_had_not_answered() -> None:
    said = Explanation(7, SlowCause.HUNG_OPERATOR, "subtask 1 of `calls` hangs", "give it a timeout", "calls", 1)
    text = CheckpointAlarm().failed(7, EXPIRED, "not complete within 600 s", 0, said)
    assert text is not None
    assert text.startswith(
        "checkpoint 7 failed (CHECKPOINT_EXPIRED): subtask 1 of `calls` hangs; give it a timeout. The job goes on"
    )


def test_other_reasons_need_no_explanation() -> None:
    text = CheckpointAlarm().failed(7, R.IO_EXCEPTION, "why", 0, Explanation(7, SlowCause.FAILED, "again why", "look"))
    assert text is not None
    assert "again why" not in text


def test_why_the_first_one_fails_is_told_even_after_a_warning_that_none_completes() -> None:
    alarm = CheckpointAlarm()
    alarm.running(0)
    assert alarm.look(1000, LEAST_OVERDUE_MS) is not None
    assert alarm.failed(1, EXPIRED, "late", LEAST_OVERDUE_MS + 1) is not None
    assert alarm.failed(2, EXPIRED, "late", LEAST_OVERDUE_MS + 2) is None
    assert alarm.completed(LEAST_OVERDUE_MS + 3) is not None
    assert alarm.failed(3, EXPIRED, "late", LEAST_OVERDUE_MS + 4) is not None
