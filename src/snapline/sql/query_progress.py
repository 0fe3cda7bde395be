"""Progress of a query as PySpark shows it: one entry for each checkpoint that has rows behind it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.job_view import JobView, VertexView
from snapline.types import MAX_WATERMARK, JobStatus

MAX_ENTRIES = 100
"""As many as Spark keeps by default."""

_SETTLED_MS = 500
"""How long after a checkpoint all tasks have reported the rows that it holds."""

_UNKNOWN = -1
"""What Spark's own classes have for numbers that nobody counts."""


class ProgressLog:
    """Makes an entry when a checkpoint has been completed and tasks have reported since. Any thread may use it.

    `identity` has the fields `id`, `runId` and `name`, `sink` describes the sink. `counts` are Spark's metrics of the
    states that a processor declares, by the names of operators. What counts as a batch is the
    checkpoint: `batchId` is its id, `durationMs` its duration, and rows are those read since the entry before, as far
    as they have been reported.
    """

    def __init__(self, identity: dict[str, Any], sink: str, counts: Mapping[str, Mapping[str, int]]) -> None:
        self._identity = identity
        self._counts = counts
        self._sink = sink
        self._lock = threading.Lock()
        self._entries: deque[StreamingQueryProgress] = deque(maxlen=MAX_ENTRIES)
        self._checkpoint_id = _UNKNOWN
        self._rows: dict[str, int] = {}
        self._attempt = 0
        self._before_ms: int | None = None
        self._due: CheckpointRecord | None = None
        """The next checkpoint to get an entry, once it is settled."""

    @property
    def entries(self) -> list[StreamingQueryProgress]:
        """The newest ones, oldest first."""
        with self._lock:
            return list(self._entries)

    def look(self, view: JobView, *, is_settled: bool = False) -> None:
        """Take in how the job is now; `is_settled` says that tasks have reported after the last checkpoint."""
        newest = view.statistics.latest.completed
        with self._lock:
            if view.attempt != self._attempt:
                # Tasks count anew; what they read again was there before.
                self._attempt, self._rows = view.attempt, {}
            if newest is None or newest.id <= self._checkpoint_id:
                return
            # Checkpoints may follow one another faster than tasks report: the first that has no entry gets one.
            due = newest if self._due is None or is_settled or is_over(view) else self._due
            completed_ms = 0 if due.completion is None else due.completion.completed_ms
            if is_settled or is_over(view) or view.now_ms - completed_ms >= _SETTLED_MS:
                self._checkpoint_id, self._due = due.id, None
                self._entries.append(StreamingQueryProgress.fromJson(self._entry(view, due)))
            else:
                self._due = due

    def _entry(self, view: JobView, checkpoint: CheckpointRecord) -> dict[str, Any]:
        since_ms = view.started_ms if self._before_ms is None else self._before_ms
        seconds = max(view.now_ms - since_ms, 1) / 1000
        self._before_ms = view.now_ms
        sources = [self._source(view, vertex, seconds) for vertex in view.plan.vertices if vertex.is_source]
        rows = sum(source["numInputRows"] for source in sources)
        ended_ms = view.now_ms if checkpoint.completion is None else checkpoint.completion.completed_ms
        duration_ms = max(ended_ms - checkpoint.trigger_ms, 0)
        return {
            **self._identity,
            "timestamp": _text(checkpoint.trigger_ms),
            "batchId": checkpoint.id,
            "batchDuration": duration_ms,
            "numInputRows": rows,
            "inputRowsPerSecond": rows / seconds,
            "processedRowsPerSecond": rows / seconds,
            "durationMs": {"triggerExecution": duration_ms},
            "eventTime": _event_time(view),
            "stateOperators": [
                each for vertex in view.plan.vertices for each in self._states(view, vertex, checkpoint)
            ],
            "sources": sources,
            "sink": {"description": self._sink, "numOutputRows": _UNKNOWN},
        }

    def _source(self, view: JobView, vertex: VertexView, seconds: float) -> dict[str, Any]:
        """A source; its offsets are the rows that were read since the attempt began."""
        before = self._rows.get(vertex.id, 0)
        after = self._rows[vertex.id] = max(before, _sum(view, vertex, lambda metrics: int(metrics.rows_in)))
        rows = after - before
        return {
            "description": vertex.operators[0].name,
            "startOffset": {"rows": before},
            "endOffset": {"rows": after},
            "latestOffset": {"rows": after},
            "numInputRows": rows,
            "inputRowsPerSecond": rows / seconds,
            "processedRowsPerSecond": rows / seconds,
        }

    def _states(self, view: JobView, vertex: VertexView, checkpoint: CheckpointRecord) -> list[dict[str, Any]]:
        """The operators of a vertex that keep state for the query. Sizes are those of the vertex."""
        names = [each.name for each in vertex.operators if each.has_state and not each.is_source and not each.is_sink]
        found = checkpoint.vertex(vertex.id)
        late_rows = _sum(view, vertex, lambda metrics: int(metrics.late_rows))
        return [
            {
                "operatorName": name,
                "numRowsTotal": _UNKNOWN,
                "numRowsUpdated": _UNKNOWN,
                "numRowsRemoved": _UNKNOWN,
                "allUpdatesTimeMs": _UNKNOWN,
                "allRemovalsTimeMs": _UNKNOWN,
                "commitTimeMs": _UNKNOWN,
                "memoryUsedBytes": 0 if found is None else found.totals.state_bytes,
                "numRowsDroppedByWatermark": late_rows,
                "numShufflePartitions": vertex.parallelism,
                "numStateStoreInstances": vertex.parallelism,
                "customMetrics": dict(self._counts.get(name, {})),
            }
            for name in names
        ]


def is_over(view: JobView) -> bool:
    """Whether the job has ended, for this driver at least."""
    return view.status in (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED)


def _sum(view: JobView, vertex: VertexView, number: Callable[[Any], int]) -> int:
    return sum(number(each.metrics) for each in view.subtasks_of(vertex.id) if each.metrics is not None)


def _event_time(view: JobView) -> dict[str, str]:
    watermarks = [
        each.metrics.watermark_ms
        for each in view.subtasks
        if each.metrics is not None and each.metrics.watermark_ms is not None
    ]
    newest = min(watermarks, default=MAX_WATERMARK)
    return {} if abs(newest) >= MAX_WATERMARK else {"watermark": _text(max(newest, 0))}


def _text(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
