"""The exactly-once barrier handler: one checkpoint at a time, aligned, unaligned, or aligned with a timeout."""

from __future__ import annotations

from enum import Enum

from snapline.errors import EngineError
from snapline.protocol.barriers.barrier_events import (
    AbortCheckpoint,
    AlignmentMetrics,
    AlignmentTimerFired,
    BarrierAnnounced,
    BarrierEffect,
    BarrierEvent,
    BarrierReceived,
    BlockChannel,
    CancelAlignmentTimer,
    CancelMarkerReceived,
    FinishAlignment,
    HandlerMode,
    OpenChannels,
    PartitionEnded,
    PrioritizeBarrier,
    ResumeChannel,
    SetAlignmentTimer,
    StartCapture,
    StopCapture,
    TriggerCheckpoint,
)
from snapline.protocol.barriers.capture import InputCapture
from snapline.protocol.machine import Story, TransitionTable, recorded
from snapline.types import NO_CHECKPOINT, AbortReason, Barrier


class Aligning(Enum):
    """Where the handler stands: has it seen a barrier of the current checkpoint, and may data still overtake it."""

    WAITING = "WAITING"
    COLLECTING = "COLLECTING"
    WAITING_UNALIGNED = "WAITING_UNALIGNED"
    COLLECTING_UNALIGNED = "COLLECTING_UNALIGNED"


_A = Aligning
ALIGNED = TransitionTable(
    "Aligned barrier handler",
    "Blocks each channel at its barrier and triggers when the last one is in.",
    _A.WAITING,
    [
        (_A.WAITING, "barrier", _A.COLLECTING),
        (_A.WAITING, "last barrier", _A.WAITING),
        (_A.WAITING, "abort", _A.WAITING),
        (_A.COLLECTING, "barrier", _A.COLLECTING),
        (_A.COLLECTING, "last barrier", _A.WAITING),
        (_A.COLLECTING, "abort", _A.WAITING),
    ],
)
UNALIGNED = TransitionTable(
    "Unaligned barrier handler",
    "Triggers at the first barrier and captures in-flight data until the last one.",
    _A.WAITING_UNALIGNED,
    [
        (_A.WAITING_UNALIGNED, "barrier", _A.COLLECTING_UNALIGNED),
        (_A.WAITING_UNALIGNED, "last barrier", _A.WAITING_UNALIGNED),
        (_A.WAITING_UNALIGNED, "abort", _A.WAITING_UNALIGNED),
        (_A.COLLECTING_UNALIGNED, "barrier", _A.COLLECTING_UNALIGNED),
        (_A.COLLECTING_UNALIGNED, "last barrier", _A.WAITING_UNALIGNED),
        (_A.COLLECTING_UNALIGNED, "abort", _A.WAITING_UNALIGNED),
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
        (_A.WAITING_UNALIGNED, "last barrier", _A.WAITING),
        (_A.WAITING_UNALIGNED, "abort", _A.WAITING),
        (_A.COLLECTING_UNALIGNED, "barrier", _A.COLLECTING_UNALIGNED),
        (_A.COLLECTING_UNALIGNED, "last barrier", _A.WAITING),
        (_A.COLLECTING_UNALIGNED, "abort", _A.WAITING),
    ],
)
_TABLES = {
    HandlerMode.ALIGNED: ALIGNED,
    HandlerMode.UNALIGNED: UNALIGNED,
    HandlerMode.ALTERNATING: ALTERNATING,
}


class AligningHandler:
    """Follows one checkpoint at a time; a newer one subsumes it.

    `after_tasks_finish` says whether the end of a channel counts as its barrier (true) or aborts the checkpoint.
    """

    def __init__(self, mode: HandlerMode, channels: int, *, after_tasks_finish: bool = True) -> None:
        self.story = Story()
        self._table = _TABLES[mode]
        self._mode = mode
        self._open = OpenChannels(channels)
        self._after_tasks_finish = after_tasks_finish
        self._state = self._table.initial
        self._capture = InputCapture(channels)
        self._current = NO_CHECKPOINT
        self._last_done = NO_CHECKPOINT
        self._aligned: set[int] = set()
        self._target = 0
        self._barrier: Barrier | None = None
        self._blocked: set[int] = set()
        self._announced: set[int] = set()
        self._timer_set = False
        self._triggered = False
        self._reset_metrics()
        self._effects: list[BarrierEffect] = []

    # What the shell asks.

    @property
    def blurred_until(self) -> int:
        return NO_CHECKPOINT

    @property
    def open_channels(self) -> tuple[int, ...]:
        return tuple(self._open)

    @property
    def blocked(self) -> frozenset[int]:
        return frozenset(self._blocked)

    @property
    def pending(self) -> tuple[int, ...]:
        return (self._current,) if self._is_pending else ()

    def is_capturing(self, channel: int) -> bool:
        return self._capture.is_capturing(channel)

    def barrier_arrived(self, channel: int, checkpoint_id: int) -> None:
        self._capture.barrier_arrived(channel, checkpoint_id)

    def data_processed(self, size_bytes: int) -> None:
        if self._aligned:
            self._processed_bytes += size_bytes

    # Events.

    @recorded
    def handle(self, event: BarrierEvent, now_ms: int) -> list[BarrierEffect]:
        match event:
            case BarrierReceived(channel, barrier, injected):
                self._check(channel, barrier)
                self._on_barrier(channel, barrier, now_ms, injected=injected)
            case BarrierAnnounced(channel, barrier):
                self._check(channel, barrier)
                self._on_announcement(channel, barrier, now_ms)
            case CancelMarkerReceived(channel, checkpoint_id):
                self._open.check(channel)
                self._on_cancel(checkpoint_id)
            case PartitionEnded(channel):
                self._open.check(channel)
                self._on_partition_ended(channel, now_ms)
            case AlignmentTimerFired(checkpoint_id):
                self._on_timer(checkpoint_id)
        effects, self._effects = self._effects, []
        return effects

    def _check(self, channel: int, barrier: Barrier) -> None:
        self._open.check(channel)
        if self._mode is HandlerMode.ALIGNED and barrier.is_unaligned:
            raise EngineError(f"unaligned barrier {barrier.id} on channel {channel}, but this subtask only aligns")
        if barrier.is_timeoutable and barrier.timeout_ms is None:
            raise EngineError(f"barrier {barrier.id} on channel {channel} may time out, but does not say when")

    @property
    def _is_pending(self) -> bool:
        return self._current != self._last_done and self._current >= 0

    def _is_stale(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self._current or (checkpoint_id == self._current and not self._is_pending)

    def _on_barrier(self, channel: int, barrier: Barrier, now_ms: int, *, injected: bool) -> None:
        if self._is_stale(barrier.id):
            if not barrier.is_unaligned and not injected:
                self._effects.append(ResumeChannel(channel))
            return
        self._capture.barrier_arrived(channel, barrier.id)
        self._open_checkpoint(barrier, now_ms)
        self._align(channel, barrier, now_ms)
        self._barrier_in_state(channel, barrier, now_ms, injected=injected)
        self._finish_if_all_in(now_ms)

    def _on_announcement(self, channel: int, barrier: Barrier, now_ms: int) -> None:
        if self._is_stale(barrier.id):
            return
        self._open_checkpoint(barrier, now_ms)
        if self._is_unaligned_state:
            self._effects.append(PrioritizeBarrier(channel, barrier.id))
        else:
            self._announced.add(channel)

    def _on_cancel(self, checkpoint_id: int) -> None:
        if checkpoint_id > self._current or (checkpoint_id == self._current and self._aligned):
            self._abort(checkpoint_id, AbortReason.CANCELLED)

    def _on_partition_ended(self, channel: int, now_ms: int) -> None:
        self._open.close(channel)
        if not self._is_pending:
            return
        if not self._after_tasks_finish:
            self._abort(self._current, AbortReason.END_OF_STREAM)
            return
        assert self._barrier is not None
        self._align(channel, self._barrier, now_ms)
        self._announced.discard(channel)
        self._unblock(channel)
        self._end_in_state(now_ms)
        self._finish_if_all_in(now_ms)

    def _on_timer(self, checkpoint_id: int) -> None:
        if self._mode is HandlerMode.ALIGNED:
            raise EngineError(f"alignment timer for {checkpoint_id}, but this subtask only aligns and sets none")
        if checkpoint_id != self._current or not self._is_pending or not self._timer_set:
            return
        self._timer_set = False
        if not self._is_unaligned_state:
            assert self._barrier is not None
            self._switch(self._barrier)

    # Bookkeeping common to all states.

    def _open_checkpoint(self, barrier: Barrier, now_ms: int) -> None:
        if barrier.id <= self._current:
            return
        if self._is_pending:
            self._abort(self._current, AbortReason.SUBSUMED)
        self._current = barrier.id
        self._barrier = barrier
        self._aligned.clear()
        self._announced.clear()
        self._target = len(self._open)
        self._triggered = False
        self._reset_metrics()
        if self._mode is HandlerMode.ALTERNATING and barrier.is_timeoutable:
            assert barrier.timeout_ms is not None
            delay = max(barrier.timeout_ms - (now_ms - barrier.timestamp_ms), 0)
            self._timer_set = True
            self._effects.append(SetAlignmentTimer(barrier.id, now_ms + delay))

    def _align(self, channel: int, barrier: Barrier, now_ms: int) -> None:
        if not self._aligned:
            self._first_barrier_ms = now_ms
            self._start_delay_ms = max(now_ms - barrier.timestamp_ms, 0)
        self._aligned.add(channel)

    @property
    def _all_in(self) -> bool:
        return len(self._aligned) == self._target

    def _finish_if_all_in(self, now_ms: int) -> None:
        if not self._is_pending or not self._all_in:
            return
        self._last_done = self._current
        self._aligned.clear()
        self._announced.clear()
        self._cancel_timer()
        if self._triggered:
            self._effects.append(
                FinishAlignment(
                    self._current,
                    AlignmentMetrics(
                        self._start_delay_ms,
                        now_ms - self._first_barrier_ms,
                        self._processed_bytes,
                    ),
                )
            )

    def _abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        if self._state is Aligning.COLLECTING_UNALIGNED and self._triggered:
            self._stop_capture(self._current)
        self._cancel_timer()
        self._current = max(self._current, checkpoint_id)
        self._last_done = max(self._last_done, checkpoint_id)
        self._barrier = None
        self._aligned.clear()
        self._announced.clear()
        self._unblock_all()
        self._step("abort")
        self._effects.append(AbortCheckpoint(checkpoint_id, reason))

    def _reset_metrics(self) -> None:
        self._first_barrier_ms = 0
        self._start_delay_ms = 0
        self._processed_bytes = 0

    # The states.

    @property
    def _is_unaligned_state(self) -> bool:
        return self._state is Aligning.WAITING_UNALIGNED or self._state is Aligning.COLLECTING_UNALIGNED

    def _barrier_in_state(self, channel: int, barrier: Barrier, now_ms: int, *, injected: bool) -> None:
        self._announced.discard(channel)
        if barrier.is_unaligned:
            if not self._is_unaligned_state:
                self._switch(barrier)
        elif not injected:
            self._block(channel)
        if not self._is_unaligned_state and self._is_passively_timed_out(barrier, now_ms):
            self._switch(barrier)
        if self._state is Aligning.WAITING_UNALIGNED:
            self._trigger_unaligned(barrier)
        if not self._is_pending:
            return  # the snapshot came too late: a newer barrier is already in one of the channels
        if self._all_in:
            self._complete(barrier)
        else:
            self._step("barrier")

    def _end_in_state(self, now_ms: int) -> None:
        barrier = self._barrier
        assert barrier is not None
        if self._state is Aligning.WAITING or self._state is Aligning.WAITING_UNALIGNED:
            return  # opened by an announcement alone: the announced barrier is still to come and will decide
        if self._state is Aligning.COLLECTING and self._is_passively_timed_out(barrier, now_ms):
            self._switch(barrier)
        if self._is_pending and self._all_in:
            self._complete(barrier)

    def _is_passively_timed_out(self, barrier: Barrier, now_ms: int) -> bool:
        return self._mode is HandlerMode.ALTERNATING and not self._all_in and barrier.is_timed_out(now_ms)

    def _switch(self, barrier: Barrier) -> None:
        """Stop waiting for alignment: announced barriers overtake, and what is collected becomes a snapshot now."""
        for channel in sorted(self._announced):
            self._effects.append(PrioritizeBarrier(channel, self._current))
        self._announced.clear()
        self._step("switch")
        if self._state is Aligning.COLLECTING_UNALIGNED:
            self._trigger_unaligned(barrier)

    def _trigger_unaligned(self, barrier: Barrier) -> None:
        if self._capture.is_subsumed(barrier.id):
            self._abort(barrier.id, AbortReason.SUBSUMED)
            return
        self._capture.start(barrier.id)
        self._effects.append(StartCapture(barrier.id))
        self._trigger(barrier.as_unaligned())

    def _trigger(self, barrier: Barrier) -> None:
        self._triggered = True
        self._effects.append(TriggerCheckpoint(barrier, self._start_delay_ms))

    def _complete(self, barrier: Barrier) -> None:
        if self._is_unaligned_state:
            self._stop_capture(barrier.id)
        else:
            self._trigger(barrier)
        self._unblock_all()
        self._step("last barrier")

    def _stop_capture(self, checkpoint_id: int) -> None:
        self._capture.stop(checkpoint_id)
        self._effects.append(StopCapture(checkpoint_id))

    # Channels and the timer.

    def _block(self, channel: int) -> None:
        if channel not in self._blocked:
            self._blocked.add(channel)
            self._effects.append(BlockChannel(channel))

    def _unblock(self, channel: int) -> None:
        if channel in self._blocked:
            self._blocked.discard(channel)
            self._effects.append(ResumeChannel(channel))

    def _unblock_all(self) -> None:
        for channel in sorted(self._blocked):
            self._unblock(channel)

    def _cancel_timer(self) -> None:
        if self._timer_set:
            self._timer_set = False
            self._effects.append(CancelAlignmentTimer(self._current))

    def _step(self, cause: str) -> None:
        self._state = self._table.step(self._state, cause)
