"""Answers about jobs in the shapes of Flink's REST interface. Names of fields are Flink's.

Times are epoch milliseconds, durations milliseconds, sizes bytes; -1 is not known.
"""

from __future__ import annotations

from msgspec import Struct, field


class Features(Struct, frozen=True, rename="kebab"):
    web_submit: bool
    web_cancel: bool
    web_rescale: bool
    web_history: bool


class DashboardConfiguration(Struct, frozen=True, rename="kebab"):
    """What the dashboard asks for first."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: Features


class ClusterOverview(Struct, frozen=True, rename="kebab"):
    """All jobs of the program, counted."""

    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str


class JobIdWithStatus(Struct, frozen=True):
    id: str
    status: str


class JobIds(Struct, frozen=True):
    jobs: list[JobIdWithStatus]


class JobSummary(Struct, frozen=True, rename="kebab"):
    """One job in a list. `tasks` counts its subtasks by state, in lower case, and in all."""

    jid: str
    name: str
    job_type: str = field(name="jobType")
    scheduler_type: str = field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    state: str
    last_modification: int
    tasks: dict[str, int]
    pending_operators: int = 0


class JobsOverview(Struct, frozen=True):
    jobs: list[JobSummary]


class ApplicationSummary(Struct, frozen=True, rename="kebab"):
    """An application; every job is one."""

    id: str
    name: str
    start_time: int
    end_time: int
    duration: int
    status: str
    jobs: dict[str, int]


class ApplicationsOverview(Struct, frozen=True):
    applications: list[ApplicationSummary]


class ApplicationDetails(Struct, frozen=True, rename="kebab"):
    id: str
    name: str
    status: str
    start_time: int
    end_time: int
    duration: int
    timestamps: dict[str, int]
    jobs: list[JobSummary]


class IoMetrics(Struct, frozen=True, rename="kebab"):
    """Rows, bytes and times since a task began. `..._complete` is false until every subtask has reported."""

    read_bytes: int
    read_bytes_complete: bool
    write_bytes: int
    write_bytes_complete: bool
    read_records: int
    read_records_complete: bool
    write_records: int
    write_records_complete: bool
    accumulated_backpressured_time: int
    accumulated_idle_time: int
    accumulated_busy_time: int


class JobVertex(Struct, frozen=True, rename="kebab"):
    id: str
    slot_sharing_group_id: str = field(name="slotSharingGroupId")
    name: str
    max_parallelism: int = field(name="maxParallelism")
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: dict[str, int]
    metrics: IoMetrics


class PlanInput(Struct, frozen=True):
    num: int
    id: str
    ship_strategy: str
    exchange: str
    local_strategy: str | None = None
    caching: str | None = None


class PlanNode(Struct, frozen=True):
    """A vertex of the plan. `description` is HTML, as the dashboard expects."""

    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    optimizer_properties: dict[str, str]
    inputs: list[PlanInput]


class JobPlan(Struct, frozen=True):
    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobDetails(Struct, frozen=True, rename="kebab"):
    jid: str
    name: str
    is_stoppable: bool = field(name="isStoppable")
    state: str
    job_type: str
    scheduler_type: str = field(name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    timestamps: dict[str, int]
    vertices: list[JobVertex]
    status_counts: dict[str, int]
    plan: JobPlan
    stream_graph: JobPlan | None
    pending_operators: int
    application_id: str


class SubtaskExecution(Struct, frozen=True, rename="kebab"):
    """One subtask in its newest attempt; `start_time` is there twice, as older and newer clients expect it."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int
    start_time_too: int = field(name="start_time")
    end_time: int
    duration: int
    metrics: IoMetrics
    taskmanager_id: str
    status_duration: dict[str, int]
    other_concurrent_attempts: list[int]


class Aggregate(Struct, frozen=True):
    """A figure over the subtasks of a vertex."""

    min: int
    max: int
    avg: int
    sum: int
    median: float
    p25: float
    p75: float
    p95: float


class AggregatedSubtasks(Struct, frozen=True, rename="kebab"):
    metrics: dict[str, Aggregate]
    status_duration: dict[str, Aggregate]


class VertexDetails(Struct, frozen=True):
    id: str
    name: str
    parallelism: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    subtasks: list[SubtaskExecution]
    aggregated: AggregatedSubtasks


class ExceptionEntry(Struct, frozen=True):
    exception_name: str = field(name="exceptionName")
    stacktrace: str
    timestamp: int
    task_name: str | None = field(name="taskName")
    endpoint: str | None
    task_manager_id: str | None = field(name="taskManagerId")
    failure_labels: dict[str, str] = field(name="failureLabels")
    concurrent_exceptions: list[str] = field(name="concurrentExceptions")


class ExceptionHistory(Struct, frozen=True):
    entries: list[ExceptionEntry]
    truncated: bool


class JobExceptions(Struct, frozen=True):
    exception_history: ExceptionHistory = field(name="exceptionHistory")


class Nothing(Struct, frozen=True):
    """An empty object: the call is accepted, and there is nothing to say."""
