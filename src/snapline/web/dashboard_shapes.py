"""Vertices, settings and task managers in the shapes that Flink's dashboard asks for."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version

import msgspec

from snapline.protocol.statistics.job_view import JobView, SubtaskView, VertexView
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import TaskStatus
from snapline.web.dashboard_types import (
    AggregatedMetric,
    ApplicationException,
    ApplicationExceptionHistory,
    ApplicationExceptions,
    BackPressure,
    DriverEnvironment,
    ExecutionConfiguration,
    FlameGraph,
    Hardware,
    JobAccumulators,
    JobConfiguration,
    Metric,
    Setting,
    SubtaskAccumulators,
    SubtaskBackPressure,
    SubtaskTimes,
    TaskManager,
    TaskManagers,
    VertexAccumulators,
    VertexTaskManager,
    VertexTaskManagers,
    VertexTimes,
    VirtualMachine,
)
from snapline.web.flink_shapes import (
    EXECUTION_STATES,
    NO_TIME,
    UNASSIGNED,
    io_metrics,
    job_exceptions,
    shown_attempt,
    task_manager_id,
)
from snapline.web.own_shapes import share, vertex_status
from snapline.web.rest_ids import hex_id
from snapline.web.security import Access
from snapline.web.settings_shape import configuration

NO_WATERMARK = -(1 << 63)
FLAME_GRAPHS_DISABLED = -2
LOW, HIGH = 0.1, 0.5
"""Shares of back-pressured time above which its level is low, or high."""

AGGREGATES = ("min", "max", "avg", "sum", "skew")

_Measure = Callable[[SubtaskView, TaskMetrics], float]


def _per_second(part_ms: int, metrics: TaskMetrics) -> int:
    return round(1000 * share(part_ms, metrics.interval_ms))


_MEASURES: dict[str, _Measure] = {
    "backPressuredTimeMsPerSecond": lambda _, metrics: _per_second(metrics.backpressured_ms, metrics),
    "busyTimeMsPerSecond": lambda _, metrics: _per_second(metrics.busy_ms, metrics),
    "currentInputWatermark": lambda _, metrics: NO_WATERMARK if metrics.watermark_ms is None else metrics.watermark_ms,
    "idleTimeMsPerSecond": lambda _, metrics: _per_second(metrics.idle_ms, metrics),
    "numBytesIn": lambda _, metrics: metrics.bytes_in,
    "numBytesOut": lambda _, metrics: metrics.bytes_out,
    "numLateRecordsDropped": lambda _, metrics: metrics.late_rows,
    "numRecordsIn": lambda _, metrics: metrics.rows_in,
    "numRecordsInPerSecond": lambda subtask, _: round(subtask.rows_in_per_second, 3),
    "numRecordsOut": lambda _, metrics: metrics.rows_out,
    "numRecordsOutPerSecond": lambda subtask, _: round(subtask.rows_out_per_second, 3),
}
"""Flink's names of what we measure, too."""


def vertex_metrics(subtasks: Sequence[SubtaskView], wanted: Iterable[str] | None) -> list[Metric]:
    """Metrics by their ids, `<index>.<name>`; those that are not known are left out. None lists all ids."""
    known = {
        f"{subtask.id.index}.{name}": (subtask, subtask.metrics, measure)
        for subtask in subtasks
        if subtask.metrics is not None
        for name, measure in _MEASURES.items()
    }
    if wanted is None:
        return [Metric(id) for id in known]
    found = ((id, known[id]) for id in wanted if id in known)
    return [Metric(id, str(measure(subtask, metrics))) for id, (subtask, metrics, measure) in found]


def aggregated_metrics(
    subtasks: Sequence[SubtaskView], wanted: Iterable[str] | None, aggregates: Sequence[str]
) -> list[AggregatedMetric]:
    """The same over all subtasks, by name, with those `AGGREGATES` that are asked for. None lists all names."""
    if wanted is None:
        return [AggregatedMetric(name) for name in _MEASURES]
    reported = [(subtask, subtask.metrics) for subtask in subtasks if subtask.metrics is not None]
    if not reported:
        return []
    found: list[AggregatedMetric] = []
    for name in (name for name in wanted if name in _MEASURES):
        values = [_MEASURES[name](subtask, metrics) for subtask, metrics in reported]
        made = {"min": min(values), "max": max(values), "avg": sum(values) / len(values), "sum": sum(values)}
        made["skew"] = _skew(values)
        found.append(AggregatedMetric(name, **{kind: float(made[kind]) for kind in AGGREGATES if kind in aggregates}))
    return found


def _skew(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    if not mean:
        return 0.0
    return min(100.0, 100.0 * sum(abs(value - mean) for value in values) / len(values) / abs(mean))


def watermarks(subtasks: Sequence[SubtaskView]) -> list[Metric]:
    """The watermark of each subtask that has reported."""
    return vertex_metrics(subtasks, [f"{subtask.id.index}.currentInputWatermark" for subtask in subtasks])


def back_pressure(view: JobView, subtasks: Sequence[SubtaskView]) -> BackPressure:
    rows = [_subtask_back_pressure(subtask, subtask.metrics) for subtask in subtasks if subtask.metrics is not None]
    level = _level(max((row.ratio for row in rows), default=0.0))
    return BackPressure("ok", level, level, view.now_ms, rows)


def _subtask_back_pressure(subtask: SubtaskView, metrics: TaskMetrics) -> SubtaskBackPressure:
    interval_ms = metrics.interval_ms
    ratio = share(metrics.backpressured_ms, interval_ms)
    level = _level(ratio)
    idle, busy = share(metrics.idle_ms, interval_ms), share(metrics.busy_ms, interval_ms)
    return SubtaskBackPressure(subtask.id.index, shown_attempt(subtask), level, level, ratio, idle, busy)


def _level(ratio: float) -> str:
    return "high" if ratio > HIGH else "low" if ratio > LOW else "ok"


def vertex_times(view: JobView, vertex: VertexView, subtasks: Sequence[SubtaskView]) -> VertexTimes:
    """When subtasks took their states. Of those between the first and the present one the times are not known."""
    return VertexTimes(
        hex_id(vertex.id), vertex.name, view.now_ms, [_subtask_times(view, subtask) for subtask in subtasks]
    )


def _subtask_times(view: JobView, subtask: SubtaskView) -> SubtaskTimes:
    times = dict.fromkeys(EXECUTION_STATES, 0)
    times["DEPLOYING"] = subtask.started_ms
    times[subtask.status.value] = subtask.since_ms
    until_ms = view.now_ms if _is_running(view, subtask.status) else subtask.since_ms
    host = subtask.host or UNASSIGNED
    return SubtaskTimes(subtask.id.index, host, host, max(until_ms - subtask.started_ms, 0), times)


def _is_running(view: JobView, status: TaskStatus) -> bool:
    return view.ended_ms is None and status in (TaskStatus.CREATED, TaskStatus.DEPLOYING, TaskStatus.RUNNING)


def vertex_task_managers(view: JobView, vertex: VertexView, subtasks: Sequence[SubtaskView]) -> VertexTaskManagers:
    by_manager: dict[str, list[SubtaskView]] = {}
    for subtask in subtasks:
        by_manager.setdefault(task_manager_id(view, subtask), []).append(subtask)
    rows = [_vertex_task_manager(view, id, found) for id, found in by_manager.items()]
    return VertexTaskManagers(hex_id(vertex.id), vertex.name, view.now_ms, rows)


def _vertex_task_manager(view: JobView, id: str, subtasks: Sequence[SubtaskView]) -> VertexTaskManager:
    status = vertex_status(subtasks)
    started_ms = min(subtask.started_ms for subtask in subtasks)
    ended_ms = NO_TIME if _is_running(view, status) else max(subtask.since_ms for subtask in subtasks)
    counted = Counter(subtask.status.value for subtask in subtasks)
    host = subtasks[0].host or UNASSIGNED
    return VertexTaskManager(
        host=host,
        endpoint=host,
        status=status.value,
        start_time=started_ms,
        end_time=ended_ms,
        duration=max((view.now_ms if ended_ms == NO_TIME else ended_ms) - started_ms, 0),
        metrics=io_metrics(subtasks),
        status_counts={state: counted[state] for state in EXECUTION_STATES},
        taskmanager_id=id,
    )


def job_accumulators() -> JobAccumulators:
    return JobAccumulators([], [], {})


def vertex_accumulators(vertex: VertexView) -> VertexAccumulators:
    return VertexAccumulators(hex_id(vertex.id), [])


def subtask_accumulators(vertex: VertexView) -> SubtaskAccumulators:
    return SubtaskAccumulators(hex_id(vertex.id), vertex.parallelism, [])


def flame_graph() -> FlameGraph:
    return FlameGraph(FLAME_GRAPHS_DISABLED, None)


def job_configuration(view: JobView) -> JobConfiguration:
    """What the job runs with; all settings as text."""
    settings = configuration(view)
    parts = {"checkpoints": settings.checkpoints, "execution": settings.execution, "monitoring": settings.monitoring}
    texts = {
        f"{part}.{name}": value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for part, values in parts.items()
        for name, value in values.items()
        if value is not None
    }
    details = ", ".join(f"{name}: {value}" for name, value in settings.restart.items() if name != "strategy")
    restart = f"{settings.restart['strategy']} ({details})" if details else str(settings.restart["strategy"])
    parallelism = max((vertex.parallelism for vertex in view.plan.vertices), default=1)
    return JobConfiguration(
        hex_id(view.job_id),
        view.name,
        ExecutionConfiguration(restart, parallelism, object_reuse_mode=True, user_config=texts),
    )


def application_exceptions(view: JobView, most: int) -> ApplicationExceptions:
    entries = job_exceptions(view, most).exception_history.entries
    job_id = hex_id(view.job_id)
    return ApplicationExceptions(
        ApplicationExceptionHistory(
            [ApplicationException(entry.exception_name, entry.stacktrace, entry.timestamp, job_id) for entry in entries]
        )
    )


def task_managers(views: Iterable[JobView]) -> TaskManagers:
    """The operator processes of all running jobs."""
    found: list[TaskManager] = []
    for view in views:
        by_manager: dict[str, list[SubtaskView]] = {}
        for subtask in view.subtasks:
            if subtask.host and _is_running(view, subtask.status):
                by_manager.setdefault(task_manager_id(view, subtask), []).append(subtask)
        found += [_task_manager(view, id, subtasks) for id, subtasks in by_manager.items()]
    return TaskManagers(found)


def _task_manager(view: JobView, id: str, subtasks: Sequence[SubtaskView]) -> TaskManager:
    first = subtasks[0]
    return TaskManager(
        id=id,
        path=first.host,
        data_port=NO_TIME,
        jmx_port=NO_TIME,
        time_since_last_heartbeat=view.now_ms,
        slots_number=1,
        free_slots=0,
        assigned_tasks=len(subtasks),
        hardware=Hardware(0, 0, view.memory_bytes.get(first.id.index, 0), 0),
    )


def driver_settings(access: Access) -> list[Setting]:
    """What concerns the driver, and not one of its jobs."""
    return [
        Setting("rest.port", str(access.port)),
        Setting("snapline.version", version("snapline")),
        Setting("web.cancel.enable", "false" if access.read_only else "true"),
        Setting("web.submit.enable", "false"),
    ]


def driver_environment() -> DriverEnvironment:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return DriverEnvironment(VirtualMachine(python, platform.machine(), []), [])
