"""What all joins share: storage of rows, output rows, and enumeration of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from snapline.operators.kept_rows import RowType
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import ListState, Spans
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.ttl import Ttl

MAX_ROWS = 1 << 16
"""Limit of an emitted batch: two small batches may have very many pairs."""

LEFT, RIGHT = 0, 1
NAMES = ("left", "right")


@dataclass(frozen=True, slots=True)
class JoinLayout:
    """The rows of both sides, and how they are joined.

    `schema` is the output schema. `order` holds the source of each output column, as an index into key columns, left
    columns, right columns and the columns the join adds, in this order.
    """

    sides: tuple[RowType, RowType]
    schema: pa.Schema
    order: tuple[int, ...]

    def batch(
        self, keys: Sequence[pa.Array], left: pa.Array | None, right: pa.Array | None, added: Sequence[pa.Array] = ()
    ) -> pa.RecordBatch:
        """Joined rows; a side that is None is filled with nulls."""
        count = len(keys[0])
        arrays = [*keys, *self.sides[LEFT].arrays(left, count), *self.sides[RIGHT].arrays(right, count), *added]
        return pa.RecordBatch.from_arrays([arrays[number] for number in self.order], schema=self.schema)

    def one_sided(
        self, side: int, keys: Sequence[pa.Array], rows: pa.Array, added: Sequence[pa.Array] = ()
    ) -> pa.RecordBatch:
        """Rows of one side without partners."""
        return self.batch(keys, rows if side == LEFT else None, rows if side == RIGHT else None, added)


class Pairs:
    """Pairs of rows and elements: each row is paired with `counts` elements from `starts` on."""

    def __init__(self, starts: Ints, counts: Ints) -> None:
        self._ends = np.cumsum(counts)
        self._shift = starts - self._ends + counts
        self.count = int(self._ends[-1]) if len(counts) else 0

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        """Yields rows and elements of at most `MAX_ROWS` pairs at a time."""
        for first in range(0, self.count, MAX_ROWS):
            numbers = np.arange(first, min(first + MAX_ROWS, self.count))
            rows = np.searchsorted(self._ends, numbers, side="right")
            yield rows, numbers + self._shift[rows]


class KeptSide:
    """The stored rows of one side by key. With `splits_alone`, rows without a partner are stored apart."""

    def __init__(
        self,
        keyed: KeyedBackend,
        side: int,
        kind: pa.DataType,
        *,
        splits_alone: bool,
        ttl: Ttl | None = None,
        namespace: pa.DataType | None = None,
    ) -> None:
        name = NAMES[side]
        self.rows = keyed.list_state(name, kind, ttl=ttl, namespace=namespace)
        self.alone: ListState | None = None
        if splits_alone:
            self.alone = keyed.list_state(f"{name} alone", kind, ttl=ttl, namespace=namespace)

    def add(self, keys: Rows, rows: pa.Array, has_met: Bools, namespace: pa.Array | None = None) -> None:
        """Store rows; `has_met` says which have got a partner."""
        if self.alone is None:
            self.rows.append(keys, rows, namespace)
            return
        for state, chosen in ((self.rows, np.flatnonzero(has_met)), (self.alone, np.flatnonzero(~has_met))):
            _append(state, keys, rows, chosen, chosen, namespace)

    def met(self, keys: Rows, spans: Spans, has_met: Bools, namespace: pa.Array | None = None) -> None:
        """Move rows that have now got a partner out of `alone`; `spans` holds all rows alone of the keys."""
        assert self.alone is not None
        # Lists can only be deleted as a whole, so rows that stay alone are appended again.
        is_touched_row = np.zeros(len(keys), dtype=np.bool_)
        is_touched_row[spans.rows[has_met]] = True
        is_touched, rows = is_touched_row[spans.rows], np.flatnonzero(is_touched_row)
        self.alone.delete(keys.take(rows), None if namespace is None else namespace.take(pa.array(rows)))
        for state, chosen in ((self.rows, has_met), (self.alone, is_touched & ~has_met)):
            elements = np.flatnonzero(chosen)
            _append(state, keys, spans.values, elements, spans.rows[elements], namespace)

    def states(self) -> list[ListState]:
        return [self.rows] if self.alone is None else [self.rows, self.alone]

    def delete(self, keys: Rows, namespace: pa.Array) -> None:
        for state in self.states():
            state.delete(keys, namespace)


def _append(
    state: ListState, keys: Rows, values: pa.Array, chosen: Ints, rows: Ints, namespace: pa.Array | None
) -> None:
    """Append chosen values to the keys of `rows`."""
    if chosen.size:
        namespaces = None if namespace is None else namespace.take(pa.array(rows))
        state.append(keys.take(rows), values.take(pa.array(chosen)), namespaces)
