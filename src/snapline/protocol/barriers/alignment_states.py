"""The states of the exactly-once barrier handler and the tables that lead from one to the next."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import ClassVar

from snapline.protocol.barriers.alignment import Alignment
from snapline.protocol.machine import TransitionTable
from snapline.types import AbortReason, Barrier


class AlignmentPhase(Enum):
    """Whether a barrier of the current checkpoint has been read, and whether barriers may overtake data."""

    WAITING = "WAITING"
    COLLECTING = "COLLECTING"
    WAITING_UNALIGNED = "WAITING_UNALIGNED"
    COLLECTING_UNALIGNED = "COLLECTING_UNALIGNED"


_A = AlignmentPhase
ALIGNED = TransitionTable(
    "Aligned barrier handler",
    "Blocks each channel at its barrier and triggers when the last one is in.",
    _A.WAITING,
    [
        (_A.WAITING, "barrier", _A.COLLECTING),
        (_A.WAITING, "abort", _A.WAITING),
        (_A.COLLECTING, "barrier", _A.COLLECTING),
        (_A.COLLECTING, "last barrier", _A.WAITING),
        (_A.COLLECTING, "abort", _A.WAITING),
    ],
)
ALTERNATING = TransitionTable(
    "Alternating barrier handler",
    "Starts each checkpoint aligned and turns unaligned on a timeout, on a late barrier, or when an upstream did so.",
    _A.WAITING,
    [
        *ALIGNED.rows,
        (_A.WAITING, "switch", _A.WAITING_UNALIGNED),
        (_A.COLLECTING, "switch", _A.COLLECTING_UNALIGNED),
        (_A.WAITING_UNALIGNED, "barrier", _A.COLLECTING_UNALIGNED),
        (_A.WAITING_UNALIGNED, "abort", _A.WAITING),
        (_A.COLLECTING_UNALIGNED, "barrier", _A.COLLECTING_UNALIGNED),
        (_A.COLLECTING_UNALIGNED, "last barrier", _A.WAITING),
        (_A.COLLECTING_UNALIGNED, "abort", _A.WAITING),
    ],
)


class AlignmentState:
    """One state of a handler. The handler books an event, then calls its method, which returns the next state."""

    name: ClassVar[AlignmentPhase]

    def __init__(self, alignment: Alignment, table: TransitionTable[AlignmentPhase]) -> None:
        self._alignment = alignment
        self._table = table

    def announced(self, channel: int) -> None:
        """A barrier of the pending checkpoint waits behind data in this channel."""
        self._alignment.announced.add(channel)

    @abstractmethod
    def barrier_received(self, barrier: Barrier) -> AlignmentState:
        """A barrier of the pending checkpoint was read; an aligned one has blocked its channel."""

    def settled(self, barrier: Barrier) -> AlignmentState:  # noqa: ARG002
        """Checks whether the last barrier is in, or overdue. Also called when a channel has ended."""
        return self

    def timed_out(self, barrier: Barrier) -> AlignmentState:  # noqa: ARG002
        """Alignment took too long, or an upstream subtask gave it up."""
        return self

    def aborted(self, checkpoint_id: int, reason: AbortReason) -> AlignmentState:
        self._alignment.abort(checkpoint_id, reason)
        return self._next("abort")

    def _next(self, cause: str) -> AlignmentState:
        return STATES[self._table.step(self.name, cause)](self._alignment, self._table)

    def _completed(self) -> AlignmentState:
        self._alignment.unblock_all()
        return self._next("last barrier")


class Waiting(AlignmentState):
    """No barrier has been read yet."""

    name = AlignmentPhase.WAITING

    def barrier_received(self, barrier: Barrier) -> AlignmentState:
        return self._next("barrier").barrier_received(barrier)

    def timed_out(self, barrier: Barrier) -> AlignmentState:  # noqa: ARG002
        self._alignment.prioritize_announced()
        return self._next("switch")


class Collecting(AlignmentState):
    """Some barriers are in, and their channels are blocked."""

    name = AlignmentPhase.COLLECTING

    def barrier_received(self, barrier: Barrier) -> AlignmentState:
        after = self.timed_out(barrier) if barrier.is_unaligned else self._next("barrier")
        return after.settled(barrier)

    def settled(self, barrier: Barrier) -> AlignmentState:
        if self._alignment.all_in:
            self._alignment.trigger(barrier)
            return self._completed()
        return self.timed_out(barrier) if self._alignment.is_overdue(barrier) else self

    def timed_out(self, barrier: Barrier) -> AlignmentState:
        self._alignment.prioritize_announced()
        if not self._alignment.trigger_unaligned(barrier):
            return self.aborted(barrier.id, AbortReason.SUBSUMED)
        return self._next("switch")


class WaitingUnaligned(AlignmentState):
    """No barrier has been read yet, and announced ones overtake data."""

    name = AlignmentPhase.WAITING_UNALIGNED

    def announced(self, channel: int) -> None:
        self._alignment.prioritize(channel)

    def barrier_received(self, barrier: Barrier) -> AlignmentState:
        if not self._alignment.trigger_unaligned(barrier):
            return self.aborted(barrier.id, AbortReason.SUBSUMED)
        return self._next("barrier").settled(barrier)


class CollectingUnaligned(AlignmentState):
    """The checkpoint is triggered, and in-flight data is captured until the last barrier."""

    name = AlignmentPhase.COLLECTING_UNALIGNED

    def announced(self, channel: int) -> None:
        self._alignment.prioritize(channel)

    def barrier_received(self, barrier: Barrier) -> AlignmentState:
        return self._next("barrier").settled(barrier)

    def settled(self, barrier: Barrier) -> AlignmentState:
        if not self._alignment.all_in:
            return self
        self._alignment.capture.stop(barrier.id)
        return self._completed()


STATES: dict[AlignmentPhase, type[AlignmentState]] = {
    state.name: state for state in (Waiting, Collecting, WaitingUnaligned, CollectingUnaligned)
}
