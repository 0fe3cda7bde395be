"""Logs how a job is doing, one line per `health_interval`."""

from __future__ import annotations

from collections.abc import Callable

from snapline.protocol.statistics.progress import Progress, RateMeter
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler
from snapline.text import duration_text
from snapline.types import JobStatus

SAMPLES = 4
"""Looks at the job per line."""

_log = JobLogger(__name__)


class HealthLog:
    """Used on the loop only. A running job gets a line at INFO, one that is late to run a warning."""

    def __init__(self, scheduler: Scheduler, name: str, interval_ms: int, look: Callable[[], Progress]) -> None:
        self._scheduler = scheduler
        self._name = name
        self._interval_ms = interval_ms
        self._look = look
        self._meter = RateMeter(interval_ms + interval_ms // SAMPLES)
        self._looks = 0
        self._timer: Cancellable | None = None
        self._not_running_since_s: float | None = None

    def start(self) -> None:
        if self._interval_ms > 0:
            self._timer = self._scheduler.call_later(self._interval_ms / SAMPLES / 1000, self._due)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self.start()
        progress, now_ms, now_s = self._look(), self._scheduler.now_ms(), self._scheduler.time_s()
        self._meter.add(round(now_s * 1000), progress.rows, progress.attempt)
        is_running = progress.status is JobStatus.RUNNING
        if is_running:
            self._not_running_since_s = None
        elif self._not_running_since_s is None:
            self._not_running_since_s = now_s
        self._looks += 1
        if self._looks % SAMPLES:
            return
        line = progress.line(now_ms, self._meter.rows_per_second)
        if is_running:
            _log.info("job %s: %s", self._name, line)
        elif self._not_running_since_s is not None and now_s - self._not_running_since_s >= self._interval_ms / 2000:
            duration = duration_text((now_s - self._not_running_since_s) * 1000)
            _log.warning("job %s has not run for %s: %s", self._name, duration, line)
