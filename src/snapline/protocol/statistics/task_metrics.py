"""What a running task measures of itself."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.types import ExecutionId


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """The figures of one task: rows and bytes since it began, times within the last `interval_ms`, which add up to it.

    `watermark_ms` is None before the first watermark. `latency_ms` holds the latency markers of the interval.
    """

    execution: ExecutionId
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    interval_ms: int
    busy_ms: int
    idle_ms: int
    backpressured_ms: int
    queued_in_bytes: int
    queued_out_bytes: int
    watermark_ms: int | None = None
    latency_ms: tuple[int, ...] = ()
    late_rows: int = 0
