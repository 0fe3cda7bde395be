"""Reports checkpoints and starts of a job to OpenTelemetry, as spans with the names and attributes of Flink's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from snapline.config import Monitoring
from snapline.errors import ConfigurationError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, CheckpointType, StatisticsSnapshot
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.job_monitor import JobMonitor, Watcher
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.text import is_milestone

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

MAX_WAITING = 1000
"""Spans that may wait for an exporter that is slow; more are dropped."""

_MEASURES = {
    "StateSizeBytes": "state_bytes",
    "CheckpointedSizeBytes": "checkpointed_bytes",
    "CheckpointStartDelayMs": "start_delay_ms",
    "AlignmentDurationMs": "alignment_ms",
    "SyncCheckpointDurationMs": "sync_ms",
    "AsyncCheckpointDurationMs": "async_ms",
    "ProcessedDataBytes": "processed_bytes",
    "PersistedDataBytes": "persisted_bytes",
}
"""Flink's name of each measurement of a subtask, of which a span has the maximum and the sum."""

_NANOSECONDS = 1_000_000

_log = JobLogger(__name__)


def check_traces(monitoring: Monitoring) -> None:
    """Raises `ConfigurationError` if traces are wanted and the package for them is missing."""
    if not monitoring.traces:
        return
    try:
        import_module("opentelemetry.trace")
    except ModuleNotFoundError:
        raise ConfigurationError(
            "Monitoring(traces=True) needs OpenTelemetry: pip install 'snapline[otel]', and an SDK with an exporter, "
            "such as opentelemetry-sdk and opentelemetry-exporter-otlp"
        ) from None


class JobTraces(Watcher):
    """Makes spans on a thread of its own: an exporter may take its time. Used on the loop only."""

    def __init__(
        self, spec: JobSpec, scheduler: Scheduler, statistics: Callable[[], StatisticsSnapshot], tracer: Tracer
    ) -> None:
        self.calls = BackgroundCalls(scheduler, 1, "snapline-traces")
        self._job = {"job_id": spec.job_id, "job_name": spec.name}
        self._name = spec.name
        self._statistics = statistics
        self._tracer = tracer
        self._waiting = self._problems = 0
        self._closed: Future[None] | None = None

    def close(self) -> Future[None]:
        """The job has ended. The result is set once all its spans are reported."""
        closed = self._closed = Future()
        if self._waiting == 0:
            closed.set_result(None)
        return closed

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        end_ms = record.trigger_ms + max(record.end_to_end_duration_ms, 0)
        if record.completion is not None:
            end_ms = max(record.completion.completed_ms, record.trigger_ms)
        problem = "" if record.failure is None else f"{record.failure.reason.value}: {record.failure.message}"
        self._report(
            "Checkpoint", record.trigger_ms, end_ms, lambda: {**self._job, **checkpoint_attributes(record)}, problem
        )

    def attempt_ended_start(self, attempt: int, started_ms: int, ended_ms: int, failure: str) -> None:
        restored = self._statistics().latest.restored
        found: dict[str, str | int] = {"attempt": attempt, "initializationStatus": "FAILED" if failure else "COMPLETED"}
        if restored is not None and restored.restore_ms >= started_ms:
            found["checkpointId"] = restored.id
            if (record := self._statistics().find(restored.id)) is not None:
                found["fullSize"] = record.totals.state_bytes
        self._report("JobInitialization", started_ms, ended_ms, lambda: {**self._job, **found}, failure)

    def _report(
        self,
        name: str,
        start_ms: int,
        end_ms: int,
        attributes: Callable[[], Mapping[str, str | int | bool]],
        problem: str,
    ) -> None:
        if self._closed is not None:
            return
        if self._waiting >= MAX_WAITING:
            self._failed(f"{MAX_WAITING} spans wait for the exporter")
            return
        self._waiting += 1
        self.calls.run(
            lambda: _export(self._tracer, name, start_ms, end_ms, attributes(), problem),
            lambda _: self._done(None),
            self._done,
        )

    def _done(self, error: Exception | None) -> None:
        self._waiting -= 1
        if error is not None:
            self._failed(f"{type(error).__name__}: {error}")
        if self._waiting == 0 and self._closed is not None:
            self._closed.set_result(None)

    def _failed(self, why: str) -> None:
        self._problems += 1
        if is_milestone(self._problems - 1, self._problems):
            _log.warning("job %s: spans that were not reported so far: %d: %s", self._name, self._problems, why)


def trace_job(spec: JobSpec, scheduler: Scheduler, monitor: JobMonitor) -> JobTraces | None:
    """Report a job to the tracer provider that the program has set up, if its settings say so."""
    if not spec.monitoring.traces:
        return None
    from opentelemetry.trace import get_tracer

    traces = JobTraces(spec, scheduler, lambda: monitor.statistics, get_tracer("snapline", version("snapline")))
    monitor.watchers.append(traces)
    return traces


def checkpoint_attributes(record: CheckpointRecord) -> dict[str, str | int | bool]:
    """The attributes of the span of a checkpoint."""
    totals = record.totals
    is_unaligned = record.type is CheckpointType.UNALIGNED_CHECKPOINT
    found: dict[str, str | int | bool] = {
        "checkpointId": record.id,
        "fullSize": totals.state_bytes,
        "checkpointedSize": totals.checkpointed_bytes,
        "metadataSize": 0 if record.completion is None else record.completion.metadata_bytes,
        "checkpointStatus": record.status.value,
        "isUnaligned": is_unaligned,
        "checkpointType": record.type.value,
    }
    for name, field in _MEASURES.items():
        if values := [value for value in _measured(record, field) if value >= 0]:
            found[f"max{name}"] = max(values)
            found[f"sum{name}"] = sum(values)
    return found


def _measured(record: CheckpointRecord, field: str) -> Iterator[int]:
    for vertex in record.vertices:
        for subtask in vertex.subtasks:
            if subtask.metrics is not None:
                yield getattr(subtask.metrics, field)


def _export(
    tracer: Tracer, name: str, start_ms: int, end_ms: int, attributes: Mapping[str, str | int | bool], problem: str
) -> None:
    """Blocks as long as the exporter does."""
    from opentelemetry.context import Context
    from opentelemetry.trace import Status, StatusCode

    span = tracer.start_span(name, Context(), attributes=attributes, start_time=start_ms * _NANOSECONDS)
    if problem:
        span.set_status(Status(StatusCode.ERROR, problem))
    span.end(max(end_ms, start_ms) * _NANOSECONDS)
