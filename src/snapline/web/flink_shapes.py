"""Jobs in the shapes of Flink's REST interface."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version

from snapline.protocol.statistics.job_view import AttemptFailure, JobView, PlanView, SubtaskView, VertexView
from snapline.protocol.statistics.summary import percentile
from snapline.types import JobStatus, TaskStatus
from snapline.web.flink_types import (
    Aggregate,
    AggregatedSubtasks,
    ApplicationDetails,
    ApplicationSummary,
    ClusterOverview,
    DashboardConfiguration,
    ExceptionEntry,
    ExceptionHistory,
    Features,
    IoMetrics,
    JobDetails,
    JobExceptions,
    JobIdWithStatus,
    JobPlan,
    JobSummary,
    JobVertex,
    PlanInput,
    PlanNode,
    SubtaskExecution,
    VertexDetails,
)
from snapline.web.own_shapes import by_vertex, vertex_status
from snapline.web.rest_ids import hex_id

REFRESH_INTERVAL_MS = 3000
NO_TIME = -1

JOB_TYPE = "STREAMING"
SCHEDULER = "Default"
UNASSIGNED = "(unassigned)"

EXECUTION_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
    "INITIALIZING",
)
_EXCEPTION_NAME = re.compile(r"(?:\S+#[0-9]+: )?([A-Za-z_][\w.]*):")
"""The name of an exception at the beginning of a cause, behind that of the execution it is from."""

_JOB_STATES = (*(status.value for status in JobStatus), "RECONCILING")
_RUNNING = (TaskStatus.CREATED, TaskStatus.DEPLOYING, TaskStatus.RUNNING)


def dashboard_configuration(*, can_cancel: bool) -> DashboardConfiguration:
    """What the dashboard asks for before anything else."""
    local = time.localtime()
    return DashboardConfiguration(
        REFRESH_INTERVAL_MS,
        local.tm_zone,
        local.tm_gmtoff * 1000,
        version("snapline"),
        f"snapline {version('snapline')}",
        Features(web_submit=False, web_cancel=can_cancel, web_rescale=False, web_history=False),
    )


def cluster_overview(views: Iterable[JobView]) -> ClusterOverview:
    """All jobs together. Every subtask index has a slot, which subtasks of all vertices share."""
    running, ended = [], Counter[JobStatus]()
    for view in views:
        if view.ended_ms is None and not view.status.is_globally_terminal:
            running.append(view)
        else:
            ended[view.status] += 1
    processes = {task_manager_id(view, subtask) for view in running for subtask in view.subtasks if subtask.host}
    return ClusterOverview(
        taskmanagers=len(processes),
        slots_total=sum(max((vertex.parallelism for vertex in view.plan.vertices), default=0) for view in running),
        slots_available=0,
        jobs_running=len(running),
        jobs_finished=ended[JobStatus.FINISHED],
        jobs_cancelled=ended[JobStatus.CANCELED],
        jobs_failed=ended[JobStatus.FAILED],
        flink_version=version("snapline"),
        flink_commit=f"snapline {version('snapline')}",
    )


def job_id_with_status(view: JobView) -> JobIdWithStatus:
    return JobIdWithStatus(hex_id(view.job_id), view.status.value)


def job_summary(view: JobView) -> JobSummary:
    """A job as it is in lists."""
    counted = Counter(subtask.status.value for subtask in view.subtasks)
    return JobSummary(
        jid=hex_id(view.job_id),
        name=view.name,
        job_type=JOB_TYPE,
        scheduler_type=SCHEDULER,
        start_time=view.started_ms,
        end_time=_end_ms(view),
        duration=_duration_ms(view),
        state=view.status.value,
        last_modification=max(view.status_times.values(), default=view.started_ms),
        tasks={"total": len(view.subtasks), **{state.lower(): counted[state] for state in EXECUTION_STATES}},
    )


def application_summary(view: JobView) -> ApplicationSummary:
    return ApplicationSummary(
        hex_id(view.job_id),
        view.name,
        view.started_ms,
        _end_ms(view),
        _duration_ms(view),
        view.status.value,
        {view.status.value: 1},
    )


def application_details(view: JobView) -> ApplicationDetails:
    return ApplicationDetails(
        hex_id(view.job_id),
        view.name,
        view.status.value,
        view.started_ms,
        _end_ms(view),
        _duration_ms(view),
        _timestamps(view),
        [job_summary(view)],
    )


def job_details(view: JobView) -> JobDetails:
    """A job with its vertices and its plan."""
    vertices = [_job_vertex(view, vertex, subtasks) for vertex, subtasks in by_vertex(view)]
    states = Counter(vertex.status for vertex in vertices)
    return JobDetails(
        jid=hex_id(view.job_id),
        name=view.name,
        is_stoppable=False,
        state=view.status.value,
        job_type=JOB_TYPE,
        scheduler_type=SCHEDULER,
        start_time=view.started_ms,
        end_time=_end_ms(view),
        duration=_duration_ms(view),
        max_parallelism=max((vertex.max_parallelism for vertex in view.plan.vertices), default=NO_TIME),
        now=view.now_ms,
        timestamps=_timestamps(view),
        vertices=vertices,
        status_counts={state: states[state] for state in EXECUTION_STATES},
        plan=JobPlan(hex_id(view.job_id), view.name, JOB_TYPE, _nodes(view.plan)),
        stream_graph=None,
        pending_operators=0,
        application_id=hex_id(view.job_id),
    )


def vertex_details(view: JobView, vertex: VertexView) -> VertexDetails:
    """A vertex with its subtasks."""
    subtasks = [_subtask_execution(view, subtask) for subtask in view.subtasks_of(vertex.id)]
    aggregated = AggregatedSubtasks(_aggregated_metrics(subtasks), _aggregated_durations(subtasks))
    return VertexDetails(
        hex_id(vertex.id),
        vertex.name,
        vertex.parallelism,
        vertex.max_parallelism,
        view.now_ms,
        subtasks,
        aggregated,
    )


def job_exceptions(view: JobView, most: int) -> JobExceptions:
    """The latest failures, newest first."""
    entries = [_exception_entry(view, failure) for failure in view.failures[:most]]
    return JobExceptions(ExceptionHistory(entries, view.failed_attempts > len(entries)))


def _end_ms(view: JobView) -> int:
    return NO_TIME if view.ended_ms is None else view.ended_ms


def _duration_ms(view: JobView) -> int:
    return max((view.now_ms if view.ended_ms is None else view.ended_ms) - view.started_ms, 0)


def _timestamps(view: JobView) -> dict[str, int]:
    times = {status.value: at_ms for status, at_ms in view.status_times.items()}
    return {state: times.get(state, 0) for state in _JOB_STATES}


def _job_vertex(view: JobView, vertex: VertexView, subtasks: Sequence[SubtaskView]) -> JobVertex:
    status = vertex_status(subtasks)
    counted = Counter(subtask.status.value for subtask in subtasks)
    started_ms = min((subtask.started_ms for subtask in subtasks), default=NO_TIME)
    ended_ms = NO_TIME if status in _RUNNING else max((subtask.since_ms for subtask in subtasks), default=NO_TIME)
    until_ms = view.now_ms if ended_ms == NO_TIME else ended_ms
    return JobVertex(
        id=hex_id(vertex.id),
        slot_sharing_group_id=hex_id(view.job_id),
        name=vertex.name,
        max_parallelism=vertex.max_parallelism,
        parallelism=vertex.parallelism,
        status=status.value,
        start_time=started_ms,
        end_time=ended_ms,
        duration=NO_TIME if started_ms == NO_TIME else max(until_ms - started_ms, 0),
        tasks={state: counted[state] for state in EXECUTION_STATES},
        metrics=io_metrics(subtasks),
    )


def io_metrics(subtasks: Sequence[SubtaskView]) -> IoMetrics:
    """The figures of subtasks, added up."""
    reported = [subtask.metrics for subtask in subtasks if subtask.metrics is not None]
    is_complete = len(reported) == len(subtasks)
    return IoMetrics(
        sum(metrics.bytes_in for metrics in reported),
        is_complete,
        sum(metrics.bytes_out for metrics in reported),
        is_complete,
        sum(metrics.rows_in for metrics in reported),
        is_complete,
        sum(metrics.rows_out for metrics in reported),
        is_complete,
        sum(subtask.backpressured_ms for subtask in subtasks),
        sum(subtask.idle_ms for subtask in subtasks),
        sum(subtask.busy_ms for subtask in subtasks),
    )


def _nodes(plan: PlanView) -> list[PlanNode]:
    inputs: dict[str, list[PlanInput]] = {vertex.id: [] for vertex in plan.vertices}
    for edge in plan.edges:
        known = inputs[edge.target]
        known.append(PlanInput(len(known), hex_id(edge.source), edge.partitioning.value, "pipelined_bounded"))
    # The dashboard shows descriptions as HTML.
    return [
        PlanNode(hex_id(vertex.id), vertex.parallelism, "", "", escape(vertex.name), {}, inputs[vertex.id])
        for vertex in plan.vertices
    ]


def _subtask_execution(view: JobView, subtask: SubtaskView) -> SubtaskExecution:
    is_running = subtask.status in _RUNNING
    until_ms = view.now_ms if is_running and view.ended_ms is None else subtask.since_ms
    in_status_ms = max(view.now_ms - subtask.since_ms, 0) if is_running else 0
    durations = dict.fromkeys(EXECUTION_STATES, NO_TIME)
    durations[subtask.status.value] = in_status_ms
    return SubtaskExecution(
        subtask=subtask.id.index,
        status=subtask.status.value,
        attempt=shown_attempt(subtask),
        endpoint=subtask.host or UNASSIGNED,
        start_time=subtask.started_ms,
        start_time_too=subtask.started_ms,
        end_time=NO_TIME if is_running else subtask.since_ms,
        duration=max(until_ms - subtask.started_ms, 0),
        metrics=io_metrics([subtask]),
        taskmanager_id=task_manager_id(view, subtask),
        status_duration=durations,
        other_concurrent_attempts=[],
    )


def task_manager_id(view: JobView, subtask: SubtaskView) -> str:
    """The name of the operator process of a subtask. Each job has its own, one for each slot."""
    return f"{subtask.host}-{hex_id(view.job_id)[:8]}-slot-{subtask.id.index}" if subtask.host else UNASSIGNED


def shown_attempt(subtask: SubtaskView) -> int:
    """Flink counts attempts from 0."""
    return max(subtask.attempt - 1, 0)


_METRICS = (
    ("read-bytes", "read_bytes"),
    ("write-bytes", "write_bytes"),
    ("read-records", "read_records"),
    ("write-records", "write_records"),
    ("accumulated-backpressured-time", "accumulated_backpressured_time"),
    ("accumulated-idle-time", "accumulated_idle_time"),
    ("accumulated-busy-time", "accumulated_busy_time"),
)


def _aggregated_metrics(subtasks: Sequence[SubtaskExecution]) -> dict[str, Aggregate]:
    return {name: _aggregate([getattr(subtask.metrics, field) for subtask in subtasks]) for name, field in _METRICS}


def _aggregated_durations(subtasks: Sequence[SubtaskExecution]) -> dict[str, Aggregate]:
    return {state: _aggregate([subtask.status_duration[state] for subtask in subtasks]) for state in EXECUTION_STATES}


def _aggregate(values: list[int]) -> Aggregate:
    ordered = sorted(values) or [0]
    quarter, median, three_quarters, p95 = (percentile(ordered, permille) for permille in (250, 500, 750, 950))
    total = sum(ordered)
    return Aggregate(ordered[0], ordered[-1], total // len(ordered), total, median, quarter, three_quarters, p95)


def _exception_entry(view: JobView, failure: AttemptFailure) -> ExceptionEntry:
    subtask = next((item for item in view.subtasks if item.id == failure.subtask), None)
    return ExceptionEntry(
        exception_name=_exception_name(failure.cause),
        stacktrace=failure.trace or failure.cause,
        timestamp=failure.at_ms,
        task_name=None if failure.subtask is None else str(failure.subtask),
        endpoint=None if subtask is None else subtask.host or UNASSIGNED,
        task_manager_id=None if subtask is None else task_manager_id(view, subtask),
        failure_labels={},
        concurrent_exceptions=[],
    )


def _exception_name(cause: str) -> str:
    """The name of the error in a text such as `clicks/1#2: ValueError: it broke`."""
    *parts, _ = cause.split(": ")[:3]
    return next((part for part in parts if part.replace(".", "_").isidentifier()), "Failure")
