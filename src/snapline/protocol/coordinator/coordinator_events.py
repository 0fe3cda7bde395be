"""What the checkpoint coordinator is told and what it orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.snapshot import Snapshot, StoredObject, SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.types import Barrier, ExecutionId, FailureReason, SubtaskId, TaskStatus


class AckResult(Enum):
    """What became of an acknowledgement."""

    SUCCESS = "SUCCESS"
    DUPLICATE = "DUPLICATE"
    UNKNOWN = "UNKNOWN"
    DISCARDED = "DISCARDED"


class TimerKind(Enum):
    """What a timer of the coordinator is for."""

    PERIODIC = "PERIODIC"
    TIMEOUT = "TIMEOUT"


class Timer(NamedTuple):
    """Identifies a timer; setting it again replaces it."""

    kind: TimerKind
    checkpoint_id: int = 0

    def __str__(self) -> str:
        return f"{self.kind.name} {self.checkpoint_id}"


# Events.


@dataclass(frozen=True, slots=True)
class JobRunning:
    """Every task runs. `chance` in [0, 1) places the first periodic checkpoint."""

    chance: float


@dataclass(frozen=True, slots=True)
class JobLeftRunning:
    """The job fails, restarts or is cancelled; `shutdown` if it will not come back."""

    shutdown: bool = False


@dataclass(frozen=True, slots=True)
class TaskStatusChanged:
    """A task of this attempt runs, or has finished."""

    subtask: SubtaskId
    status: TaskStatus


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody asks for a checkpoint or savepoint."""

    request: TriggerRequest


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer is due."""

    timer: Timer


@dataclass(frozen=True, slots=True)
class BacklogReported:
    """A source is behind, or no longer."""

    source: str
    has_backlog: bool


@dataclass(frozen=True, slots=True)
class IdReserved:
    """The id counter has moved on."""

    request: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StepFailed:
    """Something the coordinator ordered before the tasks were triggered has failed.

    `checkpoint_id` is none if there is no id yet; `io` tells trouble with storage from all else. A step that knows
    better why no checkpoint is possible says so with `reason`.
    """

    request: str
    checkpoint_id: int | None
    error: str
    io: bool = True
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True)
class LocationCreated:
    """There is a place to write to."""

    checkpoint_id: int
    location: str


@dataclass(frozen=True, slots=True)
class OperatorCoordinatorSnapshotted:
    """An operator coordinator has handed over its state; what it sends from now on belongs to the time after."""

    checkpoint_id: int
    operator: str
    state: StoredObject


@dataclass(frozen=True, slots=True)
class HookSnapshotted:
    """A master hook has done its part."""

    checkpoint_id: int
    hook: str
    state: StoredObject | None


@dataclass(frozen=True, slots=True)
class AcknowledgementReceived:
    """A subtask says its part is durable."""

    execution: ExecutionId
    checkpoint_id: int
    state: Mapping[str, SubtaskState]
    metrics: SubtaskMetrics


@dataclass(frozen=True, slots=True)
class DeclineReceived:
    """A subtask says it takes no part."""

    execution: ExecutionId
    checkpoint_id: int
    reason: FailureReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class MetadataWritten:
    """The metadata is durable."""

    checkpoint_id: int
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot is in the journal: it is canonical."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinalizeFailed:
    """Metadata or journal could not be written; perhaps it was nevertheless."""

    checkpoint_id: int
    error: str
    possibly_inconsistent: bool = False


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A checkpoint that was to be deleted is gone."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class OperatorEventSent:
    """An operator coordinator sends something to one of its subtasks."""

    operator: str
    subtask: int
    event: Any


@dataclass(frozen=True, slots=True)
class OperatorEventConfirmed:
    """The subtask has the event; whatever reaches it later comes behind it."""

    sequence: int


@dataclass(frozen=True, slots=True)
class OperatorEventLost:
    """The event did not arrive, or nobody knows."""

    sequence: int


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """Time to repeat what tasks may have missed."""


CoordinatorEvent: TypeAlias = (
    JobRunning
    | JobLeftRunning
    | TaskStatusChanged
    | CheckpointRequested
    | TimerFired
    | BacklogReported
    | IdReserved
    | StepFailed
    | LocationCreated
    | OperatorCoordinatorSnapshotted
    | HookSnapshotted
    | AcknowledgementReceived
    | DeclineReceived
    | MetadataWritten
    | Published
    | FinalizeFailed
    | Cleaned
    | OperatorEventSent
    | OperatorEventConfirmed
    | OperatorEventLost
    | HeartbeatDue
)

# Effects.


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send `TimerFired` at this time."""

    timer: Timer
    at_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """The timer is no longer wanted."""

    timer: Timer


@dataclass(frozen=True, slots=True)
class ReserveId:
    """Take the next id from the counter."""

    request: str


@dataclass(frozen=True, slots=True)
class CreateLocation:
    """Make a place for the checkpoint's objects, in `target` if it is a savepoint."""

    checkpoint_id: int
    request: TriggerRequest


@dataclass(frozen=True, slots=True)
class SnapshotOperatorCoordinator:
    """Take an operator coordinator's state."""

    checkpoint_id: int
    operator: str


@dataclass(frozen=True, slots=True)
class SnapshotHook:
    """Call a master hook."""

    checkpoint_id: int
    hook: str


@dataclass(frozen=True, slots=True)
class TriggerTask:
    """Ask a task to start the checkpoint."""

    execution: ExecutionId
    barrier: Barrier
    location: str


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Write the checkpoint's metadata, only if it is not there."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Publish:
    """Append the snapshot to the journal, with its kind."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Tell a task that a checkpoint is complete."""

    execution: ExecutionId
    checkpoint_id: int
    subsumed_id: int


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell a task that a checkpoint will never be."""

    execution: ExecutionId
    checkpoint_id: int
    latest_completed_id: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete objects of a checkpoint that came to nothing, and its place if `location` is given."""

    checkpoint_id: int
    objects: tuple[StoredObject, ...]
    location: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteSnapshot:
    """Take a checkpoint out of the journal, then delete what is its own; report `Cleaned`."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class DeleteShared:
    """Delete shared objects that no retained checkpoint refers to."""

    objects: tuple[StoredObject, ...]


@dataclass(frozen=True, slots=True)
class CompleteRequest:
    """Answer whoever asked."""

    request: TriggerRequest
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class FailRequest:
    """Tell whoever asked that it came to nothing."""

    request: TriggerRequest
    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class DeliverOperatorEvent:
    """Send an event to a subtask, and report whether it arrived."""

    operator: str
    subtask: int
    event: Any
    sequence: int


@dataclass(frozen=True, slots=True)
class FailJob:
    """Fail the job, through its restart strategy."""

    cause: str


CoordinatorEffect: TypeAlias = (
    SetTimer
    | CancelTimer
    | ReserveId
    | CreateLocation
    | SnapshotOperatorCoordinator
    | SnapshotHook
    | TriggerTask
    | WriteMetadata
    | Publish
    | NotifyComplete
    | NotifyAborted
    | Discard
    | DeleteSnapshot
    | DeleteShared
    | CompleteRequest
    | FailRequest
    | DeliverOperatorEvent
    | FailJob
)
