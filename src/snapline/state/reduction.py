"""Partial reduction of values by key, drained before every barrier and so never part of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from snapline.errors import EngineError
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Attached, Rows, key_types
from snapline.state.columns import SlotArray
from snapline.state.key_scope import Scope
from snapline.state.selection import Selection
from snapline.state.state_types import StateType, resolve
from snapline.state.value_cells import ValueCells
from snapline.state.value_states import ReducingState, ValueState
from snapline.state.value_tables import Layout, ValueTable

MAX_REMEMBERED_KEYS = 1 << 20
"""Up to this many keys keep their slots when drained and are found faster the next time."""


class Reduction:
    """Reduces columns of values by key. `parts` are the type and the reducer of each column."""

    def __init__(self, key: pa.DataType, parts: Sequence[tuple[pa.DataType, str]]) -> None:
        self._key = key_types(resolve(key), "key")
        self._parts = parts
        self._forget()

    def _forget(self) -> None:
        layout = Layout(self._key)
        self._space = layout.space()
        self._touched = _Touched(np.bool_)
        self._space.attach(self._touched)
        selection = Selection(_no_current_key)
        self._tables = [
            ValueTable(layout, self._space, StateType(kind), ttl_ms=None, clock=lambda: 0) for kind, _ in self._parts
        ]
        self._states = [
            ReducingState(ValueState(ValueCells(Scope(_rows, selection, None), table)), reduce)
            for table, (_, reduce) in zip(self._tables, self._parts, strict=True)
        ]
        self.rows = 0

    def add(self, keys: Sequence[pa.Array], values: Sequence[pa.Array]) -> None:
        """Add rows: the columns of their keys, and a column for each part."""
        rows = Rows.of(self._key.encode(list(keys)))
        slots = rows.slots(self._space, add=True)
        self._touched.array[slots] = True
        for state, column in zip(self._states, values, strict=True):
            state.add_all(rows, column)
        self.rows += len(rows)

    def has_more_keys_than(self, count: int) -> bool:
        """Whether more than `count` keys were added since the last drain."""
        size = self._space.size
        return size > count and int(np.count_nonzero(self._touched.array[:size])) > count

    def drain(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """Remove and return everything, each key once: the columns of the keys, and those of the parts."""
        size = self._space.size
        slots = np.flatnonzero(self._touched.array[:size])
        keys = [column.take(slots).to_arrow() for column in self._space.columns()]
        values = [table.read(slots) for table in self._tables]
        if size > MAX_REMEMBERED_KEYS:
            self._forget()
        else:
            self._touched.array[:size] = False
            for table in self._tables:
                table.erase(slots)
            self.rows = 0
        return keys, values


class _Touched(SlotArray, Attached):
    """Which keys were added since the last drain."""

    def is_used(self, size: int) -> Bools:
        return np.asarray(self.array[:size])


def _rows(keys: Rows) -> Rows:
    return keys


def _no_current_key(keys: Rows) -> tuple[Ints, Ints]:
    raise EngineError(f"a reduction has calls for batches only, and no current key among {len(keys)}")
