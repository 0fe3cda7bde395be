"""The rows of one side of a join of changes, as they are kept in state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.changes import is_changing, weights_of
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.kept_rows import RowType, kept_column
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import MapState
from snapline.state.keyed_backend import KeyedBackend


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One input of a join.

    `schema` is the input's; it has the `columns` that are joined, the `key_columns` of a `KeyLayout` and, if the input
    changes, the column of kinds. A row in which one of the columns `never_null` is null has no partner.

    `unique` names columns of which no two rows that are in the input at the same time have equal values; None if
    nothing is known of it. Rows of a changing input are then found by these columns instead of by all of them.
    """

    schema: pa.Schema
    columns: tuple[str, ...]
    key_columns: tuple[str, ...]
    never_null: tuple[str, ...] = ()
    unique: tuple[str, ...] | None = None

    @property
    def fields(self) -> list[pa.Field]:
        """The fields of the joined columns, as they are kept and emitted."""
        return [self.schema.field(field.name).with_type(field.type) for field in self.row_type.fields]

    @property
    def row_type(self) -> RowType:
        return RowType(pa.schema([self.schema.field(name) for name in self.columns]), ())

    @property
    def is_changing(self) -> bool:
        return is_changing(self.schema)


@dataclass(frozen=True, slots=True)
class SideChanges:
    """Changes to the rows of one side, those that are taken out first.

    `keys` are the distinct keys, `groups` the index of the key of each row. `rows` are structs of the joined columns,
    `weights` how many times each is added or, if negative, taken out. `codes` identify a row among those of its key;
    None if rows are only added and never looked for.
    """

    keys: Rows
    groups: Ints
    rows: pa.Array
    weights: Ints
    codes: pa.Array | None

    @property
    def has_retractions(self) -> bool:
        return bool(self.weights.size and self.weights[0] < 0)

    @property
    def totals(self) -> Ints:
        """The sum of the weights by key."""
        result = np.zeros(len(self.keys), dtype=np.int64)
        np.add.at(result, self.groups, self.weights)
        return result


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of some keys, grouped by key: those of key i are `counts[i]` from `starts[i]` on.

    For each row, `groups` is its key, `weights` how many times it is there, and `codes` what identifies it, if known.
    """

    starts: Ints
    counts: Ints
    groups: Ints
    rows: pa.Array
    weights: Ints
    codes: pa.Array | None

    @property
    def totals(self) -> Ints:
        """The number of rows by key."""
        return np.bincount(self.groups, weights=self.weights, minlength=len(self.counts)).astype(np.int64)


class SideRows(ABC):
    """The rows of one side by key."""

    @abstractmethod
    def changes(self, batch: pa.RecordBatch, chosen: Ints | None, keyed: KeyedBackend) -> SideChanges:
        """What some rows of a batch, or all, do to this side; what cancels out within the batch is left out."""

    @abstractmethod
    def apply(self, changes: SideChanges) -> Bools:
        """Store changes, of which there are some; returns which rows are no longer there."""

    @abstractmethod
    def find(self, keys: Rows) -> FoundRows:
        """The rows of distinct keys."""


def _keys(side: JoinSide, batch: pa.RecordBatch, keyed: KeyedBackend) -> tuple[Rows, Ints]:
    keys = keyed.keys([kept_column(batch.column(name)) for name in side.key_columns])
    lasts, groups = keyed.distinct(keys)
    return (keys if len(lasts) == len(keys) else keys.take(lasts)), groups


def _spread(groups: Ints, count: int) -> tuple[Ints, Ints]:
    """Starts and counts of rows by key; `groups` are ascending."""
    counts = np.bincount(groups, minlength=count)
    return np.cumsum(counts) - counts, counts


class AppendedRows(SideRows):
    """Rows that are only added, in lists."""

    def __init__(self, keyed: KeyedBackend, name: str, side: JoinSide) -> None:
        self._side = side
        self._kind = side.row_type
        self._rows = keyed.list_state(name, self._kind.type)

    def changes(self, batch: pa.RecordBatch, chosen: Ints | None, keyed: KeyedBackend) -> SideChanges:
        if chosen is not None:
            batch = batch.take(pa.array(chosen))
        keys, groups = _keys(self._side, batch, keyed)
        return SideChanges(keys, groups, self._kind.rows(batch), np.ones(batch.num_rows, dtype=np.int64), None)

    def apply(self, changes: SideChanges) -> Bools:
        self._rows.append(changes.keys.take(changes.groups), changes.rows)
        return np.zeros(len(changes.rows), dtype=np.bool_)

    def find(self, keys: Rows) -> FoundRows:
        groups, rows = self._rows.elements(keys)
        starts, counts = _spread(groups, len(keys))
        return FoundRows(starts, counts, groups, rows, np.ones(len(groups), dtype=np.int64), None)


class CountedRows(SideRows):
    """Rows that come and go, in a map from their code to how many there are."""

    _map: MapState

    def __init__(self, keyed: KeyedBackend, name: str, side: JoinSide) -> None:
        self._side = side
        self._kind = side.row_type
        self._stored = pa.struct([pa.field("count", pa.int64()), pa.field("row", self._kind.type)])
        self._map = keyed.map_state(name, pa.binary(), self._stored)

    def changes(self, batch: pa.RecordBatch, chosen: Ints | None, keyed: KeyedBackend) -> SideChanges:
        if chosen is not None:
            batch = batch.take(pa.array(chosen))
        keys, groups = _keys(self._side, batch, keyed)
        weights = weights_of(batch)
        rows = self._kind.rows(batch)
        columns = self._kind.arrays(rows, batch.num_rows)
        unique = self._side.unique
        codes = row_codes(columns, batch.num_rows) if unique is None or weights is not None else None
        if codes is not None:
            at, weights = net_rows(groups, codes, weights)
            if len(at) < batch.num_rows or weights[0] < 0:
                taken = pa.array(at)
                batch, groups, rows, codes = batch.take(taken), groups[at], rows.take(taken), codes.take(taken)
        if unique is not None:
            codes = row_codes([kept_column(batch.column(name)) for name in unique], batch.num_rows)
        if weights is None:
            weights = np.ones(batch.num_rows, dtype=np.int64)
        return SideChanges(keys, groups, rows, weights, codes)

    def apply(self, changes: SideChanges) -> Bools:
        keys, weights = changes.keys.take(changes.groups), changes.weights
        counts = weights
        if self._side.unique is None:
            stored = self._map.take(keys, changes.codes).flatten()[0]
            counts = weights + pc.fill_null(stored, 0).to_numpy(zero_copy_only=False)
            is_gone: Bools = counts == 0
        else:
            # What is taken out comes first: a row that replaces it is put after it.
            is_gone = weights < 0
        columns = [pa.array(counts), changes.rows]
        values = pa.StructArray.from_arrays(columns, fields=list(self._stored), mask=pa.array(is_gone))
        self._map.put_all(keys, changes.codes, values)
        return is_gone

    def find(self, keys: Rows) -> FoundRows:
        groups, codes, stored = self._map.entries(keys)
        starts, counts = _spread(groups, len(keys))
        return FoundRows(starts, counts, groups, stored.field(1), stored.field(0).to_numpy(), codes)


def net_rows(groups: Ints, codes: pa.Array, weights: Ints | None) -> tuple[Ints, Ints]:
    """One row for each pair of group and code whose weights do not cancel out, and the sum of them.

    Those with a negative sum come first, otherwise rows stay in order.
    """
    encoded = pc.dictionary_encode(codes)
    pairs = groups * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    if weights is None and len(encoded.dictionary) == len(pairs):
        return np.arange(len(pairs)), np.ones(len(pairs), dtype=np.int64)
    _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    net = np.bincount(inverse, weights=weights, minlength=len(firsts)).astype(np.int64)
    left = np.flatnonzero(net)
    order = left[np.lexsort((firsts[left], net[left] > 0))]
    return firsts[order], net[order]


def repeated(weights: Ints) -> tuple[Ints | None, Ints]:
    """The rows to emit so that each comes as often as its weight says, or None for each once; and their weights."""
    sizes = np.abs(weights)
    if (sizes == 1).all():
        return None, weights
    rows = np.repeat(np.arange(len(weights)), sizes)
    return rows, np.sign(weights)[rows]
