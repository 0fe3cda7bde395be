"""The receiving side of a subtask: reads its channels, and carries out what its barrier handler orders."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from snapline.devtools.simulator.capturing import Snapshots
from snapline.devtools.simulator.channels import Channel, Item, ItemKind, Record
from snapline.devtools.simulator.kernel import Kernel, Process, Scheduled
from snapline.devtools.simulator.operators import Operator
from snapline.devtools.simulator.scenario import SimEdge
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.subtask import subtask_events as s
from snapline.types import NO_CHECKPOINT, Barrier, Partitioning


class Reader(Protocol):
    """A subtask, as its input gate sees it."""

    process: Process
    operator: Operator

    def wake(self) -> None:
        """There may be something to do."""

    def post(self, call: Callable[[], None]) -> None:
        """Call in a turn of its own."""

    def feed(self, event: s.SubtaskEvent) -> None:
        """Tell the checkpoint machine."""


class InputGate:
    """The channels a subtask reads, edge by edge, and the barrier handler that says which and when."""

    def __init__(
        self,
        kernel: Kernel,
        reader: Reader,
        handler: b.BarrierHandler,
        edges: Sequence[tuple[SimEdge, list[Channel]]],
        snapshots: Snapshots,
    ) -> None:
        self.channels = [channel for _, channels in edges for channel in channels]
        self._kernel = kernel
        self._reader = reader
        self._handler = handler
        self._snapshots = snapshots
        self._edges = [(edge, number) for number, (edge, channels) in enumerate(edges) for _ in channels]
        self._blocked: set[int] = set()
        self._urgent: deque[tuple[Channel, Barrier]] = deque()
        self._alignment_timer: Scheduled | None = None
        self._capturing_id = NO_CHECKPOINT
        for index, channel in enumerate(self.channels):
            channel.index = index

    @property
    def open_channels(self) -> tuple[int, ...]:
        """The channels that have not ended."""
        return self._handler.open_channels

    @property
    def blurred_until(self) -> int:
        return self._handler.blurred_until

    def edge_number(self, edge_id: str) -> int:
        """The number of one of this gate's edges."""
        return next(number for edge, number in self._edges if edge.id == edge_id)

    # Reading.

    def arrive(self, channel: Channel, item: Item) -> None:
        """Something has come through a channel."""
        handler = self._handler
        if item.kind is ItemKind.BARRIER:
            barrier: Barrier = item.value
            handler.barrier_arrived(channel.index, barrier.id)
            if barrier.is_unaligned:
                self._urgent.append((channel, barrier))
                self._reader.wake()
                return
            if barrier.is_timeoutable and channel.input:
                announced = b.BarrierAnnounced(channel.index, barrier)
                self._reader.post(lambda: self.handle(announced))
        elif item.kind is ItemKind.DATA:
            record: Record = item.value
            if record.filtered:
                if not self._reader.operator.owns(record):
                    self._kernel.cover("in-flight record filtered on rescale")
                    return
                item = Item(item.kind, Record(record.id, record.key), item.sequence)
            if handler.is_capturing(channel.index):
                self._capture(channel, [item.value])
        channel.input.append(item)
        self._reader.wake()

    def read_urgent(self) -> bool:
        """Read a barrier that goes before everything else; false if there is none."""
        if not self._urgent:
            return False
        channel, barrier = self._urgent.popleft()
        self.handle(b.BarrierReceived(channel.index, barrier))
        return True

    def take(self, *, has_room: bool) -> tuple[Channel, Item] | None:
        """Take the next item of a channel that may be read; no data unless there is room for what becomes of it."""
        count = len(self.channels)
        start = self._kernel.between(0, count - 1)
        for step in range(count):
            channel = self.channels[(start + step) % count]
            if not channel.input or channel.index in self._blocked:
                continue
            item = channel.input[0]
            if item.kind is ItemKind.DATA and not has_room:
                continue
            channel.input.popleft()
            channel.pump()
            return channel, item
        return None

    def data_read(self, channel: Channel) -> tuple[int, bool]:
        """Count data that was taken; told is its edge's number, and whether it is a broadcast edge."""
        self._handler.data_processed(1)
        edge, number = self._edges[channel.index]
        return number, edge.partitioning is Partitioning.BROADCAST

    def partition_ended(self, channel: Channel) -> None:
        """The last item of a channel was taken."""
        self.handle(b.PartitionEnded(channel.index))
        if not self.open_channels:
            self._reader.feed(s.PartitionsEnded())

    # The barrier handler's orders.

    def handle(self, event: b.BarrierEvent) -> None:
        """Tell the barrier handler, and do what it orders."""
        if not self._reader.process.alive or self._is_outdated(event):
            return
        for effect in self._handler.handle(event, self._kernel.now_ms):
            self._carry_out(effect)

    def _is_outdated(self, event: b.BarrierEvent) -> bool:
        """Whether a barrier that was announced has been read in the meantime."""
        return isinstance(event, b.BarrierAnnounced) and not any(
            item.kind is ItemKind.BARRIER and item.value.id == event.barrier.id
            for item in self.channels[event.channel].input
        )

    def _carry_out(self, effect: b.BarrierEffect) -> None:
        match effect:
            case b.BlockChannel(channel):
                self._blocked.add(channel)
            case b.ResumeChannel(channel):
                self._blocked.discard(channel)
            case b.PrioritizeBarrier(channel, checkpoint_id):
                self._prioritize(self.channels[channel], checkpoint_id)
            case b.StartCapture(checkpoint_id):
                self._capturing_id = checkpoint_id
                self._snapshots.start(checkpoint_id)
                for captured in self.channels:
                    self._capture(captured, captured.unread_before_barrier(checkpoint_id))
            case b.TriggerCheckpoint(barrier, start_delay_ms):
                self._reader.feed(s.CheckpointTriggered(barrier, start_delay_ms))
            case b.FinishAlignment(checkpoint_id, metrics):
                self._snapshots.finish_inputs(checkpoint_id, metrics)
            case b.AbortCheckpoint(checkpoint_id, reason):
                self._kernel.cover(f"abort: {reason.value}")
                self._reader.feed(s.HandlerAborted(checkpoint_id, reason))
            case b.SetAlignmentTimer(checkpoint_id, at_ms):
                self._set_alignment_timer(checkpoint_id, at_ms)
            case b.CancelAlignmentTimer():
                self._cancel_alignment_timer()

    def _prioritize(self, channel: Channel, checkpoint_id: int) -> None:
        barrier = channel.take_announced(checkpoint_id)
        if barrier is not None:
            self._kernel.cover("announced barrier overtakes")
            self._urgent.append((channel, barrier))

    def _capture(self, channel: Channel, records: list[Record]) -> None:
        self._snapshots.capture_input(self._capturing_id, channel, records)

    def _set_alignment_timer(self, checkpoint_id: int, at_ms: int) -> None:
        self._cancel_alignment_timer()
        fired = b.AlignmentTimerFired(checkpoint_id)
        delay_ms = max(at_ms - self._kernel.now_ms, 0)
        self._alignment_timer = self._kernel.after(
            delay_ms, self._reader.process, self._reader.post, lambda: self.handle(fired)
        )

    def _cancel_alignment_timer(self) -> None:
        if self._alignment_timer is not None:
            self._alignment_timer.cancel()
