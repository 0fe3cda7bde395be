"""Metrics for Prometheus. Names are Flink's, in the style of Prometheus, with the unit at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from snapline.protocol.statistics.checkpoint_records import CheckpointCounts, CheckpointRecord, SubtaskMetrics
from snapline.protocol.statistics.job_health import HealthLevel
from snapline.protocol.statistics.job_view import JobView, SubtaskView
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import JobStatus
from snapline.web.own_shapes import by_vertex, share
from snapline.web.rest_route import Answer, Call

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_SUBTASKS = 200
"""A job with more subtasks shows its vertices only: their sums, or the greatest or least value."""

MAX_LABEL_CHARACTERS = 200

_Labels: TypeAlias = list[str]
_Sample: TypeAlias = tuple[_Labels, float]

_LEVELS = (HealthLevel.GOOD, HealthLevel.WARNING, HealthLevel.BAD)


class _Reported(NamedTuple):
    """A subtask that has reported its figures."""

    view: SubtaskView
    metrics: TaskMetrics


async def metrics(call: Call) -> Answer:
    """All jobs of the server."""
    board = call.server.board
    answers = await board.all_answers()
    text = board.combined("metrics", answers, lambda: metrics_text([item.view for item in answers]))
    return Answer(text, content_type=CONTENT_TYPE)


def metrics_text(views: Sequence[JobView]) -> bytes:
    """The metrics of these jobs in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(views))
    return generate_latest(registry)


class _Collector:
    def __init__(self, views: Sequence[JobView]) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        yield from _job_metrics(self._views)
        yield from _checkpoint_metrics(self._views)
        yield from _task_metrics(self._views)
        yield from _last_parts(self._views)

    def describe(self) -> Iterable[Metric]:
        return ()


def _job_metrics(views: Sequence[JobView]) -> Iterator[Metric]:
    yield _gauge(
        "snapline_job_info",
        "A job: its name, and 1",
        ("job", "name"),
        [([_label(view.job_id), _label(view.name)], 1) for view in views],
    )
    yield _gauge(
        "snapline_job_status",
        "1 for the status that the job has, 0 for the others",
        ("job", "status"),
        [([_label(view.job_id), status.value], float(view.status is status)) for view in views for status in JobStatus],
    )
    yield _of_jobs("snapline_job_health", "0 is good, 1 a warning, 2 bad", views, _health)
    yield _of_jobs("snapline_job_attempt", "The number of the attempt that runs", views, lambda view: view.attempt)
    yield _of_jobs("snapline_job_uptime_ms", "Since the job took its status RUNNING; 0 if it does not", views, _uptime)
    yield _of_jobs("snapline_job_restarts_total", "Attempts that failed", views, lambda view: view.failed_attempts)
    for name, text, of_view in _OF_SLOTS:
        yield _gauge(
            name,
            text,
            ("job", "slot"),
            [
                ([_label(view.job_id), str(slot)], size)
                for view in views
                for slot, size in sorted(of_view(view).items())[:MAX_SUBTASKS]
            ],
        )
    limited = [view for view in views if view.execution.state_memory_bytes is not None]
    yield _of_jobs(
        "snapline_state_memory_limit_bytes",
        "The most that state in RocksDB may take in a slot",
        limited,
        lambda view: view.execution.state_memory_bytes or 0,
    )


def _checkpoint_metrics(views: Sequence[JobView]) -> Iterator[Metric]:
    for name, text, of_last in _OF_LAST:
        yield _gauge(
            name,
            text,
            ("job",),
            [([_label(view.job_id)], of_last(record)) for view in views if (record := _last(view)) is not None],
        )
    yield _of_jobs("snapline_job_last_checkpoint_restore_timestamp_ms", "The last restore", views, _restore_ms)
    for name, text, count in _COUNTS:
        samples = [([_label(view.job_id)], float(count(view.statistics.counts))) for view in views]
        yield _gauge(name, text, ("job",), samples)
    yield _counter(
        "snapline_job_failed_checkpoints",
        "Checkpoints that have failed or could not start, by reason",
        ("job", "reason"),
        [
            ([_label(view.job_id), reason.value], count)
            for view in views
            for reason, count in view.statistics.failures_by_reason.items()
        ],
    )


_COUNTS: tuple[tuple[str, str, Callable[[CheckpointCounts], int]], ...] = (
    (
        "snapline_job_number_of_in_progress_checkpoints",
        "Checkpoints that are under way",
        lambda counts: counts.in_progress,
    ),
    (
        "snapline_job_number_of_completed_checkpoints",
        "Checkpoints that have completed",
        lambda counts: counts.completed,
    ),
    (
        "snapline_job_number_of_failed_checkpoints",
        "Checkpoints that have failed or could not start",
        lambda counts: counts.failed,
    ),
    ("snapline_job_total_number_of_checkpoints", "All checkpoints", lambda counts: counts.total),
    ("snapline_job_number_of_restores", "Starts from a checkpoint", lambda counts: counts.restored),
)

_OF_SLOTS: tuple[tuple[str, str, Callable[[JobView], Mapping[int, int]]], ...] = (
    ("snapline_slot_memory_bytes", "Memory of the process of a slot", lambda view: view.memory_bytes),
    (
        "snapline_slot_state_memory_bytes",
        "What state in RocksDB takes in a slot, if its memory is limited",
        lambda view: view.state_memory_bytes,
    ),
)

_OF_LAST: tuple[tuple[str, str, Callable[[CheckpointRecord], float]], ...] = (
    (
        "snapline_job_last_checkpoint_duration_ms",
        "From the trigger to the last acknowledgement of the last completed checkpoint",
        lambda record: record.end_to_end_duration_ms,
    ),
    (
        "snapline_job_last_checkpoint_size_bytes",
        "What the last completed checkpoint has written",
        lambda record: record.totals.checkpointed_bytes,
    ),
    (
        "snapline_job_last_checkpoint_full_size_bytes",
        "The state in the last completed checkpoint, reused files included",
        lambda record: record.totals.state_bytes,
    ),
    (
        "snapline_job_last_checkpoint_metadata_size_bytes",
        "The metadata of the last completed checkpoint",
        lambda record: 0 if record.completion is None else record.completion.metadata_bytes,
    ),
    ("snapline_job_last_completed_checkpoint_id", "The last completed checkpoint", lambda record: record.id),
    (
        "snapline_job_last_checkpoint_completed_timestamp_ms",
        "When the last completed checkpoint completed",
        lambda record: -1 if record.completion is None else record.completion.completed_ms,
    ),
    (
        "snapline_job_last_checkpoint_processed_data_bytes",
        "Data processed during the alignment of the last completed checkpoint",
        lambda record: record.totals.processed_bytes,
    ),
    (
        "snapline_job_last_checkpoint_persisted_data_bytes",
        "In-flight data in the last completed checkpoint",
        lambda record: record.totals.persisted_bytes,
    ),
)


def _task_metrics(views: Sequence[JobView]) -> Iterator[Metric]:
    for name, text, is_counter, merge, value in _OF_TASKS:
        samples = [sample for view in views for sample in _task_samples(view, merge, value)]
        labels = ("job", "vertex", "subtask")
        yield _counter(name, text, labels, samples) if is_counter else _gauge(name, text, labels, samples)


_Merge: TypeAlias = Callable[[Iterable[float]], float]
_Value: TypeAlias = Callable[[_Reported], float | None]

_OF_TASKS: tuple[tuple[str, str, bool, _Merge, _Value], ...] = (
    ("snapline_task_rows_in", "Rows read", True, sum, lambda task: task.metrics.rows_in),
    ("snapline_task_rows_out", "Rows emitted", True, sum, lambda task: task.metrics.rows_out),
    ("snapline_task_bytes_in", "Bytes read", True, sum, lambda task: task.metrics.bytes_in),
    ("snapline_task_bytes_out", "Bytes emitted", True, sum, lambda task: task.metrics.bytes_out),
    ("snapline_task_late_rows", "Rows that came too late", True, sum, lambda task: task.metrics.late_rows),
    ("snapline_task_bad_rows", "Rows that could not be processed", True, sum, lambda task: task.metrics.bad_rows),
    (
        "snapline_task_rows_in_per_second",
        "Rows read per second",
        False,
        sum,
        lambda task: task.view.rows_in_per_second,
    ),
    (
        "snapline_task_rows_out_per_second",
        "Rows emitted per second",
        False,
        sum,
        lambda task: task.view.rows_out_per_second,
    ),
    (
        "snapline_task_busy_ratio",
        "Share of the last interval that was spent on rows",
        False,
        max,
        lambda task: share(task.metrics.busy_ms, task.metrics.interval_ms),
    ),
    (
        "snapline_task_idle_ratio",
        "Share of the last interval without anything to do",
        False,
        min,
        lambda task: share(task.metrics.idle_ms, task.metrics.interval_ms),
    ),
    (
        "snapline_task_backpressured_ratio",
        "Share of the last interval that was spent waiting for those downstream",
        False,
        max,
        lambda task: share(task.metrics.backpressured_ms, task.metrics.interval_ms),
    ),
    ("snapline_task_watermark_ms", "Event time", False, min, lambda task: task.metrics.watermark_ms),
    ("snapline_task_queued_in_bytes", "Input that waits", False, sum, lambda task: task.metrics.queued_in_bytes),
    ("snapline_task_queued_out_bytes", "Output that waits", False, sum, lambda task: task.metrics.queued_out_bytes),
    ("snapline_task_stuck_ms", "How long it has been in one call", False, max, lambda task: task.view.stuck_ms),
    (
        "snapline_task_waiting_commits",
        "Output of completed checkpoints that is not committed yet",
        False,
        sum,
        lambda task: None if task.metrics.commits is None else task.metrics.commits.waiting,
    ),
    (
        "snapline_task_latency_ms",
        "The greatest latency of a marker from a source in the last interval",
        False,
        max,
        lambda task: max(task.metrics.latency_ms, default=None),
    ),
)


def _task_samples(view: JobView, merge: _Merge, value: _Value) -> Iterator[_Sample]:
    job, is_in_detail = _label(view.job_id), len(view.subtasks) <= MAX_SUBTASKS
    for vertex, subtasks in by_vertex(view):
        found = [
            (task.id.index, number)
            for task in subtasks
            if task.metrics is not None and (number := value(_Reported(task, task.metrics))) is not None
        ]
        if is_in_detail:
            yield from (([job, _label(vertex.id), str(index)], number) for index, number in found)
        elif found:
            yield [job, _label(vertex.id), ""], merge([number for _, number in found])


def _last_parts(views: Sequence[JobView]) -> Iterator[Metric]:
    """The subtasks' parts in the last completed checkpoint, with the names of Flink's task metrics."""
    for name, text, value in _OF_PARTS:
        samples: list[_Sample] = []
        for view in views:
            for vertex_id, reported in _parts(view):
                numbers = [(index, number) for index, metrics in reported if (number := value(metrics)) >= 0]
                job, vertex = _label(view.job_id), _label(vertex_id)
                if len(view.subtasks) <= MAX_SUBTASKS:
                    samples += [([job, vertex, str(index)], number) for index, number in numbers]
                elif numbers:
                    samples.append(([job, vertex, ""], max(number for _, number in numbers)))
        yield _gauge(name, text, ("job", "vertex", "subtask"), samples)


_OF_PARTS: tuple[tuple[str, str, Callable[[SubtaskMetrics], int]], ...] = (
    (
        "snapline_task_checkpoint_alignment_time_ms",
        "How long the last completed checkpoint took to align",
        lambda metrics: metrics.alignment_ms,
    ),
    (
        "snapline_task_checkpoint_start_delay_ms",
        "How long the first barrier of the last completed checkpoint was on its way",
        lambda metrics: metrics.start_delay_ms,
    ),
)


def _parts(view: JobView) -> Iterator[tuple[str, list[tuple[int, SubtaskMetrics]]]]:
    record = _last(view)
    for part in () if record is None else record.vertices:
        yield part.vertex, [(task.index, task.metrics) for task in part.subtasks if task.metrics is not None]


def _of_jobs(name: str, text: str, views: Sequence[JobView], value: Callable[[JobView], float | None]) -> Metric:
    samples = [([_label(view.job_id)], number) for view in views if (number := value(view)) is not None]
    is_counter = name.endswith("_total")
    make = _counter if is_counter else _gauge
    return make(name.removesuffix("_total"), text, ("job",), samples)


def _gauge(name: str, text: str, labels: Sequence[str], samples: Iterable[_Sample]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _counter(name: str, text: str, labels: Sequence[str], samples: Iterable[_Sample]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _health(view: JobView) -> float:
    return _LEVELS.index(view.health.level)


def _uptime(view: JobView) -> float:
    since_ms = view.status_times.get(JobStatus.RUNNING)
    return max(view.now_ms - since_ms, 0) if view.status is JobStatus.RUNNING and since_ms is not None else 0


def _restore_ms(view: JobView) -> float | None:
    restored = view.statistics.latest.restored
    return None if restored is None else restored.restore_ms


def _last(view: JobView) -> CheckpointRecord | None:
    return view.statistics.latest.completed


def _label(text: str) -> str:
    return text[:MAX_LABEL_CHARACTERS]
