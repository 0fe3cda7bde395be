"""Answers about jobs under `/snapline`, in our own words.

Times are epoch milliseconds; -1 is a time or duration that is not known.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from snapline.protocol.statistics.job_health import HealthIssue, HealthLevel
from snapline.types import CheckpointScope, JobStatus, Partitioning, SavepointFormat, TaskStatus
from snapline.web.own_checkpoint_types import CheckpointRow, CountsRow, FailureRow
from snapline.web.rest_ids import Place


class ServerHealth(Struct, frozen=True):
    status: str


class HealthLine(Struct, frozen=True):
    level: HealthLevel
    line: str


class JobRow(Struct, frozen=True):
    """One job in a list."""

    job_id: str
    jid: str
    name: str
    status: JobStatus
    attempt: int
    started_ms: int
    ended_ms: int | None
    health: HealthLine
    url: str


class JobRows(Struct, frozen=True):
    jobs: list[JobRow]


class FailedAttempt(Struct, frozen=True):
    """Why an attempt failed. `subtask` is "vertex/index" of the task that failed first."""

    at_ms: int
    attempt: int
    cause: str
    trace: str
    log: str
    subtask: str | None
    repeats: int


class HealthNoteRow(Struct, frozen=True):
    level: HealthLevel
    issue: HealthIssue
    text: str
    advice: str
    vertex: str
    subtask: int | None


class HealthReport(Struct, frozen=True):
    level: HealthLevel
    line: str
    notes: list[HealthNoteRow]


class OperatorRow(Struct, frozen=True):
    uid: str
    name: str
    is_source: bool
    is_sink: bool
    has_state: bool
    key_columns: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]


class PlanVertex(Struct, frozen=True):
    """A vertex of the plan; in a drawing it is in column `layer` from the left, and there in row `position`."""

    id: str
    hex: str
    name: str
    parallelism: int
    max_parallelism: int
    is_source: bool
    is_sink: bool
    operators: list[OperatorRow]
    layer: int
    position: int


class PlanEdge(Struct, frozen=True):
    source: str
    target: str
    partitioning: Partitioning
    key_columns: tuple[str, ...]
    output: str


class Plan(Struct, frozen=True):
    vertices: list[PlanVertex]
    edges: list[PlanEdge]


class CommitRow(Struct, frozen=True):
    """The commits of a sink's subtask: output of completed checkpoints that is not committed yet."""

    waiting: int
    waiting_ms: int
    retries: int
    last_problem: str


class SubtaskRow(Struct, frozen=True, kw_only=True):
    """One subtask. Busy, idle and back-pressured are shares (0 to 1) of the last interval."""

    index: int
    status: TaskStatus
    attempt: int
    host: str
    since_ms: int
    started_ms: int
    rows_in_per_second: float
    rows_out_per_second: float
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0
    watermark_ms: int | None = None
    late_rows: int = 0
    bad_rows: int = 0
    stuck_ms: int
    slowest_split: str = ""
    waiting_commits: int = 0
    queued_in_bytes: int = 0
    queued_out_bytes: int = 0
    latency_ms: int | None = None
    last_bad_row: str = ""
    commit: CommitRow | None = None


class VertexRow(Struct, frozen=True, kw_only=True):
    """A vertex now. Sums over its subtasks, but: busy, backpressured, stuck_ms are the greatest of them, idle and
    watermark_ms the least."""

    status: TaskStatus
    rows_in_per_second: float
    rows_out_per_second: float
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    busy: float
    idle: float
    backpressured: float
    watermark_ms: int | None
    late_rows: int
    bad_rows: int
    stuck_ms: int
    slowest_split: str
    waiting_commits: int
    subtasks: list[SubtaskRow]


class JobNow(Struct, frozen=True, kw_only=True):
    """A job at one moment, without the history of its checkpoints."""

    job_id: str
    jid: str
    name: str
    status: JobStatus
    attempt: int
    now_ms: int
    started_ms: int
    ended_ms: int | None
    status_times: dict[JobStatus, int]
    url: str
    is_live: bool
    can_change: bool
    repeats: int
    failed_attempts: int
    failures: list[FailedAttempt]
    health: HealthReport
    plan: Plan
    vertices: dict[str, VertexRow]
    memory_bytes: dict[str, int]
    state_memory_bytes: dict[str, int]
    state_memory_limit_bytes: int | None
    counts: CountsRow
    last_completed: CheckpointRow | None
    last_failed: CheckpointRow | None
    not_started: FailureRow | None


class EventRow(Struct, frozen=True):
    at_ms: int
    text: str


class Events(Struct, frozen=True):
    events: list[EventRow]


class Configuration(Struct, frozen=True):
    """The settings the job runs with; credentials as their references."""

    checkpoints: dict[str, Any]
    execution: dict[str, Any]
    restart: dict[str, Any]
    monitoring: dict[str, Any]


# Operations.


class CheckpointCommand(Struct, frozen=True, forbid_unknown_fields=True):
    scope: CheckpointScope = CheckpointScope.CONFIGURED


class SavepointCommand(Struct, frozen=True, forbid_unknown_fields=True):
    directory: Place | None = None
    format: SavepointFormat | None = None


class StopCommand(Struct, frozen=True, forbid_unknown_fields=True):
    directory: Place | None = None
    format: SavepointFormat | None = None
    drain: bool = False


class CancelCommand(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Accepted(Struct, frozen=True):
    """The operation has begun; its outcome is at `/snapline/operations/<request_id>`."""

    request_id: str


class OperationRow(Struct, frozen=True):
    """An operation: `what` was asked for, and its `status`: "running", "done" or "failed"."""

    request_id: str
    what: str
    status: str
    location: str | None
    checkpoint_id: int | None
    error: str | None


class Errors(Struct, frozen=True):
    """Why a request was not carried out, and what to do."""

    errors: list[str]
