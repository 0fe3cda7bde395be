"""The exactly-once barrier handler: one checkpoint at a time, aligned or aligned with a timeout."""

from __future__ import annotations

from typing import ClassVar

from snapline.errors import EngineError
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.barriers.alignment import Alignment
from snapline.protocol.barriers.alignment_states import ALIGNED, ALTERNATING, STATES, AlignmentPhase
from snapline.protocol.machine import Story, TransitionTable, recorded
from snapline.types import NO_CHECKPOINT, AbortReason, Barrier


class AligningHandler:
    """Follows one checkpoint at a time; a newer one subsumes it.

    With `after_tasks_finish` the end of a channel counts as its barrier; without, it aborts the checkpoint.
    """

    tables: ClassVar[dict[b.HandlerMode, TransitionTable[AlignmentPhase]]] = {
        b.HandlerMode.ALIGNED: ALIGNED,
        b.HandlerMode.ALTERNATING: ALTERNATING,
    }

    def __init__(self, mode: b.HandlerMode, channels: int, *, after_tasks_finish: bool = True) -> None:
        table = self.tables[mode]
        self.story = Story()
        self._only_aligns = mode is b.HandlerMode.ALIGNED
        self._open = b.OpenChannels(channels)
        self._after_tasks_finish = after_tasks_finish
        self._alignment = Alignment(channels, may_time_out=not self._only_aligns)
        self._capture = self._alignment.capture
        self._aligned = self._alignment.aligned
        self._state = STATES[table.initial](self._alignment, table)

    @property
    def blurred_until(self) -> int:
        return NO_CHECKPOINT

    @property
    def open_channels(self) -> tuple[int, ...]:
        return tuple(self._open)

    @property
    def blocked(self) -> frozenset[int]:
        return frozenset(self._alignment.blocked)

    @property
    def pending(self) -> tuple[int, ...]:
        return () if self._alignment.barrier is None else (self._alignment.newest_id,)

    def is_capturing(self, channel: int) -> bool:
        return self._capture.is_capturing(channel)

    def barrier_arrived(self, channel: int, checkpoint_id: int) -> None:
        self._capture.barrier_arrived(channel, checkpoint_id)

    def data_processed(self, size_bytes: int) -> None:
        if self._aligned:
            self._alignment.processed_bytes += size_bytes

    @recorded
    def handle(self, event: b.BarrierEvent, now_ms: int) -> list[b.BarrierEffect]:
        self._alignment.now_ms = now_ms
        match event:
            case b.BarrierReceived(channel, barrier, injected):
                self._check(channel, barrier)
                self._on_barrier(channel, barrier, injected=injected)
            case b.BarrierAnnounced(channel, barrier):
                self._check(channel, barrier)
                self._on_announcement(channel, barrier)
            case b.CancelMarkerReceived(channel, checkpoint_id):
                self._open.check(channel)
                self._on_cancel(checkpoint_id)
            case b.PartitionEnded(channel):
                self._open.check(channel)
                self._on_partition_ended(channel)
            case b.AlignmentTimerFired(checkpoint_id):
                self._on_timer(checkpoint_id)
        effects, self._alignment.effects = self._alignment.effects, []
        return effects

    def _check(self, channel: int, barrier: Barrier) -> None:
        self._open.check(channel)
        if self._only_aligns and barrier.is_unaligned:
            raise EngineError(f"unaligned barrier {barrier.id} on channel {channel}, but this subtask only aligns")
        if barrier.is_timeoutable and barrier.timeout_ms is None:
            raise EngineError(f"barrier {barrier.id} on channel {channel} may time out, but does not say when")

    def _on_barrier(self, channel: int, barrier: Barrier, *, injected: bool) -> None:
        alignment = self._alignment
        blocks = not barrier.is_unaligned and not injected
        if alignment.is_stale(barrier.id):
            if blocks:
                alignment.effects.append(b.ResumeChannel(channel))
            return
        self._capture.barrier_arrived(channel, barrier.id)
        self._open_checkpoint(barrier)
        alignment.align(channel, barrier)
        if blocks:
            alignment.block(channel)
        self._state = self._state.barrier_received(barrier)
        self._finish_if_all_in()

    def _on_announcement(self, channel: int, barrier: Barrier) -> None:
        if not self._alignment.is_stale(barrier.id):
            self._open_checkpoint(barrier)
            self._state.announced(channel)

    def _on_cancel(self, checkpoint_id: int) -> None:
        newest_id = self._alignment.newest_id
        if checkpoint_id > newest_id or (checkpoint_id == newest_id and self._aligned):
            self._abort(checkpoint_id, AbortReason.CANCELLED)

    def _on_partition_ended(self, channel: int) -> None:
        self._open.close(channel)
        barrier = self._alignment.barrier
        if barrier is None:
            return
        if not self._after_tasks_finish:
            self._abort(barrier.id, AbortReason.END_OF_STREAM)
            return
        self._alignment.align(channel, barrier)
        self._alignment.unblock(channel)
        self._state = self._state.settled(barrier)
        self._finish_if_all_in()

    def _on_timer(self, checkpoint_id: int) -> None:
        if self._only_aligns:
            raise EngineError(f"alignment timer for {checkpoint_id}, but this subtask only aligns and sets none")
        barrier = self._alignment.take_timer(checkpoint_id)
        if barrier is not None:
            self._state = self._state.timed_out(barrier)

    def _open_checkpoint(self, barrier: Barrier) -> None:
        """Start aligning the barrier's checkpoint if it is newer than any before."""
        if barrier.id > self._alignment.newest_id:
            if self._alignment.barrier is not None:
                self._abort(self._alignment.newest_id, AbortReason.SUBSUMED)
            self._alignment.open(barrier, len(self._open))

    def _finish_if_all_in(self) -> None:
        if self._alignment.barrier is not None and self._alignment.all_in:
            self._alignment.finish()

    def _abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        self._state = self._state.aborted(checkpoint_id, reason)
