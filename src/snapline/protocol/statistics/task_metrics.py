"""What a running task measures of itself."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.text import is_milestone
from snapline.types import ExecutionId


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """The figures of one task: rows and bytes since it began, times within the last `interval_ms`, which add up to it.

    `watermark_ms` is None before the first watermark. `latency_ms` holds the latency markers of the interval.
    `bad_rows` could not be read or processed, and were dropped or sent to dead letters; `last_bad_row` says why the
    last of them could not.
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
    bad_rows: int = 0
    last_bad_row: str = ""

    def __repr__(self) -> str:
        busy, held_up = (
            round(100 * spent_ms / max(self.interval_ms, 1)) for spent_ms in (self.busy_ms, self.backpressured_ms)
        )
        late = f", {self.late_rows:,} late" if self.late_rows else ""
        return (
            f"<{self.execution}: {self.rows_in:,} rows in, {self.rows_out:,} out{late}, {busy}% busy, "
            f"{held_up}% back-pressured>"
        )


def bad_rows_event(before: TaskMetrics | None, now: TaskMetrics) -> str:
    """The text of an event if a task has more bad rows than before, at growing intervals; else empty."""
    known = before.bad_rows if before is not None and before.execution == now.execution else 0
    if not is_milestone(known, now.bad_rows):
        return ""
    return f"{now.execution.subtask}: bad rows so far: {now.bad_rows}, and the last one: {now.last_bad_row}"
