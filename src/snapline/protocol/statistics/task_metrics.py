"""What a running task measures of itself."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.text import is_milestone
from snapline.types import ExecutionId


@dataclass(frozen=True, slots=True)
class CommitFigures:
    """The commits of one sink subtask.

    `done` are the checkpoints whose output was committed within the interval, each with the milliseconds from its
    completion to its last commit. `waiting` output of completed checkpoints is not committed, the oldest of it for
    `waiting_ms`; the commit under way was tried `retries` times before. `last_problem` says why the last commit that
    had to be repeated, or was dropped, did not succeed. `dropped` commits have failed for good: their output is lost.
    `told_id` is the newest checkpoint that the subtask knows to be complete, -1 if none.
    """

    done: tuple[tuple[int, int], ...] = ()
    waiting: int = 0
    waiting_ms: int = 0
    retries: int = 0
    last_problem: str = ""
    dropped: int = 0
    told_id: int = -1


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """The figures of one task: rows and bytes since it began, times within the last `interval_ms`, which add up to it.

    `watermark_ms` is None before the first watermark. `latency_ms` holds the latency markers of the interval.
    `bad_rows` could not be read or processed, and were dropped or sent to dead letters; `last_bad_row` says why the
    last of them could not. `slowest_split` holds back the event time of a source that has several; `commits` are those
    of a sink.
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
    slowest_split: str = ""
    commits: CommitFigures | None = None

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
