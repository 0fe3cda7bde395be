"""The queue of a channel's sending side: what may leave, in which order, merged how. No threads in here."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapline.runtime.wire.channel_items import Item, ItemKind, postpone
from snapline.types import Barrier, BarrierKind

_DATA, _FILTERED, _LATENCY = ItemKind.DATA, ItemKind.FILTERED_DATA, ItemKind.LATENCY
_BARRIER, _CANCEL = ItemKind.BARRIER, ItemKind.CANCEL


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """How much a channel holds and for how long; `flush_timeout_ms` 0 holds nothing back."""

    batch_size_bytes: int
    flush_timeout_ms: int
    channel_memory_bytes: int


class OutputQueue:
    """The first `_released` items may leave, data only while there is credit; later ones are held back for merging."""

    __slots__ = (
        "_batch_size",
        "_held_bytes",
        "_hold_limit",
        "_holds",
        "_items",
        "_memory",
        "_merges",
        "_released",
        "credit",
        "queued_bytes",
    )

    def __init__(self, limits: ChannelLimits, *, merges: bool = True) -> None:
        self._batch_size = limits.batch_size_bytes
        self._memory = limits.channel_memory_bytes
        # Data that fills the channel must not be held back, or it would wait for nothing.
        self._hold_limit = min(limits.batch_size_bytes, limits.channel_memory_bytes // 2)
        self._holds = limits.flush_timeout_ms > 0 and merges
        self._merges = merges
        self._items: deque[Item] = deque()
        self._released = 0
        self._held_bytes = 0
        self.credit = limits.channel_memory_bytes
        self.queued_bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        return self.queued_bytes >= self._memory

    @property
    def is_holding(self) -> bool:
        return self._released < len(self._items)

    @property
    def can_take(self) -> bool:
        return self._released > 0 and (self.credit > 0 or self._items[0].kind > _FILTERED)

    def append(self, item: Item) -> None:
        items = self._items
        kind = item.kind
        is_holding = self._released < len(items)
        items.append(item)
        self.queued_bytes += item.size
        if not self._holds or kind > _LATENCY or kind == _FILTERED:
            self.flush()
        elif kind == _DATA:
            self._held_bytes += item.size
            if self._held_bytes >= self._hold_limit:
                self.flush()
        elif not is_holding:
            self._released += 1

    def flush(self) -> None:
        self._released = len(self._items)
        self._held_bytes = 0

    def clear(self) -> None:
        self._items.clear()
        self._released = self._held_bytes = self.queued_bytes = 0

    def take(self) -> tuple[Item, Sequence[Any]] | None:
        """Take what leaves next: an item, and the batches to merge into it if there are several. None if nothing."""
        if not self.can_take:
            return None
        items = self._items
        item = items.popleft()
        self._released -= 1
        size = item.size
        batches: list[Any] = []
        if item.kind == _DATA and self._merges and self._released and size < self._batch_size:
            batches, size = self._gather(item)
            if batches:
                item = Item(_DATA, None, size)
        self.queued_bytes -= size
        if item.kind <= _FILTERED:
            self.credit -= size
        return item, batches

    def _gather(self, first: Item) -> tuple[list[Any], int]:
        """Take the following data, up to about one batch; items in between that are not data move behind it."""
        items = self._items
        batches = [first.value]
        size = first.size
        delayed: list[Item] = []
        while self._released and size < self._batch_size:
            item = items[0]
            if item.kind == _DATA:
                if size + item.size > 2 * self._batch_size:
                    break
                batches.append(item.value)
                size += item.size
            elif _FILTERED < item.kind <= _LATENCY:
                postpone(delayed, item)
            else:
                break
            items.popleft()
            self._released -= 1
        items.extendleft(reversed(delayed))
        self._released += len(delayed)
        return (batches if len(batches) > 1 else []), size

    # Barriers.

    def overtake(self, barrier: Barrier) -> list[pa.RecordBatch]:
        """Queue a barrier ahead of all data, which it returns."""
        overtaken = self._data(len(self._items))
        self._put_first(Item(_BARRIER, barrier))
        self._released += 1
        return overtaken

    def prioritize(self, checkpoint_id: int) -> list[pa.RecordBatch]:
        """Let a queued barrier with timeout overtake. Returns the data it overtakes."""
        for position, item in enumerate(self._items):
            if item.kind == _BARRIER and item.value.id == checkpoint_id:
                if item.value.kind is not BarrierKind.ALIGNED_WITH_TIMEOUT:
                    return []
                overtaken = self._data(position)
                del self._items[position]
                self._put_first(Item(_BARRIER, item.value.as_unaligned()))
                return overtaken
        return []

    def _data(self, count: int) -> list[pa.RecordBatch]:
        overtaken = []
        for position, item in enumerate(self._items):
            if position == count:
                break
            assert item.kind != _FILTERED, "an unaligned checkpoint while restored data is still queued"
            if item.kind == _DATA:
                overtaken.append(item.value)
        return overtaken

    def _put_first(self, item: Item) -> None:
        """Put a barrier in front, but behind older ones: barriers do not overtake each other."""
        position = 0
        for other in self._items:
            if other.kind not in (_BARRIER, _CANCEL):
                break
            position += 1
        self._items.insert(position, item)


def merged(item: Item, batches: Sequence[Any]) -> Item:
    """The result of `OutputQueue.take` as one item."""
    return item._replace(value=pa.concat_batches(batches)) if batches else item
