"""A job at one moment, for everybody who looks at it from outside: page, REST, command line, notebooks.

Deeply immutable, so any thread may read it. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from snapline.config import NO_MONITORING, Checkpoints, Execution, Monitoring, RestartStrategy
from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot
from snapline.protocol.statistics.explanation import Explanation
from snapline.protocol.statistics.job_health import HEALTHY, Health
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import JobStatus, Partitioning, SubtaskId, TaskStatus


@dataclass(frozen=True, slots=True)
class OperatorView:
    """One operator of a vertex. `columns` are those of its output, as (name, type); a sink has none."""

    uid: str
    name: str
    is_source: bool = False
    is_sink: bool = False
    has_state: bool = False
    key_columns: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class VertexView:
    """Operators that run in one thread. `id` is the uid of the first."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorView, ...]

    @property
    def is_source(self) -> bool:
        return self.operators[0].is_source

    @property
    def is_sink(self) -> bool:
        return self.operators[-1].is_sink


@dataclass(frozen=True, slots=True)
class EdgeView:
    """How rows get from one vertex to another. `output` names a side output, "" is the main one."""

    source: str
    target: str
    partitioning: Partitioning
    key_columns: tuple[str, ...] = ()
    output: str = ""


@dataclass(frozen=True, slots=True)
class PlanView:
    """The dataflow: vertices in topological order, and the edges between them."""

    vertices: tuple[VertexView, ...]
    edges: tuple[EdgeView, ...]

    def vertex(self, vertex_id: str) -> VertexView | None:
        return next((vertex for vertex in self.vertices if vertex.id == vertex_id), None)

    def downstream(self, vertex_id: str) -> tuple[str, ...]:
        """The vertices that read from this one."""
        return tuple(edge.target for edge in self.edges if edge.source == vertex_id)

    def upstream(self, vertex_id: str) -> tuple[str, ...]:
        """The vertices that this one reads from."""
        return tuple(edge.source for edge in self.edges if edge.target == vertex_id)


@dataclass(frozen=True, slots=True)
class SubtaskView:
    """One subtask in its newest execution.

    Rates are rows per second over the last report; the totals of busy, idle and back-pressured time are since the
    execution began; `recent_busy` and `recent_backpressured` are their shares, 0 to 1, of about the last five seconds.
    `stuck_ms` is how long it has been inside one call without taking or emitting a row. `rows_since_ms` is when it last
    took or read a row, `watermark_since_ms` when its watermark last moved; both are when it started if it never did.
    `metrics` is None before the first report. `since_ms` is when it took its status.
    """

    id: SubtaskId
    attempt: int
    status: TaskStatus
    since_ms: int
    started_ms: int
    host: str = ""
    metrics: TaskMetrics | None = None
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    busy_ms: int = 0
    idle_ms: int = 0
    backpressured_ms: int = 0
    stuck_ms: int = 0
    recent_busy: float = 0.0
    recent_backpressured: float = 0.0
    rows_since_ms: int = 0
    watermark_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Why an attempt failed. `subtask` is the task that failed first, if any; `repeats` counts the same error."""

    at_ms: int
    attempt: int
    cause: str
    trace: str = ""
    log: str = ""
    subtask: SubtaskId | None = None
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class JobView:
    """A job at one moment.

    `status_times` says when it last took each status. `failures` are the latest failed attempts, newest first, and
    `failed_attempts` counts all of them. `explanations` say of checkpoints why they took their time. `url` is where the
    page is; empty if nothing serves it. `is_live` is False for a job that is only read from its storage. `interval_ms`
    is that of periodic checkpoints now, which backlog may change; None if there are none.
    """

    job_id: str
    name: str
    status: JobStatus
    attempt: int
    now_ms: int
    started_ms: int
    ended_ms: int | None
    status_times: Mapping[JobStatus, int]
    plan: PlanView
    subtasks: tuple[SubtaskView, ...]
    statistics: StatisticsSnapshot
    checkpoints: Checkpoints
    execution: Execution
    restart: RestartStrategy
    failures: tuple[AttemptFailure, ...] = ()
    failed_attempts: int = 0
    repeats: int = 0
    events: tuple[tuple[int, str], ...] = ()
    memory_bytes: Mapping[int, int] = field(default_factory=dict)
    state_memory_bytes: Mapping[int, int] = field(default_factory=dict)
    """What state takes in each slot, if `Execution(state_memory=...)` limits it."""
    explanations: Mapping[int, Explanation] = field(default_factory=dict)
    health: Health = HEALTHY
    url: str = ""
    is_live: bool = True
    monitoring: Monitoring = NO_MONITORING
    interval_ms: int | None = None

    def subtasks_of(self, vertex_id: str) -> tuple[SubtaskView, ...]:
        return tuple(subtask for subtask in self.subtasks if subtask.id.vertex == vertex_id)
