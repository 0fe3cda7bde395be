"""What one subtask's checkpointing is told and what it orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from snapline.protocol.barriers.barrier_events import AlignmentMetrics
from snapline.protocol.snapshot import SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.types import NO_CHECKPOINT, AbortReason, Barrier, ExecutionId, FailureReason

# Events.


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """The barrier handler, or for a source the coordinator, says: take your snapshot now."""

    barrier: Barrier
    start_delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class TriggerReceived:
    """The coordinator asks a source, or a subtask whose inputs have all ended, to start a checkpoint."""

    attempt: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class InputsFinished:
    """All barriers are in, and all captured input data is known: `persisted_bytes` of it."""

    checkpoint_id: int
    metrics: AlignmentMetrics
    persisted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OutputsFinished:
    """The barrier has left every output, or has overtaken what was queued there."""

    checkpoint_id: int
    persisted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HandlerAborted:
    """The barrier handler gave up the checkpoint."""

    checkpoint_id: int
    reason: AbortReason


@dataclass(frozen=True, slots=True)
class SynchronousPartFinished:
    """Operators have handed over what has to be written; data may flow again."""

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
    """Something could not be written; the subtask itself is well."""

    checkpoint_id: int
    error: str


@dataclass(frozen=True, slots=True)
class OutputTimerFired:
    """The barrier has been queued in an output for longer than alignment may take."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CompletionNotified:
    """The coordinator says: this checkpoint is complete and durable."""

    attempt: int
    checkpoint_id: int
    subsumed_id: int = NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class AbortNotified:
    """The coordinator says: this checkpoint will never complete."""

    attempt: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DataEnded:
    """All input is read and the operators are finished: the next snapshot is the last this subtask needs.

    Unless its id is below `final_from`: the greatest that came with the ends of data of those upstream, and behind
    `BarrierHandler.blurred_until`. Nobody may take a checkpoint for its last that those upstream do not.
    """

    final_from: int = 0


@dataclass(frozen=True, slots=True)
class OutputsConsumed:
    """Everything downstream has taken in what the finished operators emitted."""


@dataclass(frozen=True, slots=True)
class PartitionsEnded:
    """Every input partition has ended: the subtasks upstream have left."""


SubtaskEvent: TypeAlias = (
    CheckpointTriggered
    | TriggerReceived
    | InputsFinished
    | OutputsFinished
    | HandlerAborted
    | SynchronousPartFinished
    | AsynchronousPartFinished
    | AsynchronousPartFailed
    | OutputTimerFired
    | CompletionNotified
    | AbortNotified
    | DataEnded
    | OutputsConsumed
    | PartitionsEnded
)

# Effects, in the order in which they must be carried out.


@dataclass(frozen=True, slots=True)
class EndInput:
    """Emit the last watermark and finish the operators: the job is being drained."""


@dataclass(frozen=True, slots=True)
class BroadcastEndOfData:
    """Tell those downstream that no more data comes, and which checkpoint is the first that may be the last here."""

    final_from: int


@dataclass(frozen=True, slots=True)
class StopSources:
    """Emit nothing more: the job ends with this savepoint."""


@dataclass(frozen=True, slots=True)
class ResumeSources:
    """Go on: the savepoint the job was to end with will not be."""


@dataclass(frozen=True, slots=True)
class PrepareSnapshot:
    """Let operators emit what has to precede the barrier (a sink's committables)."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BroadcastBarrier:
    """Send the barrier into every output, ahead of queued data if it is unaligned."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class SetOutputTimer:
    """Send `OutputTimerFired` at this time unless the outputs have finished before."""

    checkpoint_id: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class PrioritizeOutputs:
    """Let the queued barrier overtake the data ahead of it in every output, and capture that data."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Run the synchronous part, operators from tail to head, and report how it went.

    `ended` says that this may be the subtask's last snapshot; its states are to be marked so.
    """

    barrier: Barrier
    ended: bool = False


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Run the asynchronous part and report how it went."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CancelSnapshot:
    """Stop writing for this checkpoint and drop what was captured or written for it."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BroadcastCancelMarker:
    """Tell everything downstream not to wait for this checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SendAcknowledgement:
    """Tell the coordinator that this subtask's part is durable."""

    execution: ExecutionId
    checkpoint_id: int
    state: Mapping[str, SubtaskState]
    metrics: SubtaskMetrics


@dataclass(frozen=True, slots=True)
class SendDecline:
    """Tell the coordinator that this subtask has no part in the checkpoint."""

    execution: ExecutionId
    checkpoint_id: int
    reason: FailureReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class NotifyOperatorsCompleted:
    """Tell the operators, which may now commit."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class NotifyOperatorsAborted:
    """Tell the operators that this checkpoint will not be."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FinishTask:
    """End every output partition and leave: nothing of this subtask is needed any more."""


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
    | SendAcknowledgement
    | SendDecline
    | NotifyOperatorsCompleted
    | NotifyOperatorsAborted
    | FinishTask
    | FailTask
)
