"""What travels in a channel between two subtasks."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple


class ItemKind(IntEnum):
    """The kinds, with what `Item.value` is."""

    DATA = 0
    """a `pyarrow.RecordBatch`"""
    FILTERED_DATA = 1
    """a `pyarrow.RecordBatch` that was replayed to several subtasks: each takes only the rows it owns"""
    WATERMARK = 2
    """an int: event time in milliseconds; `IDLE` if the channel is to be left out"""
    LATENCY = 3
    """an int: when the mark left its source, in milliseconds"""
    BARRIER = 4
    """a `Barrier`"""
    CANCEL = 5
    """an int: the checkpoint that is given up"""
    END_OF_DATA = 6
    """an int: the first checkpoint that may be the last here"""
    END_OF_PARTITION = 7
    """None: nothing will ever follow"""

    @property
    def is_data(self) -> bool:
        return self <= ItemKind.FILTERED_DATA


ITEM_COST_BYTES = 256
"""What an item counts for on top of its data, so that many small ones have a limit too."""


class Item(NamedTuple):
    """Something in a channel; `size` is what it counts for against the channel's memory, 0 unless it is data."""

    kind: ItemKind
    value: Any = None
    size: int = 0


def data_item(batch: Any, *, filtered: bool = False) -> Item:
    """A batch as an item."""
    kind = ItemKind.FILTERED_DATA if filtered else ItemKind.DATA
    return Item(kind, batch, batch.nbytes + ITEM_COST_BYTES)
