"""What travels in a channel between two subtasks."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from snapline.types import IDLE


class ItemKind(IntEnum):
    """The kinds of items, each with the type of `Item.value`."""

    DATA = 0
    """a `pyarrow.RecordBatch`"""
    FILTERED_DATA = 1
    """a `pyarrow.RecordBatch` replayed to several subtasks: each takes only the rows it owns"""
    WATERMARK = 2
    """an int: event time in milliseconds; `IDLE` leaves the channel out"""
    LATENCY = 3
    """an int: when the mark left its source, in milliseconds"""
    BARRIER = 4
    """a `Barrier`"""
    CANCEL = 5
    """an int: the aborted checkpoint"""
    END_OF_DATA = 6
    """an int: the first checkpoint that can be the last one here"""
    END_OF_PARTITION = 7
    """None: nothing follows"""

    @property
    def is_data(self) -> bool:
        return self <= ItemKind.FILTERED_DATA


ITEM_COST_BYTES = 256
"""What an item counts on top of its data, so that many small ones are limited too."""


class Item(NamedTuple):
    """`size` counts against the channel's memory; 0 unless the item is data."""

    kind: ItemKind
    value: Any = None
    size: int = 0


def data_item(batch: Any, *, filtered: bool = False) -> Item:
    kind = ItemKind.FILTERED_DATA if filtered else ItemKind.DATA
    return Item(kind, batch, batch.nbytes + ITEM_COST_BYTES)


def postpone(items: list[Item], item: Item) -> None:
    """Add a watermark or latency mark to those that come behind data that is merged: the last watermark counts."""
    if item.kind is ItemKind.WATERMARK and item.value != IDLE:
        items[:] = [other for other in items if other.kind is not ItemKind.WATERMARK]
    items.append(item)
