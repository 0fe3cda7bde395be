"""Events and effects of the checkpoint coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointMeasured,
    Decline,
    EventToCoordinator,
    OperatorEvent,
    OperatorEventReceived,
    TriggerCheckpoint,
)
from snapline.protocol.snapshot import Snapshot, StoredObject
from snapline.types import FailureReason, SubtaskId, TaskStatus


class AckResult(Enum):
    """How an acknowledgement was received."""

    SUCCESS = "SUCCESS"
    DUPLICATE = "DUPLICATE"
    UNKNOWN = "UNKNOWN"


class TimerKind(Enum):
    """The purpose of a coordinator's timer."""

    PERIODIC = "PERIODIC"
    TIMEOUT = "TIMEOUT"


class Timer(NamedTuple):
    """Names a timer. Setting it again replaces it. `request` is the one that times out."""

    kind: TimerKind
    request: str = ""

    def __str__(self) -> str:
        return f"{self.kind.name} {self.request}".rstrip()


# Events.


@dataclass(frozen=True, slots=True)
class JobRunning:
    """Every task runs. `chance` in [0, 1) places the first periodic checkpoint.

    After a restart that one waits for `hold_ms`, but at most for two intervals.
    """

    chance: float
    hold_ms: int = 0


@dataclass(frozen=True, slots=True)
class JobLeftRunning:
    """The job fails, restarts or is cancelled; with `shutdown` it has ended for good.

    With `vertices` only these stop, and the tasks of others go on.
    """

    shutdown: bool = False
    vertices: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TaskStatusChanged:
    """A task of this attempt has a new status."""

    subtask: SubtaskId
    status: TaskStatus


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """A user, or the job itself, requests a checkpoint or savepoint."""

    request: TriggerRequest


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer is due."""

    timer: Timer


@dataclass(frozen=True, slots=True)
class BacklogReported:
    """A source has fallen behind, or has caught up."""

    source: str
    has_backlog: bool


@dataclass(frozen=True, slots=True)
class IdReserved:
    """The request got its checkpoint id."""

    request: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step of the start has failed: an id, a location, an operator coordinator or a hook.

    `checkpoint_id` is None before there is an id. `io` marks a failure of storage; any other step may give a
    `reason` that is more precise.
    """

    request: str
    checkpoint_id: int | None
    error: str
    io: bool = True
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True)
class LocationCreated:
    """The checkpoint has a place for its objects; `is_inline` says that tasks send theirs along instead."""

    checkpoint_id: int
    location: str
    is_inline: bool = False


@dataclass(frozen=True, slots=True)
class OperatorCoordinatorSnapshotted:
    """An operator coordinator has handed over its state; what it sends from now on is not part of the checkpoint.

    `state` is None if its operator had finished before the attempt began.
    """

    checkpoint_id: int
    operator: str
    state: StoredObject | None


@dataclass(frozen=True, slots=True)
class HookSnapshotted:
    """A master hook has taken its snapshot."""

    checkpoint_id: int
    hook: str
    state: StoredObject | None


@dataclass(frozen=True, slots=True)
class MetadataWritten:
    """The metadata is durable."""

    checkpoint_id: int
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot is in the journal, and so canonical."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinalizeFailed:
    """Writing metadata or journal failed; with `possibly_inconsistent` it may have taken effect all the same."""

    checkpoint_id: int
    error: str
    possibly_inconsistent: bool = False


@dataclass(frozen=True, slots=True)
class Cleaned:
    """An old checkpoint is deleted."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class OperatorEventSent:
    """An operator coordinator sends an event to one of its subtasks."""

    operator: str
    subtask: int
    event: Any


@dataclass(frozen=True, slots=True)
class OperatorEventLost:
    """The event did not arrive, as far as is known."""

    sequence: int


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """Time to repeat notices that tasks may have missed."""


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
    | Acknowledge
    | Decline
    | MetadataWritten
    | Published
    | FinalizeFailed
    | Cleaned
    | OperatorEventSent
    | OperatorEventReceived
    | OperatorEventLost
    | EventToCoordinator
    | CheckpointMeasured
    | HeartbeatDue
)

# Effects.


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Report `TimerFired` at this time."""

    timer: Timer
    at_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Cancel this timer."""

    timer: Timer


@dataclass(frozen=True, slots=True)
class ReserveId:
    """Reserve the next checkpoint id."""

    request: str


@dataclass(frozen=True, slots=True)
class CreateLocation:
    """Create a place for the checkpoint's objects; for a savepoint in the `target` of the request."""

    checkpoint_id: int
    request: TriggerRequest


@dataclass(frozen=True, slots=True)
class SnapshotOperatorCoordinator:
    """Take the state of an operator coordinator."""

    checkpoint_id: int
    operator: str


@dataclass(frozen=True, slots=True)
class DeliverEvent:
    """Let an operator coordinator handle an event of a subtask, behind the orders it got before."""

    operator: str
    subtask: int
    event: bytes


@dataclass(frozen=True, slots=True)
class NotifyCoordinatorsCompleted:
    """Tell the operator coordinators that a checkpoint is complete; `subsumed_id` is the newest one it replaced."""

    checkpoint_id: int
    subsumed_id: int


@dataclass(frozen=True, slots=True)
class NotifyCoordinatorsAborted:
    """Tell the operator coordinators that a checkpoint has failed."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SnapshotHook:
    """Let a master hook take its snapshot."""

    checkpoint_id: int
    hook: str


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Write the checkpoint's metadata; create it, never replace it."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Publish:
    """Append the snapshot to the journal."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete objects of a failed checkpoint, and its place if `location` is given."""

    checkpoint_id: int
    objects: tuple[StoredObject, ...]
    location: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteSnapshot:
    """Take a checkpoint out of the journal, then delete the objects that are its own; report `Cleaned`."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class DeleteShared:
    """Delete shared objects that no retained checkpoint refers to."""

    objects: tuple[StoredObject, ...]


@dataclass(frozen=True, slots=True)
class CompleteRequest:
    """Answer a request with its snapshot."""

    request: TriggerRequest
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class FailRequest:
    """Answer a request that has failed; `checkpoint_id` is None if it never became a checkpoint."""

    request: TriggerRequest
    reason: FailureReason
    message: str
    checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True)
class FailJob:
    """Fail the job, or only the region of `vertex`; the restart strategy decides what follows."""

    cause: str
    vertex: str | None = None


CoordinatorEffect: TypeAlias = (
    SetTimer
    | CancelTimer
    | ReserveId
    | CreateLocation
    | SnapshotOperatorCoordinator
    | DeliverEvent
    | NotifyCoordinatorsCompleted
    | NotifyCoordinatorsAborted
    | SnapshotHook
    | TriggerCheckpoint
    | WriteMetadata
    | Publish
    | CheckpointCompleted
    | CheckpointAborted
    | Discard
    | DeleteSnapshot
    | DeleteShared
    | CompleteRequest
    | FailRequest
    | OperatorEvent
    | FailJob
)
