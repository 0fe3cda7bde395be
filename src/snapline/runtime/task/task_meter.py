"""The metrics of one task: what went through it and how it spent its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from snapline.protocol.statistics.task_metrics import CommitFigures, TaskMetrics
from snapline.types import ExecutionId

MAX_LATENCIES = 64
"""How many latency marks are kept between two readings."""


class Waiting(Enum):
    IDLE = "idle"
    BACKPRESSURED = "backpressured"


class TaskMeter:
    """Counts on the task's thread; any thread may call `read`, which is accurate up to the current turn."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.rows_in = 0
        self.rows_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self._clock_s = clock_s
        self._waited_s = dict.fromkeys(Waiting, 0.0)
        self._waiting: tuple[Waiting, float] | None = None
        self._read_at_s = clock_s()
        self._read_waited_s = dict(self._waited_s)
        self._latencies_ms: list[int] = []

    def begin_wait(self, reason: Waiting) -> None:
        self._waiting = (reason, self._clock_s())

    def end_wait(self) -> None:
        waiting = self._waiting
        if waiting is not None:
            reason, since_s = waiting
            self._waited_s[reason] += self._clock_s() - since_s
            self._waiting = None

    def latency(self, latency_ms: int) -> None:
        if len(self._latencies_ms) < MAX_LATENCIES:
            self._latencies_ms.append(max(latency_ms, 0))

    def read(
        self,
        execution: ExecutionId,
        watermark_ms: int | None,
        queued_in_bytes: int,
        queued_out_bytes: int,
        late_rows: int = 0,
        bad_rows: int = 0,
        last_bad_row: str = "",
        slowest_split: str = "",
        commits: CommitFigures | None = None,
    ) -> TaskMetrics:
        """The counters, and the times since the last call."""
        now_s, waiting = self._clock_s(), self._waiting
        waited_s = dict(self._waited_s)
        if waiting is not None:
            waited_s[waiting[0]] += max(now_s - waiting[1], 0.0)
        interval_s = now_s - self._read_at_s
        spent = {reason: waited_s[reason] - self._read_waited_s[reason] for reason in Waiting}
        self._read_at_s, self._read_waited_s = now_s, waited_s
        latencies, self._latencies_ms = self._latencies_ms, []
        interval_ms = round(interval_s * 1000)
        idle_ms = min(max(round(spent[Waiting.IDLE] * 1000), 0), interval_ms)
        backpressured_ms = min(max(round(spent[Waiting.BACKPRESSURED] * 1000), 0), interval_ms - idle_ms)
        return TaskMetrics(
            execution=execution,
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            interval_ms=interval_ms,
            busy_ms=interval_ms - idle_ms - backpressured_ms,
            idle_ms=idle_ms,
            backpressured_ms=backpressured_ms,
            queued_in_bytes=queued_in_bytes,
            queued_out_bytes=queued_out_bytes,
            watermark_ms=watermark_ms,
            latency_ms=tuple(latencies),
            late_rows=late_rows,
            bad_rows=bad_rows,
            last_bad_row=last_bad_row,
            slowest_split=slowest_split,
            commits=commits,
        )
