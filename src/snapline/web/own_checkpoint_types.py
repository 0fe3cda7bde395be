"""Answers about checkpoints under `/snapline`, in our own words."""

from __future__ import annotations

from msgspec import Struct

from snapline.protocol.statistics.checkpoint_records import CheckpointStatus, CheckpointType
from snapline.protocol.statistics.explanation import PathPart, SlowCause
from snapline.types import FailureReason, SavepointFormat, SnapshotKind


class CountsRow(Struct, frozen=True):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class FailureRow(Struct, frozen=True):
    failure_ms: int
    reason: FailureReason
    message: str


class ExplanationRow(Struct, frozen=True):
    """Why a checkpoint took its time: the cause, and the subtask that is to blame."""

    cause: SlowCause
    sentence: str
    advice: str
    vertex: str
    subtask: int | None


class PathStepRow(Struct, frozen=True):
    """One step of the critical path, in milliseconds after the trigger; without a vertex it is the driver's."""

    part: PathPart
    vertex: str
    subtask: int | None
    from_ms: int
    to_ms: int


class ExplanationDetails(Struct, frozen=True):
    cause: SlowCause
    sentence: str
    advice: str
    vertex: str
    subtask: int | None
    path: list[PathStepRow]


class _Row(Struct, frozen=True, kw_only=True):
    id: int
    kind: SnapshotKind
    type: CheckpointType
    status: CheckpointStatus
    savepoint_format: SavepointFormat | None
    trigger_ms: int
    latest_ack_ms: int
    completed_ms: int
    end_to_end_duration_ms: int
    checkpointed_bytes: int
    state_bytes: int
    processed_bytes: int
    persisted_bytes: int
    subtasks: int
    acknowledged: int
    external_path: str | None
    discarded: bool
    failure: FailureRow | None
    commit_ms: int


class CheckpointRow(_Row, frozen=True, kw_only=True):
    """One checkpoint in a list. `commit_ms` is how long after its completion the last sink had committed, or -1."""

    explanation: ExplanationRow | None


class SummaryRow(Struct, frozen=True):
    """A measurement over checkpoints or subtasks; all zero without any."""

    count: int
    min: int
    max: int
    avg: int
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


class CompletedSummaryRow(Struct, frozen=True):
    checkpointed_bytes: SummaryRow
    state_bytes: SummaryRow
    end_to_end_duration_ms: SummaryRow
    processed_bytes: SummaryRow
    persisted_bytes: SummaryRow


class RestoredRow(Struct, frozen=True):
    id: int
    restore_ms: int
    is_savepoint: bool
    external_path: str | None
    left_behind: tuple[str, ...]


class LatestRows(Struct, frozen=True):
    completed: CheckpointRow | None
    savepoint: CheckpointRow | None
    failed: CheckpointRow | None


class CheckpointRows(Struct, frozen=True):
    """A page of the history, newest first. `more` says whether older ones follow."""

    counts: CountsRow
    summary: CompletedSummaryRow
    restored: RestoredRow | None
    latest: LatestRows
    not_started: FailureRow | None
    history: list[CheckpointRow]
    more: bool


class SubtaskPart(Struct, frozen=True):
    """One subtask's part in a checkpoint. Without `has_metrics` nothing was measured, or not yet."""

    index: int
    acknowledged: bool
    ack_ms: int
    end_to_end_duration_ms: int
    start_delay_ms: int
    alignment_ms: int
    sync_ms: int
    async_ms: int
    commit_ms: int
    checkpointed_bytes: int
    state_bytes: int
    processed_bytes: int
    persisted_bytes: int
    unaligned: bool
    aborted: bool
    has_metrics: bool


class PartSummary(Struct, frozen=True):
    """Measurements over the subtasks of one vertex."""

    checkpointed_bytes: SummaryRow
    state_bytes: SummaryRow
    end_to_end_duration_ms: SummaryRow
    sync_ms: SummaryRow
    async_ms: SummaryRow
    processed_bytes: SummaryRow
    persisted_bytes: SummaryRow
    alignment_ms: SummaryRow
    start_delay_ms: SummaryRow


class VertexPart(Struct, frozen=True, kw_only=True):
    """One vertex's part in a checkpoint."""

    id: str
    hex: str
    trigger_ms: int
    latest_ack_ms: int
    end_to_end_duration_ms: int
    checkpointed_bytes: int
    state_bytes: int
    processed_bytes: int
    persisted_bytes: int
    any_unaligned: bool
    parallelism: int
    acknowledged: int
    summary: PartSummary
    subtasks: list[SubtaskPart]


class CheckpointDetails(_Row, frozen=True, kw_only=True):
    """One checkpoint with its critical path, its vertices and their subtasks."""

    explanation: ExplanationDetails | None
    vertices: list[VertexPart]
