"""The two ends of a channel, within one process or across a connection."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from snapline.errors import EngineError, PeerError
from snapline.runtime.network.flusher import Flusher
from snapline.runtime.network.item_codec import ChannelKey, has_dictionary
from snapline.runtime.network.output_queue import ChannelLimits, OutputQueue, merged
from snapline.runtime.network.partitioners import compacted
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.types import Barrier

ITEM_LIMIT_BYTES = 32 * 1024 * 1024
"""Larger batches travel in pieces."""

_LEAST_GAP_S = 0.001
"""Between two batches that leave because the task has nothing to do."""

_MUCH_MORE = 1.5
"""A batch stays whole if its halves together exceed its own size by this factor."""


class Sender(Protocol):
    """The task that sends into a channel. Called on any thread, even from within its own calls: only record it."""

    def room_changed(self) -> None:
        """A full channel has room again, or a channel's queue ran empty."""

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        """A barrier has left the queue and can no longer overtake."""

    def end_was_read(self, channel: OutputChannel) -> None: ...


class Receiver(Protocol):
    """The task that reads a channel. Called on any thread; must not block."""

    def arrive(self, channel_index: int, item: Item) -> None:
        """An item arrived; the items of one channel come one at a time and in order."""

    def connection_lost(self, error: str) -> None:
        """Some channel broke before it ended."""


class InputChannel(Protocol):
    """The receiving end, for the task that reads it. Any thread."""

    def consumed(self, size: int) -> None:
        """The task took this many bytes from its input queue: return them as credit."""

    def end_read(self) -> None: ...


class OutputChannel(ABC):
    """The sending end. Only the task's thread calls `send`, `send_barrier` and `prioritize`."""

    def __init__(
        self,
        key: ChannelKey,
        schema: pa.Schema,
        sender: Sender,
        limits: ChannelLimits,
        flusher: Flusher,
        *,
        may_be_unaligned: bool,
    ) -> None:
        self.key = key
        self.edge = key.edge
        self.upstream = key.upstream
        self.downstream = key.downstream
        self.may_be_unaligned = may_be_unaligned
        self.has_dictionary = has_dictionary(schema)
        self._schema = schema
        self._sender = sender
        self._flusher = flusher
        self._flush_timeout_s = limits.flush_timeout_ms / 1000
        self._window = limits.channel_memory_bytes
        self._lock = threading.Lock()
        # Dictionaries may differ between batches, so such batches are never merged.
        self._queue = OutputQueue(limits, merges=not self.has_dictionary)
        self._held_since = 0.0
        self._left_at = 0.0
        self._is_watched = False
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether the task should pause sending data."""
        return self._queue.is_full

    @property
    def queued_bytes(self) -> int:
        return self._queue.queued_bytes

    @property
    def is_empty(self) -> bool:
        return not self._queue

    def send(self, item: Item) -> None:
        """Append an item to the queue; never blocks."""
        if item.kind <= ItemKind.FILTERED_DATA:
            if not item.value.schema.equals(self._schema):
                raise EngineError(f"a batch of {item.value.schema} on an edge for {self._schema}")
            if item.size > ITEM_LIMIT_BYTES:
                for piece in _pieces(item):
                    self._append(piece)
                return
        self._append(item)

    def send_barrier(self, barrier: Barrier) -> list[pa.RecordBatch]:
        """Queue a barrier. An unaligned one goes to the front; returns the data it overtakes."""
        if not self.may_be_unaligned:
            barrier = barrier.for_aligned_only_edge()
        if not barrier.is_unaligned:
            self._append(Item(ItemKind.BARRIER, barrier))
            return []
        with self._lock:
            if self._is_closed:
                return []
            overtaken = self._queue.overtake(barrier)
        self._pump()
        return overtaken

    def prioritize(self, checkpoint_id: int) -> list[pa.RecordBatch]:
        """Let a queued barrier with timeout overtake. Returns the data it overtakes."""
        with self._lock:
            overtaken = self._queue.prioritize(checkpoint_id)
        self._pump()
        return overtaken

    def flush(self) -> None:
        """Release everything queued now."""
        with self._lock:
            self._queue.flush()
        self._pump()

    def flush_in_pause(self) -> float | None:
        """The task has nothing to do: release what is held back for merging, so that rows wait only for more to do.

        If something has left just now, it returns after how many seconds to call it again.
        """
        if not self._queue.is_holding:
            return None
        now = time.monotonic()
        early_s = self._left_at + _LEAST_GAP_S - now
        if early_s > 0:
            return early_s
        with self._lock:
            self._left_at = now
            self._queue.flush()
        self._pump()
        return None

    def flush_if_due(self, now: float) -> float | None:
        """Flush what has been held back long enough. Returns the next due time, or None."""
        with self._lock:
            if self._is_closed or not self._queue.is_holding:
                self._is_watched = False
                return None
            due = self._held_since + self._flush_timeout_s
            if due > now:
                return due
            self._is_watched = False
            self._left_at = now
            self._queue.flush()
        self._pump()
        return None

    def close(self) -> None:
        """Drop what is queued and ignore later sends."""
        with self._lock:
            self._is_closed = True
            self._queue.clear()

    def add_credit(self, size: int) -> None:
        with self._lock:
            credit = self._queue.credit + size
            if size < 0 or credit > self._window:
                raise PeerError(f"the receiver returned more credit than it was sent: {size} bytes")
            self._queue.credit = credit
        self._pump()

    def end_was_read(self) -> None:
        self._sender.end_was_read(self)

    def _append(self, item: Item) -> None:
        queue = self._queue
        due = None
        with self._lock:
            if self._is_closed:
                return
            was_holding = queue.is_holding
            queue.append(item)
            if not was_holding and queue.is_holding:
                self._held_since = time.monotonic()
                if not self._is_watched:
                    self._is_watched = True
                    due = self._held_since + self._flush_timeout_s
            can_take = queue.can_take
        if due is not None:
            self._flusher.watch(self, due)
        if can_take:
            self._pump()

    @abstractmethod
    def _pump(self) -> None:
        """Move what may leave. Called without the lock."""

    @abstractmethod
    def _rest(self) -> None:
        """Nothing may leave for now. Called with the lock."""

    def take(self) -> Item | None:
        """Take the next item to leave and notify the sender. Only the pumping thread calls it."""
        queue = self._queue
        with self._lock:
            was_full = queue.is_full
            taken = queue.take()
            if taken is None:
                self._rest()
                return None
            has_room = not queue or (was_full and not queue.is_full)
        item, batches = taken
        if has_room:
            self._sender.room_changed()
        if item.kind is ItemKind.BARRIER:
            self._sender.barrier_left(self, item.value.id)
        return merged(item, batches)


def _pieces(item: Item) -> Iterator[Item]:
    """Slice a batch that is too large for one frame."""
    batch = item.value
    if item.size <= ITEM_LIMIT_BYTES or batch.num_rows <= 1:
        yield item
        return
    half = batch.num_rows // 2
    is_filtered = item.kind is ItemKind.FILTERED_DATA
    pieces = [data_item(compacted(part), filtered=is_filtered) for part in (batch.slice(0, half), batch.slice(half))]
    if sum(piece.value.nbytes for piece in pieces) > _MUCH_MORE * batch.nbytes:
        # Both halves share what makes it large, a dictionary for example: slicing does not help.
        yield item
        return
    for piece in pieces:
        yield from _pieces(piece)


class LocalChannel(OutputChannel):
    """A channel within a process. The thread that makes an item movable delivers it, one at a time, without a lock."""

    _receiver: Receiver | None = None
    _channel_index = 0
    _is_pumping = False

    def join(self, receiver: Receiver, channel_index: int) -> None:
        """Connect the receiver; until then items wait."""
        with self._lock:
            self._channel_index = channel_index
            self._receiver = receiver
        self._pump()

    def _pump(self) -> None:
        with self._lock:
            receiver = self._receiver
            if self._is_pumping or receiver is None or not self._queue.can_take:
                return
            self._is_pumping = True
        while (item := self.take()) is not None:
            receiver.arrive(self._channel_index, item)

    def _rest(self) -> None:
        self._is_pumping = False


class LocalInput:
    """The receiving end of a local channel; `channel` is set once both ends are joined."""

    def __init__(self) -> None:
        self.channel: LocalChannel | None = None

    def consumed(self, size: int) -> None:
        if self.channel is not None and size:
            self.channel.add_credit(size)

    def end_read(self) -> None:
        if self.channel is not None:
            self.channel.end_was_read()


class Link(Protocol):
    """A connection as its channels see it."""

    def schedule(self, channel: RemoteChannel) -> None: ...

    def give_credit(self, key: ChannelKey, size: int) -> None: ...

    def tell_end_read(self, key: ChannelKey) -> None: ...


class RemoteChannel(OutputChannel):
    """A channel to another process; scheduled on its connection while it has something to send."""

    _link: Link | None = None
    _is_scheduled = False

    def attach(self, link: Link) -> None:
        """Set the connection; until then items wait."""
        with self._lock:
            self._link = link
        self._pump()

    def _pump(self) -> None:
        with self._lock:
            link = self._link
            if self._is_scheduled or link is None or not self._queue.can_take:
                return
            self._is_scheduled = True
        link.schedule(self)

    def _rest(self) -> None:
        self._is_scheduled = False


class RemoteInput:
    """The receiving end of a channel from another process.

    Credit goes back once half a window is consumed. A sender without credit has a whole window under way, so this
    cannot stall.
    """

    def __init__(
        self, key: ChannelKey, schema: pa.Schema, receiver: Receiver, channel_index: int, window_bytes: int
    ) -> None:
        self.key = key
        self.schema = schema
        self.receiver = receiver
        self.channel_index = channel_index
        self.link: Link | None = None
        self._threshold = max(window_bytes // 2, 1)
        self._due = 0
        self._lock = threading.Lock()

    def consumed(self, size: int) -> None:
        with self._lock:
            self._due += size
            if self._due < self._threshold:
                return
            due, self._due = self._due, 0
        if self.link is not None:
            self.link.give_credit(self.key, due)

    def end_read(self) -> None:
        if self.link is not None:
            self.link.tell_end_read(self.key)
