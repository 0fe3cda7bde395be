"""How far a job has come at one moment, as one line: for the log, the terminal and users."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, StatisticsSnapshot
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.text import duration_text, size_text, time_text
from snapline.types import MAX_WATERMARK, JobStatus

STALL_MS = 700
MAX_SAMPLES = 1000
MAX_CAUSE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come.

    `rows` were read by its sources since they last started. `event_time_ms` is the watermark of the task that is
    furthest behind, None without any. `completed` is the latest completed checkpoint, `failed` the latest failed one
    if it is newer. `cause` is why the last attempt failed.
    """

    status: JobStatus
    attempt: int
    rows: int = 0
    event_time_ms: int | None = None
    completed: CheckpointRecord | None = None
    failed: CheckpointRecord | None = None
    cause: str = ""

    def line(self, now_ms: int, rows_per_second: float) -> str:
        """One line: the rate, event time and the last checkpoint of a running job, the last failure of another."""
        if self.status is not JobStatus.RUNNING:
            return f"{self.status.value}{self.cause and ' after: '}{_short(self.cause)}"
        parts = [self.status.value, f"{rows_per_second:,.0f} rows/s"]
        if self.event_time_ms is not None:
            behind = duration_text(max(now_ms - self.event_time_ms, 0))
            parts.append(f"event time {time_text(self.event_time_ms)} ({behind} ago)")
        parts.append("no checkpoint yet" if self.completed is None else _completed(self.completed, now_ms))
        if self.failed is not None and self.failed.failure is not None:
            parts.append(f"checkpoint {self.failed.id} failed: {self.failed.failure.reason.value}")
        return ", ".join(parts)


def progress_of(
    status: JobStatus,
    attempt: int,
    cause: str,
    metrics: Iterable[TaskMetrics],
    sources: Collection[str],
    statistics: StatisticsSnapshot,
) -> Progress:
    """`metrics` are those of the current executions; `sources` are the vertices that read a source."""
    tasks = list(metrics)
    watermarks = [task.watermark_ms for task in tasks if task.watermark_ms is not None]
    event_time_ms = min(watermarks, default=MAX_WATERMARK)
    completed, failed = statistics.latest.completed, statistics.latest.failed
    if completed is not None and failed is not None and failed.id < completed.id:
        failed = None
    return Progress(
        status,
        attempt,
        sum(task.rows_in for task in tasks if task.execution.subtask.vertex in sources),
        None if event_time_ms >= MAX_WATERMARK else event_time_ms,
        completed,
        failed,
        cause,
    )


class RateMeter:
    """Rows per second over the last `window_ms`, from counts that arrive in steps."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._attempt = 0
        self._samples: deque[tuple[int, int]] = deque(maxlen=MAX_SAMPLES)

    def add(self, now_ms: int, rows: int, attempt: int = 0) -> None:
        """Count `rows` so far. A new attempt, which counts anew, starts over."""
        samples = self._samples
        if attempt != self._attempt:
            self._attempt = attempt
            samples.clear()
        # A sample between two steps would make the rate fluctuate.
        if not samples or rows != samples[-1][1] or now_ms - samples[-1][0] >= STALL_MS:
            samples.append((now_ms, rows))
        while len(samples) > 1 and now_ms - samples[0][0] > self._window_ms:
            samples.popleft()

    def clear(self) -> None:
        self._samples.clear()

    @property
    def rows_per_second(self) -> float:
        """0 before the second sample."""
        if len(self._samples) < 2:
            return 0.0
        (first_ms, first), (last_ms, last) = self._samples[0], self._samples[-1]
        return max((last - first) * 1000 / max(last_ms - first_ms, 1), 0.0)


def _completed(record: CheckpointRecord, now_ms: int) -> str:
    size = size_text(record.totals.checkpointed_bytes)
    age = "" if record.completion is None else f" {duration_text(max(now_ms - record.completion.completed_ms, 0))} ago"
    return f"checkpoint {record.id}{age} (took {duration_text(record.end_to_end_duration_ms)}, {size})"


def _short(cause: str) -> str:
    line = " ".join(cause.split())
    return line if len(line) <= MAX_CAUSE_CHARACTERS else f"{line[: MAX_CAUSE_CHARACTERS - 1]}…"
