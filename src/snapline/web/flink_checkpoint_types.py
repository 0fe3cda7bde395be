"""Answers about checkpoints, and requests for them, in the shapes of Flink's REST interface."""

from __future__ import annotations

from msgspec import Struct, field

from snapline.types import CheckpointScope, SavepointFormat
from snapline.web.rest_ids import Place, RequestId


class Statistics(Struct, frozen=True):
    """A measurement over checkpoints or subtasks."""

    min: int
    max: int
    avg: int
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


class Counts(Struct, frozen=True):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CompletedStatistics(Struct, frozen=True):
    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    alignment_buffered: Statistics
    processed_data: Statistics
    persisted_data: Statistics


class TaskCheckpoint(Struct, frozen=True, kw_only=True):
    """The part of one vertex. `id` is that of the checkpoint."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class Checkpoint(Struct, frozen=True, kw_only=True, tag_field="className", tag="in_progress"):
    """A checkpoint in progress. `tasks` is empty in lists."""

    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None = field(name="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpoint] = field(default_factory=dict)


class CompletedCheckpoint(Checkpoint, frozen=True, kw_only=True, tag="completed"):
    external_path: str | None
    discarded: bool


class FailedCheckpoint(Checkpoint, frozen=True, kw_only=True, tag="failed"):
    failure_timestamp: int
    failure_message: str


class Restored(Struct, frozen=True):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str | None


class LatestCheckpoints(Struct, frozen=True):
    completed: CompletedCheckpoint | None
    savepoint: CompletedCheckpoint | None
    failed: FailedCheckpoint | None
    restored: Restored | None


class CheckpointingStatistics(Struct, frozen=True):
    """All checkpoints that are remembered, newest first."""

    counts: Counts
    summary: CompletedStatistics
    latest: LatestCheckpoints
    history: list[Checkpoint | CompletedCheckpoint | FailedCheckpoint]


class SyncAsync(Struct, frozen=True, rename={"synchronous": "sync", "asynchronous": "async"}):
    synchronous: int
    asynchronous: int


class Alignment(Struct, frozen=True):
    buffered: int
    processed: int
    persisted: int
    duration: int


class PendingSubtask(Struct, frozen=True, tag_field="className", tag="pending"):
    index: int
    status: str = "pending_or_failed"


class CompletedSubtask(Struct, frozen=True, kw_only=True, tag_field="className", tag="completed"):
    index: int
    status: str = "completed"
    ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    checkpoint: SyncAsync
    alignment: Alignment
    start_delay: int
    unaligned_checkpoint: bool
    aborted: bool


class SyncAsyncStatistics(Struct, frozen=True, rename={"synchronous": "sync", "asynchronous": "async"}):
    synchronous: Statistics
    asynchronous: Statistics


class AlignmentStatistics(Struct, frozen=True):
    buffered: Statistics
    processed: Statistics
    persisted: Statistics
    duration: Statistics


class SubtaskSummary(Struct, frozen=True):
    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    checkpoint_duration: SyncAsyncStatistics
    alignment: AlignmentStatistics
    start_delay: Statistics


class TaskCheckpointDetails(TaskCheckpoint, frozen=True, kw_only=True):
    """The part of one vertex, with its subtasks."""

    summary: SubtaskSummary
    subtasks: list[PendingSubtask | CompletedSubtask]


class Externalization(Struct, frozen=True):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfiguration(Struct, frozen=True):
    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str | None


# Operations.


class CheckpointRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    checkpoint_type: CheckpointScope = CheckpointScope.CONFIGURED
    trigger_id: RequestId | None = None


class SavepointRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    target_directory: Place | None = None
    cancel_job: bool = False
    format_type: SavepointFormat | None = field(default=None, name="formatType")
    trigger_id: RequestId | None = field(default=None, name="triggerId")


class StopRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    target_directory: Place | None = None
    drain: bool = False
    format_type: SavepointFormat | None = None
    trigger_id: RequestId | None = None


class DisposalRequest(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    savepoint_path: Place
    trigger_id: RequestId | None = field(default=None, name="triggerId")


class Triggered(Struct, frozen=True, rename="kebab"):
    """The operation has begun; ask for its outcome by this id."""

    request_id: str


class OperationStatus(Struct, frozen=True):
    id: str


class FailureCause(Struct, frozen=True, rename={"kind": "class", "stack_trace": "stack-trace"}):
    kind: str
    stack_trace: str


class CheckpointOutcome(Struct, frozen=True, rename="camel", omit_defaults=True):
    checkpoint_id: int | None = None
    failure_cause: FailureCause | None = None


class SavepointOutcome(Struct, frozen=True, rename="kebab", omit_defaults=True):
    location: str | None = None
    failure_cause: FailureCause | None = None


class DisposalOutcome(Struct, frozen=True, rename="kebab", omit_defaults=True):
    failure_cause: FailureCause | None = None


class CheckpointOperation(Struct, frozen=True):
    status: OperationStatus
    operation: CheckpointOutcome | None


class SavepointOperation(Struct, frozen=True):
    status: OperationStatus
    operation: SavepointOutcome | None


class DisposalOperation(Struct, frozen=True):
    status: OperationStatus
    operation: DisposalOutcome | None
