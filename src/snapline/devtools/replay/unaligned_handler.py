"""The barrier handler that never aligns. Jobs have no use for it, since savepoints align; scripts do."""

from __future__ import annotations

from typing import ClassVar

from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.alignment_states import AlignmentPhase
from snapline.protocol.barriers.barrier_events import HandlerMode
from snapline.protocol.machine import TransitionTable

UNALIGNED = TransitionTable(
    "Unaligned barrier handler",
    "Triggers at the first barrier and captures in-flight data until the last one.",
    AlignmentPhase.WAITING_UNALIGNED,
    [
        (AlignmentPhase.WAITING_UNALIGNED, "barrier", AlignmentPhase.COLLECTING_UNALIGNED),
        (AlignmentPhase.WAITING_UNALIGNED, "abort", AlignmentPhase.WAITING_UNALIGNED),
        (AlignmentPhase.COLLECTING_UNALIGNED, "barrier", AlignmentPhase.COLLECTING_UNALIGNED),
        (AlignmentPhase.COLLECTING_UNALIGNED, "last barrier", AlignmentPhase.WAITING_UNALIGNED),
        (AlignmentPhase.COLLECTING_UNALIGNED, "abort", AlignmentPhase.WAITING_UNALIGNED),
    ],
)


class UnalignedHandler(AligningHandler):
    """An alternating handler that has nothing to alternate with: an aligned barrier only blocks its channel."""

    tables: ClassVar[dict[HandlerMode, TransitionTable[AlignmentPhase]]] = {HandlerMode.ALTERNATING: UNALIGNED}

    def __init__(self, channels: int, *, after_tasks_finish: bool = True) -> None:
        super().__init__(HandlerMode.ALTERNATING, channels, after_tasks_finish=after_tasks_finish)
