"""The bookkeeping of an aligning handler: which barriers are in, which channels are blocked, and the effects."""

from __future__ import annotations

from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.barriers.capture import InputCapture
from snapline.types import NO_CHECKPOINT, AbortReason, Barrier


class Alignment:
    """The newest checkpoint of one subtask: its barriers, blocked channels, capture and timer.

    `barrier` opened the pending checkpoint; it is None while none is pending. `aligned` holds the channels that have
    delivered their barrier or ended, `announced` those with a barrier behind unread data.
    """

    def __init__(self, channels: int, *, may_time_out: bool) -> None:
        self.now_ms = 0
        self.newest_id = NO_CHECKPOINT
        self.barrier: Barrier | None = None
        self.aligned: set[int] = set()
        self.announced: set[int] = set()
        self.blocked: set[int] = set()
        self.capture = InputCapture(channels)
        self.processed_bytes = 0
        self.effects: list[b.BarrierEffect] = []
        self._may_time_out = may_time_out
        self._target = 0
        self._triggered = False
        self._timer_set = False
        self._first_barrier_ms = 0
        self._start_delay_ms = 0

    def is_stale(self, checkpoint_id: int) -> bool:
        """Whether this checkpoint has ended here, or a newer one has begun."""
        return checkpoint_id < self.newest_id or (checkpoint_id == self.newest_id and self.barrier is None)

    def open(self, barrier: Barrier, target: int) -> None:
        """Begin a newer checkpoint. It is complete when `target` channels are aligned."""
        self.newest_id = barrier.id
        self.barrier = barrier
        self._target = target
        self._triggered = False
        self.processed_bytes = 0
        if self._may_time_out and barrier.is_timeoutable:
            self._timer_set = True
            self.effects.append(b.SetAlignmentTimer(barrier.id, barrier.times_out_ms(self.now_ms)))

    def align(self, channel: int, barrier: Barrier) -> None:
        """Count a channel whose barrier was read, or which has ended."""
        if not self.aligned:
            self._first_barrier_ms = self.now_ms
            self._start_delay_ms = max(self.now_ms - barrier.timestamp_ms, 0)
        self.aligned.add(channel)
        self.announced.discard(channel)

    @property
    def all_in(self) -> bool:
        return len(self.aligned) == self._target

    def is_overdue(self, barrier: Barrier) -> bool:
        return self._may_time_out and not self.all_in and barrier.is_timed_out(self.now_ms)

    def take_timer(self, checkpoint_id: int) -> Barrier | None:
        """The barrier of the checkpoint whose timer fired, or None if the timer is out of date."""
        if checkpoint_id != self.newest_id or not self._timer_set:
            return None
        self._timer_set = False
        return self.barrier

    def prioritize_announced(self) -> None:
        for channel in sorted(self.announced):
            self.prioritize(channel)
        self.announced.clear()

    def prioritize(self, channel: int) -> None:
        self.effects.append(b.PrioritizeBarrier(channel, self.newest_id))

    def trigger(self, barrier: Barrier) -> None:
        self._triggered = True
        self.effects.append(b.CheckpointTriggered(barrier, self._start_delay_ms))

    def trigger_unaligned(self, barrier: Barrier) -> bool:
        """Start the capture and trigger. False if it is too late: a channel already has a newer barrier."""
        if self.capture.is_subsumed(barrier.id):
            return False
        self.capture.start(barrier.id)
        self.effects.append(b.StartCapture(barrier.id))
        self.trigger(barrier.as_unaligned())
        return True

    def finish(self) -> None:
        """End the pending checkpoint: all its channels are aligned."""
        checkpoint_id, duration_ms = self.newest_id, self.now_ms - self._first_barrier_ms
        self._close()
        if self._triggered:
            metrics = b.AlignmentMetrics(self._start_delay_ms, duration_ms, self.processed_bytes)
            self.effects.append(b.FinishAlignment(checkpoint_id, metrics))

    def abort(self, checkpoint_id: int, reason: AbortReason) -> None:
        """Give up this checkpoint and everything older."""
        if self.barrier is not None and self._triggered:
            self.capture.stop(self.newest_id)
        self._close()
        self.newest_id = checkpoint_id
        self.unblock_all()
        self.effects.append(b.HandlerAborted(checkpoint_id, reason))

    def _close(self) -> None:
        self.barrier = None
        self.aligned.clear()
        self.announced.clear()
        if self._timer_set:
            self._timer_set = False
            self.effects.append(b.CancelAlignmentTimer(self.newest_id))

    def block(self, channel: int) -> None:
        if channel not in self.blocked:
            self.blocked.add(channel)
            self.effects.append(b.BlockChannel(channel))

    def unblock(self, channel: int) -> None:
        if channel in self.blocked:
            self.blocked.discard(channel)
            self.effects.append(b.ResumeChannel(channel))

    def unblock_all(self) -> None:
        for channel in sorted(self.blocked):
            self.unblock(channel)
