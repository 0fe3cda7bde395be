"""What barrier handlers are told and what they order: the vocabulary shared by all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from snapline.config import CheckpointMode, Checkpoints
from snapline.errors import EngineError
from snapline.types import AbortReason, Barrier, BarrierKind, FailureReason, Partitioning, SnapshotKind


class HandlerMode(Enum):
    """Which rules a subtask follows when barriers arrive."""

    ALIGNED = "aligned"
    ALTERNATING = "alternating"
    TRACKER = "tracker"


# Events: facts about the inputs of one subtask.


@dataclass(frozen=True, slots=True)
class BarrierReceived:
    """A barrier has been read from a channel: behind all earlier data, or ahead of it if it had priority.

    It is `injected` if the coordinator triggered a subtask whose upstream subtasks have all finished: then nothing but
    the end of the partition can follow, and no channel has to be blocked.
    """

    channel: int
    barrier: Barrier
    injected: bool = False


@dataclass(frozen=True, slots=True)
class BarrierAnnounced:
    """A barrier has arrived in a channel behind data that is still unread."""

    channel: int
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class CancelMarkerReceived:
    """The subtask upstream has given up this checkpoint."""

    channel: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class PartitionEnded:
    """Nothing will ever come from this channel again."""

    channel: int


@dataclass(frozen=True, slots=True)
class AlignmentTimerFired:
    """The timer set for this checkpoint is due."""

    checkpoint_id: int


BarrierEvent: TypeAlias = (
    BarrierReceived | BarrierAnnounced | CancelMarkerReceived | PartitionEnded | AlignmentTimerFired
)

# Effects: orders to the subtask's shell, to be carried out in the order given.


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Read nothing more from this channel."""

    channel: int


@dataclass(frozen=True, slots=True)
class ResumeChannel:
    """Read from this channel again."""

    channel: int


@dataclass(frozen=True, slots=True)
class PrioritizeBarrier:
    """Move the announced barrier of this channel ahead of its unread data."""

    channel: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Write all unread input data ahead of this checkpoint's barriers, then what `InputCapture` says."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Take this subtask's snapshot now; the barrier has the kind the checkpoint has here."""

    barrier: Barrier
    start_delay_ms: int


@dataclass(frozen=True, slots=True)
class AlignmentMetrics:
    """What the inputs of one subtask went through for one checkpoint."""

    start_delay_ms: int
    duration_ms: int
    processed_bytes: int


@dataclass(frozen=True, slots=True)
class FinishAlignment:
    """All barriers of a triggered checkpoint are in: its input side is complete."""

    checkpoint_id: int
    metrics: AlignmentMetrics


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Give up this checkpoint on this subtask and say so up and down."""

    checkpoint_id: int
    reason: AbortReason


@dataclass(frozen=True, slots=True)
class SetAlignmentTimer:
    """Send `AlignmentTimerFired` at this time; replaces an earlier timer."""

    checkpoint_id: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class CancelAlignmentTimer:
    """The timer is no longer wanted."""

    checkpoint_id: int


BarrierEffect: TypeAlias = (
    BlockChannel
    | ResumeChannel
    | PrioritizeBarrier
    | StartCapture
    | TriggerCheckpoint
    | FinishAlignment
    | AbortCheckpoint
    | SetAlignmentTimer
    | CancelAlignmentTimer
)


class BarrierHandler(Protocol):
    """One subtask's barrier handler. An illegal event raises `EngineError` and changes nothing."""

    def handle(self, event: BarrierEvent, now_ms: int) -> list[BarrierEffect]:
        """Take one fact, return the orders that follow from it."""

    def is_capturing(self, channel: int) -> bool:
        """Whether data that arrives on this channel now is in-flight data of a running checkpoint."""

    def data_processed(self, size_bytes: int) -> None:
        """Count data that operators take in, for the alignment metrics."""

    def barrier_arrived(self, channel: int, checkpoint_id: int) -> None:
        """Note a barrier the moment it is in the channel's queue, before it is read."""

    @property
    def blurred_until(self) -> int:
        """The newest id whose snapshot here may hold effects of data from behind its barriers.

        A subtask whose data ends now can't take such a checkpoint for its last: those upstream may end after it.
        """

    @property
    def open_channels(self) -> tuple[int, ...]:
        """The channels that have not ended; a checkpoint the coordinator triggers here is injected into each."""

    @property
    def blocked(self) -> frozenset[int]:
        """The channels that must not be read."""

    @property
    def pending(self) -> tuple[int, ...]:
        """Ids whose barriers are still being collected."""


ABORT_TO_FAILURE = {
    AbortReason.SUBSUMED: FailureReason.CHECKPOINT_DECLINED_SUBSUMED,
    AbortReason.CANCELLED: FailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER,
    AbortReason.END_OF_STREAM: FailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM,
}


class OpenChannels:
    """The channels a partition may still come from; guards every event's channel."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise EngineError(f"a barrier handler needs at least one input channel, got {count}")
        self._count = count
        self._closed: set[int] = set()

    def __len__(self) -> int:
        return self._count - len(self._closed)

    def __iter__(self) -> Iterator[int]:
        return (channel for channel in range(self._count) if channel not in self._closed)

    def check(self, channel: int) -> None:
        if not 0 <= channel < self._count:
            raise EngineError(f"channel {channel} does not exist: this subtask has {self._count}")
        if channel in self._closed:
            raise EngineError(f"channel {channel} has already ended")

    def close(self, channel: int) -> None:
        self._closed.add(channel)


def handler_mode(config: Checkpoints) -> HandlerMode:
    """The handler of a job's subtasks. With unaligned checkpoints on it alternates, because savepoints still align."""
    if config.mode is CheckpointMode.AT_LEAST_ONCE:
        return HandlerMode.TRACKER
    return HandlerMode.ALTERNATING if config.unaligned else HandlerMode.ALIGNED


def barrier_kind(config: Checkpoints, snapshot: SnapshotKind) -> BarrierKind:
    """How the barriers of a snapshot set out. Savepoints always align, and so does at-least-once."""
    if snapshot.is_savepoint or not config.unaligned or config.mode is CheckpointMode.AT_LEAST_ONCE:
        return BarrierKind.ALIGNED
    return BarrierKind.UNALIGNED if config.aligned_timeout_ms == 0 else BarrierKind.ALIGNED_WITH_TIMEOUT


def new_barrier(
    config: Checkpoints, checkpoint_id: int, timestamp_ms: int, snapshot: SnapshotKind, *, drain: bool, full: bool
) -> Barrier:
    """The barrier the coordinator sends to the sources."""
    kind = barrier_kind(config, snapshot)
    timeout_ms = config.aligned_timeout_ms if kind is BarrierKind.ALIGNED_WITH_TIMEOUT else None
    return Barrier(checkpoint_id, timestamp_ms, kind, timeout_ms, snapshot, drain, full)


def aligned_only_vertices(edges: Iterable[tuple[str, str, Partitioning]]) -> frozenset[str]:
    """The vertices on whose inputs barriers always align.

    One pointwise or broadcast input is enough: a checkpoint that captured in-flight data on the vertex's other
    inputs would have to capture it there too, where it could not be dealt out again after rescaling.
    """
    return frozenset(target for _, target, partitioning in edges if not partitioning.may_be_unaligned)
