"""What Flink's dashboard asks for beside jobs and checkpoints, in the shapes of Flink's REST interface.

Times are epoch milliseconds, durations milliseconds, sizes bytes; -1 is not known.
"""

from __future__ import annotations

from msgspec import Struct, field

from snapline.web.flink_types import IoMetrics


class Metric(Struct, frozen=True, omit_defaults=True):
    """A figure of a subtask, `<index>.<name>`. Without a value where only names were asked for."""

    id: str
    value: str | None = None


class AggregatedMetric(Struct, frozen=True, omit_defaults=True):
    """A figure over the subtasks of a vertex. `skew` is their mean distance from the mean, in percent of it."""

    id: str
    min: float | None = None
    max: float | None = None
    avg: float | None = None
    sum: float | None = None
    skew: float | None = None


class SubtaskBackPressure(Struct, frozen=True, rename="kebab"):
    """Shares of time, from 0 to 1. The level is there twice, as older and newer clients expect it."""

    subtask: int
    attempt_number: int
    backpressure_level: str
    backpressure_level_too: str = field(name="backpressureLevel")
    ratio: float
    idle_ratio: float = field(name="idleRatio")
    busy_ratio: float = field(name="busyRatio")


class BackPressure(Struct, frozen=True, rename="kebab"):
    """`backpressure_level` is that of the worst subtask: ok, low or high."""

    status: str
    backpressure_level: str
    backpressure_level_too: str = field(name="backpressureLevel")
    end_timestamp: int
    subtasks: list[SubtaskBackPressure]


class SubtaskTimes(Struct, frozen=True):
    """When a subtask took each state; 0 for those that it never was in."""

    subtask: int
    host: str
    endpoint: str
    duration: int
    timestamps: dict[str, int]


class VertexTimes(Struct, frozen=True):
    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimes]


class VertexTaskManager(Struct, frozen=True, rename="kebab"):
    """The subtasks of a vertex on one task manager."""

    host: str
    endpoint: str
    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: IoMetrics
    status_counts: dict[str, int]
    taskmanager_id: str


class VertexTaskManagers(Struct, frozen=True):
    id: str
    name: str
    now: int
    taskmanagers: list[VertexTaskManager]


class Accumulator(Struct, frozen=True):
    name: str
    type: str
    value: str


class JobAccumulators(Struct, frozen=True, rename="kebab"):
    """Always empty: jobs have no accumulators."""

    job_accumulators: list[Accumulator]
    user_task_accumulators: list[Accumulator]
    serialized_user_task_accumulators: dict[str, str]


class VertexAccumulators(Struct, frozen=True, rename="kebab"):
    """Always empty."""

    id: str
    user_accumulators: list[Accumulator]


class SubtaskAccumulators(Struct, frozen=True):
    """Always empty."""

    id: str
    parallelism: int
    subtasks: list[Accumulator]


class FlameGraph(Struct, frozen=True):
    """`end_timestamp` of -2 says that there are none."""

    end_timestamp: int = field(name="endTimestamp")
    data: None


class ExecutionConfiguration(Struct, frozen=True, rename="kebab"):
    """`user_config` are all settings of the job, as text."""

    restart_strategy: str
    job_parallelism: int
    object_reuse_mode: bool
    user_config: dict[str, str]


class JobConfiguration(Struct, frozen=True, rename="kebab"):
    jid: str
    name: str
    execution_config: ExecutionConfiguration


class ApplicationException(Struct, frozen=True):
    exception_name: str = field(name="exceptionName")
    stacktrace: str
    timestamp: int
    job_id: str = field(name="jobId")


class ApplicationExceptionHistory(Struct, frozen=True):
    entries: list[ApplicationException]


class ApplicationExceptions(Struct, frozen=True):
    exception_history: ApplicationExceptionHistory = field(name="exceptionHistory")


class Hardware(Struct, frozen=True, rename="camel"):
    """What executors have is not known here, and 0; `free_memory`, which the dashboard shows as the heap, is in use."""

    cpu_cores: int
    physical_memory: int
    free_memory: int
    managed_memory: int


class TaskManager(Struct, frozen=True, rename="camel"):
    """An operator process; it has one slot, for one subtask of each vertex."""

    id: str
    path: str
    data_port: int
    jmx_port: int
    time_since_last_heartbeat: int
    slots_number: int
    free_slots: int
    assigned_tasks: int
    hardware: Hardware


class TaskManagers(Struct, frozen=True):
    taskmanagers: list[TaskManager]


class Setting(Struct, frozen=True):
    key: str
    value: str


class VirtualMachine(Struct, frozen=True):
    """The Python of the driver."""

    version: str
    arch: str
    options: list[str]


class DriverEnvironment(Struct, frozen=True):
    jvm: VirtualMachine
    classpath: list[str]
