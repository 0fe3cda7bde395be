"""The line that a running job logs now and then."""

from __future__ import annotations

import logging

import pytest
from tests.unit.runtime.runtime_bench import Bench

from snapline.protocol.statistics.progress import Progress
from snapline.runtime.master.health_log import HealthLog
from snapline.types import JobStatus

MINUTE_MS = 60_000


class Setup(Bench):
    """A job whose rows and status the test sets."""

    def __init__(self, interval_ms: int = MINUTE_MS) -> None:
        super().__init__()
        self.status = JobStatus.RUNNING
        self.rows_per_second = 100
        self.cause = ""
        self.health = HealthLog(self.scheduler, "clicks", interval_ms, self._look)
        self.health.start()

    def _look(self) -> Progress:
        rows = round(self.scheduler.time_s() * self.rows_per_second)
        return Progress(self.status, 1, rows, cause=self.cause)


def test_a_healthy_job_says_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    setup = Setup()
    setup.advance(3 * MINUTE_MS + 1000)
    assert [(it.levelname, it.getMessage()) for it in caplog.records] == [
        ("INFO", "job clicks: RUNNING, 100 rows/s, no checkpoint yet")
    ] * 3


def test_a_job_that_does_not_run_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    setup = Setup()
    setup.status, setup.cause = JobStatus.RESTARTING, "no executors"
    setup.advance(MINUTE_MS + 1000)
    assert [(it.levelname, it.getMessage()) for it in caplog.records] == [
        ("WARNING", "job clicks has not run for 45 s: RESTARTING after: no executors")
    ]


def test_a_short_restart_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    setup = Setup()
    setup.advance(MINUTE_MS - 5000)
    setup.status = JobStatus.RESTARTING
    setup.advance(6000)
    assert caplog.records == []


def test_no_interval_is_no_line_and_a_closed_log_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Setup(0).advance(10 * MINUTE_MS)
    setup = Setup()
    setup.health.close()
    setup.advance(10 * MINUTE_MS)
    assert caplog.records == []
