"""The at-least-once barrier handler: counts barriers and never blocks a channel."""

from __future__ import annotations

from collections import deque
from enum import Enum

from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.machine import Story, TransitionTable, recorded
from snapline.types import NO_CHECKPOINT, AbortReason, Barrier

MAX_TRACKED = 50
"""Incomplete checkpoints followed at once; one more drops the oldest."""


class Tracked(Enum):
    """The state of one tracked checkpoint."""

    COUNTING = "COUNTING"
    TRIGGERED = "TRIGGERED"
    ABORTED = "ABORTED"
    FORGOTTEN = "FORGOTTEN"


_T = Tracked
TRACKED = TransitionTable(
    "One checkpoint in the at-least-once tracker",
    "Counts the channels that have delivered the barrier. An aborted id is remembered until every channel has.",
    _T.COUNTING,
    [
        (_T.COUNTING, "last barrier", _T.TRIGGERED),
        (_T.COUNTING, "cancel marker", _T.ABORTED),
        (_T.COUNTING, "end of stream", _T.ABORTED),
        (_T.COUNTING, "newer one completed", _T.FORGOTTEN),
        (_T.COUNTING, "too many tracked", _T.FORGOTTEN),
        (_T.ABORTED, "last barrier", _T.FORGOTTEN),
        (_T.ABORTED, "newer one completed", _T.FORGOTTEN),
        (_T.ABORTED, "too many tracked", _T.FORGOTTEN),
        (_T.ABORTED, "cancel marker", _T.FORGOTTEN),
        (_T.ABORTED, "end of stream", _T.FORGOTTEN),
    ],
)


class _Count:
    __slots__ = ("barrier", "checkpoint_id", "delivered", "opened_ms", "start_bytes", "state", "target")

    def __init__(self, checkpoint_id: int, barrier: Barrier | None, target: int, now_ms: int, start_bytes: int) -> None:
        self.checkpoint_id = checkpoint_id
        self.barrier = barrier
        self.target = target
        self.opened_ms = now_ms
        self.start_bytes = start_bytes
        self.delivered: set[int] = set()
        self.state = Tracked.COUNTING

    def deliver(self, channel: int) -> bool:
        """Counts a channel once. True if it was the last one missing."""
        self.delivered.add(channel)
        return len(self.delivered) == self.target

    def step(self, cause: str) -> None:
        self.state = TRACKED.step(self.state, cause)


class TrackingHandler:
    """Follows up to `MAX_TRACKED` checkpoints at once, oldest first."""

    def __init__(self, channels: int, *, after_tasks_finish: bool = True) -> None:
        self.story = Story()
        self._open = b.OpenChannels(channels)
        self._after_tasks_finish = after_tasks_finish
        self._tracked: deque[_Count] = deque()
        self._highest_seen = NO_CHECKPOINT
        self._processed_bytes = 0
        self._effects: list[b.BarrierEffect] = []

    @property
    def blurred_until(self) -> int:
        return self._highest_seen

    @property
    def open_channels(self) -> tuple[int, ...]:
        return tuple(self._open)

    @property
    def blocked(self) -> frozenset[int]:
        return frozenset()

    @property
    def pending(self) -> tuple[int, ...]:
        return tuple(count.checkpoint_id for count in self._tracked if count.state is Tracked.COUNTING)

    def is_capturing(self, channel: int) -> bool:  # noqa: ARG002
        return False

    def barrier_arrived(self, channel: int, checkpoint_id: int) -> None:
        """Does nothing: in-flight data is never captured here."""

    def data_processed(self, size_bytes: int) -> None:
        self._processed_bytes += size_bytes

    @recorded
    def handle(self, event: b.BarrierEvent, now_ms: int) -> list[b.BarrierEffect]:
        match event:
            case b.BarrierReceived(channel, barrier):
                self._open.check(channel)
                self._on_barrier(channel, barrier, now_ms)
            case b.CancelMarkerReceived(channel, checkpoint_id):
                self._open.check(channel)
                self._on_cancel(channel, checkpoint_id, now_ms)
            case b.PartitionEnded(channel):
                self._open.check(channel)
                self._on_partition_ended(channel, now_ms)
            case b.BarrierAnnounced(channel, _):
                self._open.check(channel)
            case b.AlignmentTimerFired():
                pass
        effects, self._effects = self._effects, []
        return effects

    def _on_barrier(self, channel: int, barrier: Barrier, now_ms: int) -> None:
        count = self._find(barrier.id) or self._track(barrier.id, barrier, now_ms)
        if count is not None and count.deliver(channel):
            self._complete(count, now_ms)

    def _on_cancel(self, channel: int, checkpoint_id: int, now_ms: int) -> None:
        while self._tracked and self._tracked[0].checkpoint_id < checkpoint_id:
            self._abort(self._tracked.popleft(), "cancel marker", AbortReason.CANCELLED)
        count = self._find(checkpoint_id) or self._track(checkpoint_id, None, now_ms)
        if count is None:
            return
        if count.state is Tracked.COUNTING:
            self._abort(count, "cancel marker", AbortReason.CANCELLED)
        if count.deliver(channel):
            self._complete(count, now_ms)

    def _on_partition_ended(self, channel: int, now_ms: int) -> None:
        self._open.close(channel)
        if not self._after_tasks_finish:
            while self._tracked:
                self._abort(self._tracked.popleft(), "end of stream", AbortReason.END_OF_STREAM)
            return
        complete = [count for count in self._tracked if count.deliver(channel)]
        if complete:
            self._complete(complete[-1], now_ms)

    def _find(self, checkpoint_id: int) -> _Count | None:
        return next((count for count in self._tracked if count.checkpoint_id == checkpoint_id), None)

    def _track(self, checkpoint_id: int, barrier: Barrier | None, now_ms: int) -> _Count | None:
        """Follows a new id. None for an id seen before, which has completed, aborted or been dropped."""
        if checkpoint_id <= self._highest_seen:
            return None
        self._highest_seen = checkpoint_id
        count = _Count(checkpoint_id, barrier, len(self._open), now_ms, self._processed_bytes)
        self._tracked.append(count)
        if len(self._tracked) > MAX_TRACKED:
            self._tracked.popleft().step("too many tracked")
        return count

    def _abort(self, count: _Count, cause: str, reason: AbortReason) -> None:
        """Reports an id as aborted, once; an id that was reported before is forgotten."""
        count.step(cause)
        if count.state is Tracked.ABORTED:
            self._effects.append(b.HandlerAborted(count.checkpoint_id, reason))

    def _complete(self, count: _Count, now_ms: int) -> None:
        while self._tracked[0] is not count:
            self._tracked.popleft().step("newer one completed")
        self._tracked.popleft()
        count.step("last barrier")
        if count.state is Tracked.FORGOTTEN:
            return
        barrier = count.barrier
        assert barrier is not None
        start_delay_ms = max(count.opened_ms - barrier.timestamp_ms, 0)
        processed_bytes = self._processed_bytes - count.start_bytes
        self._effects.append(b.CheckpointTriggered(barrier, start_delay_ms))
        self._effects.append(
            b.FinishAlignment(barrier.id, b.AlignmentMetrics(start_delay_ms, now_ms - count.opened_ms, processed_bytes))
        )
