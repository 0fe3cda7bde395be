"""Events and effects of the barrier handlers, and which handler and barrier a job uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from snapline.config import CheckpointMode, Checkpoints
from snapline.errors import EngineError
from snapline.types import AbortReason, Barrier, BarrierKind, FailureReason, Partitioning, SavepointFormat, SnapshotKind


class HandlerMode(Enum):
    """Which barrier handler a subtask has."""

    ALIGNED = "aligned"
    ALTERNATING = "alternating"
    TRACKER = "tracker"


# Events: facts about the inputs of one subtask.


@dataclass(frozen=True, slots=True)
class BarrierReceived:
    """A barrier was read from a channel: behind all earlier data, or ahead of it if it had priority.

    `injected`: the coordinator triggered a subtask whose upstream subtasks have all finished. Only the end of the
    partition can follow, so the channel need not be blocked.
    """

    channel: int
    barrier: Barrier
    injected: bool = False


@dataclass(frozen=True, slots=True)
class BarrierAnnounced:
    """A barrier has arrived in a channel behind unread data."""

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
    """The timer of this checkpoint is due."""

    checkpoint_id: int


BarrierEvent: TypeAlias = (
    BarrierReceived | BarrierAnnounced | CancelMarkerReceived | PartitionEnded | AlignmentTimerFired
)

# Effects: orders to the subtask's shell, carried out in the order given.


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Stop reading from this channel."""

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
    """Write all unread input data ahead of this checkpoint's barriers; then ask `is_capturing` for each arrival."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class CheckpointTriggered:
    """Take this subtask's snapshot now. The barrier has the kind that the checkpoint has here."""

    barrier: Barrier
    start_delay_ms: int


@dataclass(frozen=True, slots=True)
class AlignmentMetrics:
    """What aligning one checkpoint took on the inputs of one subtask."""

    start_delay_ms: int
    duration_ms: int
    processed_bytes: int


@dataclass(frozen=True, slots=True)
class FinishAlignment:
    """All barriers of a triggered checkpoint are in: no more input data belongs to it."""

    checkpoint_id: int
    metrics: AlignmentMetrics


@dataclass(frozen=True, slots=True)
class HandlerAborted:
    """Give up this checkpoint on this subtask; tell the coordinator and everything downstream."""

    checkpoint_id: int
    reason: AbortReason


@dataclass(frozen=True, slots=True)
class SetAlignmentTimer:
    """Send `AlignmentTimerFired` at this time; replaces an earlier timer."""

    checkpoint_id: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class CancelAlignmentTimer:
    """Cancel the alignment timer."""

    checkpoint_id: int


BarrierEffect: TypeAlias = (
    BlockChannel
    | ResumeChannel
    | PrioritizeBarrier
    | StartCapture
    | CheckpointTriggered
    | FinishAlignment
    | HandlerAborted
    | SetAlignmentTimer
    | CancelAlignmentTimer
)


class BarrierHandler(Protocol):
    """One subtask's barrier handler. An illegal event raises `EngineError` and changes nothing."""

    def handle(self, event: BarrierEvent, now_ms: int) -> list[BarrierEffect]:
        """Takes an event and returns the effects that follow."""

    def is_capturing(self, channel: int) -> bool:
        """Whether data that arrives on this channel now is in-flight data of a running checkpoint."""

    def data_processed(self, size_bytes: int) -> None:
        """Counts data that operators process, for the alignment metrics."""

    def barrier_arrived(self, channel: int, checkpoint_id: int) -> None:
        """Notes a barrier as soon as it is in the channel's queue, before it is read."""

    @property
    def blurred_until(self) -> int:
        """The newest id whose snapshot here may contain data from behind its barriers.

        Such a checkpoint cannot be the last one of a subtask whose data ends now: upstream may still end after it.
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
    """The channels that have not ended. `check` guards the channel of every event."""

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
    """The handler of a job's subtasks. With unaligned checkpoints it alternates, because savepoints still align."""
    if config.mode is CheckpointMode.AT_LEAST_ONCE:
        return HandlerMode.TRACKER
    return HandlerMode.ALTERNATING if config.unaligned else HandlerMode.ALIGNED


def barrier_kind(config: Checkpoints, snapshot: SnapshotKind) -> BarrierKind:
    """The kind of barrier that a snapshot starts with. Savepoints always align, and so does at-least-once."""
    if snapshot.is_savepoint or not config.unaligned or config.mode is CheckpointMode.AT_LEAST_ONCE:
        return BarrierKind.ALIGNED
    return BarrierKind.UNALIGNED if config.aligned_timeout_ms == 0 else BarrierKind.ALIGNED_WITH_TIMEOUT


def new_barrier(
    config: Checkpoints,
    checkpoint_id: int,
    timestamp_ms: int,
    snapshot: SnapshotKind,
    *,
    drain: bool,
    full: bool,
    location: str | None = None,
    format: SavepointFormat | None = None,
    alone: bool = True,
) -> Barrier:
    """The barrier the coordinator sends to the sources."""
    kind = barrier_kind(config, snapshot)
    timeout_ms = config.aligned_timeout_ms if kind is BarrierKind.ALIGNED_WITH_TIMEOUT else None
    return Barrier(checkpoint_id, timestamp_ms, kind, timeout_ms, snapshot, drain, full, location, format, alone)


def aligned_only_vertices(edges: Iterable[tuple[str, str, Partitioning]]) -> frozenset[str]:
    """The vertices on whose inputs barriers always align.

    One pointwise or broadcast input is enough: in-flight data would be captured there too, and could not be
    redistributed after rescaling.
    """
    return frozenset(target for _, target, partitioning in edges if not partitioning.may_be_unaligned)
