"""The receiving side of a subtask: reads its channels and carries out its barrier handler's effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from snapline.config import CheckpointMode, Checkpoints
from snapline.errors import EngineError
from snapline.graph.execution_plan import PlannedEdge
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.tracker import TrackingHandler
from snapline.protocol.restore.restore_plan import ChannelRestore
from snapline.protocol.subtask import subtask_events as s
from snapline.runtime.network.item_codec import has_dictionary
from snapline.runtime.network.partitioners import Partitioner
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.mailbox import Mailbox, MailboxTimer
from snapline.runtime.task.subtask_snapshots import SubtaskSnapshots
from snapline.runtime.task.work_pace import WorkPace
from snapline.runtime.wire.channel_items import Item, ItemKind, postpone
from snapline.types import NO_CHECKPOINT, Barrier


class Port(Protocol):
    """The network's end of an input channel; see `InputChannel`."""

    def consumed(self, size: int) -> None: ...

    def end_read(self) -> None: ...


@dataclass(slots=True)
class GateChannel:
    """One channel a subtask reads. `queue` holds unread items, each with its number."""

    index: int
    edge: PlannedEdge
    upstream: int
    downstream: int
    partitioner: Partitioner
    port: Port
    queue: deque[tuple[int, Item]] = field(default_factory=deque)
    queued_bytes: int = 0
    arrived: int = 0
    barrier_numbers: dict[int, int] = field(default_factory=dict)
    is_blocked: bool = False
    merges: bool = field(init=False)
    """Dictionaries may differ between batches, so such batches are never merged."""

    def __post_init__(self) -> None:
        self.merges = not has_dictionary(self.edge.schema)

    def take_data(self, pace: WorkPace) -> Item:
        """Take the data at the head, merged with what follows or cut: as much as the operators should get at once."""
        number, item = self.queue.popleft()
        batch, most_rows = item.value, pace.sliced_rows
        if batch.num_rows > most_rows:
            first_rows = int(most_rows)
            first_size = item.size * first_rows // batch.num_rows
            rest = Item(item.kind, batch.slice(first_rows), item.size - first_size)
            self.queue.appendleft((number, rest))
            item = Item(item.kind, batch.slice(0, first_rows), first_size)
        elif self.queue and self.merges and batch.num_rows < pace.merged_rows:
            item = self._merged(item, pace)
        self.queued_bytes -= item.size
        return item

    def _merged(self, first: Item, pace: WorkPace) -> Item:
        """Merge data that follows; what is not data in between comes behind it, as on the way here."""
        batches, rows, size = [first.value], first.value.num_rows, first.size
        queue, most_rows = self.queue, pace.merged_rows
        delayed: list[Item] = []
        while queue:
            item = queue[0][1]
            if item.kind is ItemKind.DATA:
                rows += item.value.num_rows
                if rows > most_rows or size + item.size > pace.batch_bytes:
                    break
                size += item.size
                batches.append(item.value)
            elif item.kind in (ItemKind.WATERMARK, ItemKind.LATENCY):
                postpone(delayed, item)
            else:
                break
            number, _ = queue.popleft()
        queue.extendleft((number, item) for item in reversed(delayed))
        return Item(first.kind, pa.concat_batches(batches), size) if len(batches) > 1 else first

    def unread_before_barrier(self, checkpoint_id: int) -> list[pa.RecordBatch]:
        """Unread data ahead of this barrier; all of it if the barrier has not arrived."""
        limit = self.barrier_numbers.get(checkpoint_id)
        return [item.value for number, item in self.queue if item.kind.is_data and (limit is None or number < limit)]

    def take_announced(self, checkpoint_id: int) -> Barrier | None:
        """Take a barrier from behind unread data."""
        for position, (_, item) in enumerate(self.queue):
            if item.kind is ItemKind.BARRIER and item.value.id == checkpoint_id:
                del self.queue[position]
                barrier: Barrier = item.value
                return barrier
        return None

    def holds_barrier(self, checkpoint_id: int) -> bool:
        return any(item.kind is ItemKind.BARRIER and item.value.id == checkpoint_id for _, item in self.queue)


class InputGate:
    """The channels of a subtask and the barrier handler that blocks them. Used by the task's thread only."""

    def __init__(
        self,
        channels: Sequence[GateChannel],
        handler: b.BarrierHandler,
        snapshots: SubtaskSnapshots,
        mailbox: Mailbox,
        effects: EffectQueue,
        feed: Callable[[s.SubtaskEvent], None],
        clock: Callable[[], int],
        pace: WorkPace,
    ) -> None:
        self.channels = channels
        self._handler = handler
        self._snapshots = snapshots
        self._mailbox = mailbox
        self._effects = effects
        self._feed = feed
        self._clock = clock
        self._pace = pace
        self._urgent: deque[tuple[GateChannel, Barrier]] = deque()
        self._next = 0
        self._alignment_timer: MailboxTimer | None = None
        self._capturing_id = NO_CHECKPOINT
        self._barriers: dict[int, Barrier] = {}

    @property
    def open_channels(self) -> tuple[int, ...]:
        return self._handler.open_channels

    @property
    def blurred_until(self) -> int:
        return self._handler.blurred_until

    @property
    def queued_bytes(self) -> int:
        return sum(channel.queued_bytes for channel in self.channels)

    def restored(self, part: ChannelRestore, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields in-flight data of a channel to process again, with the number of its input."""
        channel = next(channel for channel in self.channels if channel.edge.id == part.part.edge)
        for batch in batches:
            taken = channel.partitioner.owned(batch, channel.downstream) if part.filter else batch
            if taken.num_rows:
                yield channel.edge.input_index, taken

    # Reading.

    def receive(self) -> None:
        arrivals = self._mailbox.arrivals
        while arrivals:
            index, item = arrivals.popleft()
            self._arrive(self.channels[index], item)

    def _arrive(self, channel: GateChannel, item: Item) -> None:
        channel.arrived += 1
        handler, kind = self._handler, item.kind
        if kind is ItemKind.BARRIER:
            barrier: Barrier = item.value
            handler.barrier_arrived(channel.index, barrier.id)
            channel.barrier_numbers[barrier.id] = channel.arrived
            _forget_old(channel.barrier_numbers)
            self._know(barrier)
            if barrier.is_unaligned:
                self._urgent.append((channel, barrier))
                return
            if barrier.is_timeoutable and channel.queue:
                announced = b.BarrierAnnounced(channel.index, barrier)
                self._mailbox.post(lambda: self._announce(announced))
        elif kind.is_data:
            if kind is ItemKind.FILTERED_DATA:
                owned = channel.partitioner.owned(item.value, channel.downstream)
                if not owned.num_rows:
                    channel.port.consumed(item.size)
                    return
                # Keeps the size it was sent with: that is the credit to return.
                item = Item(ItemKind.DATA, owned, item.size)
            channel.queued_bytes += item.size
            if handler.is_capturing(channel.index):
                self._capture(channel, [item.value])
        channel.queue.append((channel.arrived, item))

    def read_urgent(self) -> bool:
        """Read a barrier that overtakes everything. Returns False if there is none."""
        if not self._urgent:
            return False
        channel, barrier = self._urgent.popleft()
        self.handle(b.BarrierReceived(channel.index, barrier))
        return True

    def take(self, *, has_room: bool, may_end: bool = True) -> tuple[GateChannel, Item] | None:
        """Take the next item of an unblocked channel, channels in turn, or None.

        Without room, leaves items that operators may answer with data; without `may_end`, leaves ends of data.
        """
        channels = self.channels
        count = len(channels)
        for step in range(count):
            position = (self._next + step) % count
            channel = channels[position]
            if not channel.queue or channel.is_blocked:
                continue
            item = channel.queue[0][1]
            if not has_room and item.kind in _MAKES_OUTPUT:
                continue
            if not may_end and item.kind is ItemKind.END_OF_DATA:
                continue
            self._next = position + 1
            if item.kind.is_data:
                item = channel.take_data(self._pace)
                self._handler.data_processed(item.size)
                channel.port.consumed(item.size)
            else:
                channel.queue.popleft()
            return channel, item
        return None

    def partition_ended(self, channel: GateChannel) -> None:
        self.handle(b.PartitionEnded(channel.index))
        if not self.open_channels:
            self._feed(s.PartitionsEnded())

    # Barrier handling.

    def _announce(self, event: b.BarrierAnnounced) -> None:
        """Announce a barrier behind unread data, unless it was read in the meantime."""
        if self.channels[event.channel].holds_barrier(event.barrier.id):
            self.handle(event)

    def handle(self, event: b.BarrierEvent) -> None:
        if isinstance(event, b.BarrierReceived):
            self._know(event.barrier)
        self._effects.add(self._carry_out, self._handler.handle(event, self._clock()))

    def _carry_out(self, effect: b.BarrierEffect) -> None:
        match effect:
            case b.BlockChannel(channel):
                self.channels[channel].is_blocked = True
            case b.ResumeChannel(channel):
                self.channels[channel].is_blocked = False
            case b.PrioritizeBarrier(channel, checkpoint_id):
                barrier = self.channels[channel].take_announced(checkpoint_id)
                if barrier is not None:
                    self._urgent.append((self.channels[channel], barrier))
            case b.StartCapture(checkpoint_id):
                self._start_capture(checkpoint_id)
            case b.CheckpointTriggered() | b.HandlerAborted():
                self._feed(effect)
            case b.FinishAlignment(checkpoint_id, metrics):
                self._snapshots.finish_inputs(checkpoint_id, metrics)
            case b.SetAlignmentTimer(checkpoint_id, at_ms):
                self._cancel_alignment_timer()
                fired = b.AlignmentTimerFired(checkpoint_id)
                self._alignment_timer = self._mailbox.at(at_ms, lambda: self.handle(fired))
            case b.CancelAlignmentTimer():
                self._cancel_alignment_timer()

    def _start_capture(self, checkpoint_id: int) -> None:
        self._capturing_id = checkpoint_id
        barrier = self._barriers.get(checkpoint_id)
        if barrier is None:
            raise EngineError(f"in-flight data of checkpoint {checkpoint_id}, but no barrier has arrived")
        self._snapshots.start(barrier)
        for channel in self.channels:
            self._capture(channel, channel.unread_before_barrier(checkpoint_id))

    def _capture(self, channel: GateChannel, batches: Sequence[pa.RecordBatch]) -> None:
        if batches:
            self._snapshots.capture_input(
                self._capturing_id, channel.edge.id, channel.upstream, channel.downstream, batches
            )

    def _cancel_alignment_timer(self) -> None:
        if self._alignment_timer is not None:
            self._alignment_timer.cancel()
            self._alignment_timer = None

    def _know(self, barrier: Barrier) -> None:
        self._barriers[barrier.id] = barrier
        _forget_old(self._barriers)


def make_handler(checkpoints: Checkpoints, channels: int) -> b.BarrierHandler:
    if checkpoints.mode is CheckpointMode.AT_LEAST_ONCE:
        return TrackingHandler(channels, after_tasks_finish=checkpoints.after_tasks_finish)
    mode = b.handler_mode(checkpoints)
    return AligningHandler(mode, channels, after_tasks_finish=checkpoints.after_tasks_finish)


def idle_together(channels: Sequence[GateChannel], in_unison: Collection[str]) -> list[list[int]]:
    """The channels of each edge from one of these vertices, whose subtasks are idle or not together."""
    found: dict[str, list[int]] = {}
    for channel in channels:
        if channel.edge.source in in_unison:
            found.setdefault(channel.edge.id, []).append(channel.index)
    return list(found.values())


_MAKES_OUTPUT = frozenset({ItemKind.DATA, ItemKind.FILTERED_DATA, ItemKind.WATERMARK, ItemKind.END_OF_DATA})

_MAX_REMEMBERED = 100
"""A channel remembers the barriers of this many checkpoints."""


def _forget_old(by_checkpoint: dict[int, object] | dict[int, int] | dict[int, Barrier]) -> None:
    if len(by_checkpoint) > _MAX_REMEMBERED:
        del by_checkpoint[min(by_checkpoint)]
