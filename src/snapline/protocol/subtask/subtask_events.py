"""Events and effects of the subtask machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from snapline.protocol.barriers.barrier_events import AlignmentMetrics, CheckpointTriggered, HandlerAborted
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointMeasured,
    Decline,
    TriggerCheckpoint,
)
from snapline.protocol.snapshot import SubtaskState
from snapline.types import Barrier

# Events.


@dataclass(frozen=True, slots=True)
class InputsFinished:
    """All barriers are in, and all input data is captured: `persisted_bytes` of it."""

    checkpoint_id: int
    metrics: AlignmentMetrics
    persisted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OutputsFinished:
    """The barrier has left every output, or has overtaken the data queued there."""

    checkpoint_id: int
    persisted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SynchronousPartFinished:
    """The operators have handed over what has to be written; data may flow again."""

    checkpoint_id: int
    duration_ms: int


@dataclass(frozen=True, slots=True)
class AsynchronousPartFinished:
    """Everything is written. `state` has an entry for each operator of the chain."""

    checkpoint_id: int
    state: Mapping[str, SubtaskState]
    checkpointed_bytes: int
    state_bytes: int
    duration_ms: int


@dataclass(frozen=True, slots=True)
class AsynchronousPartFailed:
    """Something could not be written. The subtask itself goes on."""

    checkpoint_id: int
    error: str


@dataclass(frozen=True, slots=True)
class OutputTimerFired:
    """The barrier has waited in an output for longer than alignment may take."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DataEnded:
    """All input is read and the operators are finished: the next snapshot can be the last one of this subtask.

    Its id must be at least `final_from`: the greatest that came with the ends of data from upstream, and greater than
    `BarrierHandler.blurred_until`. A checkpoint is the last one here only if it is so upstream, too.
    """

    final_from: int = 0


@dataclass(frozen=True, slots=True)
class OutputsConsumed:
    """Everything downstream has processed what the finished operators emitted."""


@dataclass(frozen=True, slots=True)
class PartitionsEnded:
    """Every input partition has ended: the upstream subtasks have left."""


@dataclass(frozen=True, slots=True)
class WorkChanged:
    """Operators have begun work that the subtask may not leave before it is done, such as commits, or have done it."""

    is_unfinished: bool


SubtaskEvent: TypeAlias = (
    CheckpointTriggered
    | TriggerCheckpoint
    | InputsFinished
    | OutputsFinished
    | HandlerAborted
    | SynchronousPartFinished
    | AsynchronousPartFinished
    | AsynchronousPartFailed
    | OutputTimerFired
    | CheckpointCompleted
    | CheckpointAborted
    | DataEnded
    | OutputsConsumed
    | PartitionsEnded
    | WorkChanged
)

# Effects.


@dataclass(frozen=True, slots=True)
class EndInput:
    """Emit the last watermark and finish the operators: the job is being drained."""


@dataclass(frozen=True, slots=True)
class BroadcastEndOfData:
    """Tell everything downstream that no more data comes, and the first checkpoint that can be the last one here."""

    final_from: int


@dataclass(frozen=True, slots=True)
class StopSources:
    """Stop emitting: the job ends with this savepoint."""


@dataclass(frozen=True, slots=True)
class ResumeSources:
    """Go on emitting: the savepoint that the job should end with has failed."""


@dataclass(frozen=True, slots=True)
class PrepareSnapshot:
    """Let operators emit what has to precede the barrier, such as the committables of a sink."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BroadcastBarrier:
    """Send the barrier into every output, ahead of queued data if it is unaligned."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class SetOutputTimer:
    """Report `OutputTimerFired` at this time unless the outputs have finished before."""

    checkpoint_id: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class PrioritizeOutputs:
    """Let the queued barrier overtake the data ahead of it in every output, and capture that data."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Run the synchronous part, operators from tail to head; report `SynchronousPartFinished`.

    With `ended` this can be the subtask's last snapshot; mark its states so.
    """

    barrier: Barrier
    ended: bool = False


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Run the asynchronous part; report `AsynchronousPartFinished` or `AsynchronousPartFailed`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CancelSnapshot:
    """Stop writing this checkpoint and drop what was captured or written for it."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BroadcastCancelMarker:
    """Tell everything downstream not to wait for this checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class NotifyOperatorsCompleted:
    """Tell the operators that this checkpoint is complete; sinks may commit."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class NotifyOperatorsSubsumed:
    """Tell the operators that a newer checkpoint has replaced this one."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class NotifyOperatorsAborted:
    """Tell the operators that this checkpoint has failed."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinishTask:
    """End every output partition and leave: nothing needs this subtask any more."""


@dataclass(frozen=True, slots=True)
class FailTask:
    """Fail this subtask, so that the job restarts from its last checkpoint."""

    error: str


SubtaskEffect: TypeAlias = (
    EndInput
    | BroadcastEndOfData
    | StopSources
    | ResumeSources
    | PrepareSnapshot
    | BroadcastBarrier
    | SetOutputTimer
    | PrioritizeOutputs
    | TakeSnapshot
    | WriteSnapshot
    | CancelSnapshot
    | BroadcastCancelMarker
    | Acknowledge
    | Decline
    | CheckpointMeasured
    | NotifyOperatorsCompleted
    | NotifyOperatorsSubsumed
    | NotifyOperatorsAborted
    | FinishTask
    | FailTask
)
