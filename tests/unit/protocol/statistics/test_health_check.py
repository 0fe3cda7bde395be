"""The health of a job by its status and its failures, and the order of what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.protocol.statistics.view_kit import NOW_MS, plan_of, record_of, silence, task_of, view_of

from snapline.config import Execution
from snapline.protocol.statistics.checkpoint_records import LatestCheckpoints, StatisticsSnapshot
from snapline.protocol.statistics.health_check import LONG_START_MS, MANY_WITHIN_MS, RECENT_FAILURE_MS, job_health
from snapline.protocol.statistics.job_health import HEALTHY, HealthIssue, HealthLevel
from snapline.protocol.statistics.job_view import AttemptFailure, JobView
from snapline.types import FailureReason, JobStatus, SubtaskId

PLAN = plan_of({"source": 1, "sink": 1}, ("source", "sink"))
CAUSE = "ValueError: no\nsuch user"


def failures(*ages_ms: int) -> tuple[AttemptFailure, ...]:
    """Newest first."""
    return tuple(
        AttemptFailure(NOW_MS - age_ms, 9 - number, CAUSE, subtask=SubtaskId("sink", 0))
        for number, age_ms in enumerate(ages_ms)
    )


def job(status: JobStatus = JobStatus.RUNNING, **fields: Any) -> JobView:
    return view_of(PLAN, task_of("source"), task_of("sink"), status=status, **fields)


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (JobStatus.CANCELLING, "being cancelled"),
        (JobStatus.CANCELED, "cancelled"),
        (JobStatus.FINISHED, "finished"),
    ],
)
def test_a_job_that_ends_as_it_should_is_well(status: JobStatus, line: str) -> None:
    failed = record_of({"sink": [silence()]}, failed=(10, FailureReason.IO_EXCEPTION, "disk full"))
    statistics = StatisticsSnapshot(latest=LatestCheckpoints(failed=failed))
    health = job_health(job(status, failures=failures(100) if status.is_globally_terminal else ()))
    assert (health.level, health.line, health.notes) == (HealthLevel.GOOD, line, ())
    if status.is_globally_terminal:
        assert job_health(job(status, statistics=statistics)).level is HealthLevel.GOOD, "what was, is over"


def test_a_running_job_is_healthy() -> None:
    assert job_health(job()) is HEALTHY


def test_a_job_that_has_failed_says_why_and_where() -> None:
    health = job_health(job(JobStatus.FAILED, failures=failures(100)))
    (note,) = health.notes
    assert (health.level, note.issue, note.vertex, note.subtask) == (
        HealthLevel.BAD,
        HealthIssue.NOT_RUNNING,
        "sink",
        0,
    )
    assert health.line == "the job has failed: ValueError: no such user"
    assert "same id" in note.advice
    assert job_health(job(JobStatus.FAILED)).line == "the job has failed"


@pytest.mark.parametrize("status", [JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.SUSPENDED])
def test_one_that_does_not_run_is_a_warning(status: JobStatus) -> None:
    health = job_health(job(status, failures=failures(100)))
    assert (health.level, health.notes[0].issue) == (HealthLevel.WARNING, HealthIssue.NOT_RUNNING)
    assert health.line.endswith("after: ValueError: no such user")


@pytest.mark.parametrize("status", [JobStatus.CREATED, JobStatus.INITIALIZING])
def test_a_start_may_take_its_time(status: JobStatus) -> None:
    quick = job(status, status_times={status: NOW_MS - LONG_START_MS + 1})
    assert (job_health(quick).level, job_health(quick).line) == (HealthLevel.GOOD, "starting")
    long = job_health(job(status, status_times={status: NOW_MS - LONG_START_MS}))
    assert (long.level, long.line) == (HealthLevel.WARNING, "the job has been starting for 60 s")
    stored = job(status, status_times={status: 0}, is_live=False)
    assert job_health(stored).level is HealthLevel.GOOD, "nobody knows"


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.RESTARTING])
def test_the_same_error_again_is_a_loop(status: JobStatus) -> None:
    health = job_health(job(status, failures=failures(1000, 5000, 9000), repeats=3))
    note = health.notes[0]
    assert (health.level, note.issue) == (HealthLevel.BAD, HealthIssue.RESTART_LOOP)
    assert note.text == "restart loop: the same error for the 3rd time without progress: ValueError: no such user"
    assert "fails for good at the 10th time" in note.advice
    assert (note.vertex, note.subtask) == ("sink", 0)


def test_a_loop_without_a_limit_goes_on() -> None:
    view = job(failures=failures(1000, 5000), repeats=12, execution=Execution(same_error_limit=None))
    note = job_health(view).notes[0]
    assert "the 12th time" in note.text
    assert "for good" not in note.advice


@pytest.mark.parametrize(
    ("ages_ms", "repeats"),
    [
        ((RECENT_FAILURE_MS + 1, RECENT_FAILURE_MS + 5000), 3),
        ((1000, 5000), 1),
        ((1000, 5000), 0),
        ((1000,), 1),
        ((MANY_WITHIN_MS + 1, MANY_WITHIN_MS + 2, MANY_WITHIN_MS + 3), 0),
    ],
)
def test_a_job_that_has_recovered_is_healthy(ages_ms: tuple[int, ...], repeats: int) -> None:
    assert job_health(job(failures=failures(*ages_ms), repeats=repeats)) is HEALTHY


def test_a_slow_loop_is_one_as_long_as_it_may_fail_again() -> None:
    slow = failures(200_000, 300_000)
    assert job_health(job(failures=slow, repeats=2)).level is HealthLevel.BAD
    assert job_health(job(failures=failures(300_001, 400_001), repeats=2)).level is HealthLevel.GOOD


def test_many_restarts_for_different_reasons_are_a_warning() -> None:
    health = job_health(job(failures=failures(1000, 60_000, 120_000)))
    assert (health.level, health.notes[0].issue) == (HealthLevel.WARNING, HealthIssue.RESTART_LOOP)
    assert health.line.startswith("the job has restarted 3 times within 2 min")


def test_the_worst_comes_first_and_the_line_counts_the_others() -> None:
    health = job_health(job(JobStatus.RESTARTING, failures=failures(1000, 5000), repeats=2))
    assert [note.level for note in health.notes] == [HealthLevel.BAD, HealthLevel.WARNING]
    assert health.line == f"{health.notes[0].text} (and 1 more)"


def test_long_causes_are_cut() -> None:
    failure = AttemptFailure(NOW_MS, 1, "x" * 10_000)
    assert len(job_health(job(JobStatus.FAILED, failures=(failure,))).line) < 400
