"""Aggregates of ranges of rows: frames of window functions, and sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.accumulator import Parts
from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.folds import Fold, Merge, folded
from snapline.operators.changes.group_functions import GroupFunction, value_codes
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.kept_rows import kept_type
from snapline.state.arrays import Bools, Ints

_BY = {AggregateKind.MAX_BY, AggregateKind.MIN_BY}
_ENDS = {AggregateKind.FIRST, AggregateKind.LAST}
_LEAST = {AggregateKind.MIN, AggregateKind.MIN_BY}
_CHOSEN = {AggregateKind.MIN, AggregateKind.MAX, *_BY, *_ENDS}

_EXPANDED_ROWS = 1 << 20
"""About how many rows of ranges are looked at together where each range needs all of its rows."""


class PreparedRanges(ABC):
    """An aggregate over certain rows, ready for any ranges of them."""

    @abstractmethod
    def results(self, starts: Ints, ends: Ints, seeds: Ints | None = None) -> pa.Array:
        """The result of each range of rows; with `seeds`, of the rows that these seeds stand for and the range."""


class RangeAggregate(ABC):
    """An aggregate of ranges of rows. `seed_type` is what stands for rows that came before; None if nothing can."""

    seed_type: pa.DataType | None = None

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate

    @property
    def kind(self) -> AggregateKind:
        return self._aggregate.kind

    @abstractmethod
    def prepared(self, columns: Mapping[str, pa.Array], groups: Ints, seeds: pa.Array | None = None) -> PreparedRanges:
        """Ready for ranges of these rows, and for seeds of `seed_type`. `groups` are disjoint ranges for `DISTINCT`."""

    def _counting(self, columns: Mapping[str, pa.Array], groups: Ints) -> Ints:
        """The rows that count."""
        given = self._aggregate
        keep: Bools = np.ones(len(groups), dtype=np.bool_)
        if given.where is not None:
            keep &= pc.fill_null(columns[given.where], False).to_numpy(zero_copy_only=False)
        if given.column is None:
            return np.flatnonzero(keep)
        values = columns[given.column]
        if values.null_count and (given.ignore_nulls or given.kind not in _ENDS):
            keep &= values.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(keep)
        if not given.distinct or not rows.size:
            return rows
        chosen = values.take(pa.array(rows))
        codes = row_codes([chosen], len(chosen), normalise=True).dictionary_encode()
        identity = groups[rows] * len(codes.dictionary) + codes.indices.to_numpy()
        _, firsts = np.unique(identity, return_index=True)
        return rows[np.sort(firsts)]


def range_aggregate(aggregate: Aggregate, schema: pa.Schema) -> RangeAggregate:
    """The aggregate over rows of this schema. Raises `ConfigurationError` if the column has no such aggregate."""
    aggregate.accumulator(schema)
    if aggregate.kind in _CHOSEN:
        assert aggregate.column is not None
        return _Choice(aggregate, kept_type(schema.field(aggregate.column).type))
    fold = aggregate.fold(schema)
    return _Function(aggregate, aggregate.group_function(schema)) if fold is None else _Folding(aggregate, fold)


class PreparedFold(PreparedRanges):
    """Pieces of rows and of seeds, and how they are merged."""

    def __init__(self, pieces: Parts, seeds: Parts, merge: Merge) -> None:
        self._pieces = pieces
        self._seeds = seeds
        self._merge = merge

    def results(self, starts: Ints, ends: Ints, seeds: Ints | None = None) -> pa.Array:
        return self._finished(self._merged(starts, ends, seeds))

    def seeds(self, starts: Ints, ends: Ints, seeds: Ints) -> pa.Array:
        """What stands for both the rows of a seed and those of a range."""
        return self._stored(self._merged(starts, ends, seeds))

    def _merged(self, starts: Ints, ends: Ints, seeds: Ints | None) -> Parts:
        found = folded(self._merge, self._pieces, starts, ends)
        if seeds is None:
            return found
        with np.errstate(all="ignore"):
            return self._merge([part[seeds] for part in self._seeds], found)

    @abstractmethod
    def _finished(self, parts: Parts) -> pa.Array: ...

    @abstractmethod
    def _stored(self, parts: Parts) -> pa.Array: ...


# Sums and the like.


class _Folding(RangeAggregate):
    seed_type: pa.DataType

    def __init__(self, aggregate: Aggregate, fold: Fold) -> None:
        super().__init__(aggregate)
        self._fold = fold
        self.seed_type = pa.struct([pa.field(str(number), kind) for number, kind in enumerate(fold.parts)])

    def prepared(self, columns: Mapping[str, pa.Array], groups: Ints, seeds: pa.Array | None = None) -> PreparedFold:
        rows = self._counting(columns, groups)
        name = self._aggregate.column
        values = None if name is None else columns[name].take(pa.array(rows))
        pieces = []
        for part in self._fold.pieces(values, len(rows)):
            piece = np.zeros(len(groups), dtype=part.dtype)
            piece[rows] = part
            pieces.append(piece)
        given = pa.nulls(0, self.seed_type) if seeds is None else seeds
        parts = [pc.fill_null(part, 0).to_numpy(zero_copy_only=False) for part in given.flatten()]
        return _PreparedFolding(self._fold, self.seed_type, pieces, parts)


class _PreparedFolding(PreparedFold):
    def __init__(self, fold: Fold, kind: pa.DataType, pieces: Parts, seeds: Parts) -> None:
        super().__init__(pieces, seeds, fold.merged)
        self._fold = fold
        self._kind = kind

    def _finished(self, parts: Parts) -> pa.Array:
        return self._fold.results(parts)

    def _stored(self, parts: Parts) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(part) for part in parts], fields=list(self._kind))


# One of the values.


class _Choice(RangeAggregate):
    """The value of the row that is first, last, least or greatest."""

    seed_type: pa.DataType

    def __init__(self, aggregate: Aggregate, kind: pa.DataType) -> None:
        super().__init__(aggregate)
        self.seed_type = pa.struct([pa.field("is_there", pa.bool_()), pa.field("value", kind)])

    def prepared(self, columns: Mapping[str, pa.Array], groups: Ints, seeds: pa.Array | None = None) -> PreparedFold:
        assert self._aggregate.column is not None
        values = columns[self._aggregate.column]
        places = np.zeros(len(values), dtype=np.int64)
        rows = self._counting(columns, groups)
        places[rows] = rows + 1
        given = pa.nulls(0, self.seed_type) if seeds is None else seeds
        is_there, earlier = given.flatten()
        known = pc.fill_null(is_there, False).to_numpy(zero_copy_only=False)
        numbers = np.where(known, len(values) + np.arange(len(known)) + 1, 0)
        every = pa.concat_arrays([values, earlier])
        kind = self._aggregate.kind
        return _PreparedChoice(every, places, numbers, _choice(kind, every), self.seed_type, is_pair=kind in _BY)


def _choice(kind: AggregateKind, values: pa.Array) -> Merge:
    """Of two numbers of rows, counted from 1 and 0 for none, the one that is chosen."""
    if kind is AggregateKind.FIRST:
        return lambda left, right: [np.where(left[0] > 0, left[0], right[0])]
    if kind is AggregateKind.LAST:
        return lambda left, right: [np.where(right[0] > 0, right[0], left[0])]
    ranks = _ranks(values.flatten()[1] if kind in _BY else values, descending=kind not in _LEAST)

    def better(left: Parts, right: Parts) -> Parts:
        takes_left = ranks[left[0]] < ranks[right[0]]
        return [np.where((left[0] > 0) & (takes_left | (right[0] == 0)), left[0], right[0])]

    return better


def _ranks(values: pa.Array, *, descending: bool) -> Ints:
    """The place of each value in order, equal ones alike, after one for no value."""
    ranks = np.zeros(len(values) + 1, dtype=np.int64)
    codes = value_codes(values, descending=descending)
    order = np.lexsort(codes[::-1])
    is_new = np.zeros(len(order), dtype=np.bool_)
    for code in codes:
        is_new[1:] |= code[order[1:]] != code[order[:-1]]
    ranks[order + 1] = np.cumsum(is_new) + 1
    return ranks


class _PreparedChoice(PreparedFold):
    def __init__(
        self, values: pa.Array, places: Ints, seeds: Ints, merge: Merge, kind: pa.DataType, *, is_pair: bool
    ) -> None:
        super().__init__([places], [seeds], merge)
        self._values = values
        self._kind = kind
        self._is_pair = is_pair

    def _finished(self, parts: Parts) -> pa.Array:
        values = self._values.flatten()[0] if self._is_pair else self._values
        return values.take(_indices(parts[0]))

    def _stored(self, parts: Parts) -> pa.Array:
        arrays = [pa.array(parts[0] > 0), self._values.take(_indices(parts[0]))]
        return pa.StructArray.from_arrays(arrays, fields=list(self._kind))


def _indices(places: Ints) -> pa.Array:
    return pa.array(np.maximum(places - 1, 0), mask=places == 0)


# All of the values.


class _Function(RangeAggregate):
    def __init__(self, aggregate: Aggregate, function: GroupFunction) -> None:
        super().__init__(aggregate)
        self._function = function

    def prepared(self, columns: Mapping[str, pa.Array], groups: Ints, seeds: pa.Array | None = None) -> PreparedRanges:
        assert self._aggregate.column is not None
        rows = self._counting(columns, groups)
        return _PreparedFunction(self._function, rows, columns[self._aggregate.column].take(pa.array(rows)))


class _PreparedFunction(PreparedRanges):
    def __init__(self, function: GroupFunction, rows: Ints, values: pa.Array) -> None:
        self._function = function
        self._rows = rows
        self._values = values

    def results(self, starts: Ints, ends: Ints, seeds: Ints | None = None) -> pa.Array:
        assert seeds is None, "all values are needed, and no seed has them"
        first, last = np.searchsorted(self._rows, starts), np.searchsorted(self._rows, ends)
        lengths = np.maximum(last - first, 0)
        cuts = np.searchsorted(np.cumsum(lengths), np.arange(_EXPANDED_ROWS, int(lengths.sum()), _EXPANDED_ROWS))
        bounds = np.unique(np.concatenate([[0], cuts, [len(starts)]])).astype(np.int64)
        if len(bounds) == 1:
            bounds = np.array([0, len(starts)])
        made = [self._some(first[a:b], lengths[a:b]) for a, b in pairwise(bounds.tolist())]
        return made[0] if len(made) == 1 else pa.concat_arrays(made)

    def _some(self, first: Ints, lengths: Ints) -> pa.Array:
        groups = np.repeat(np.arange(len(first)), lengths)
        within = np.arange(len(groups)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values = self._values.take(pa.array(np.repeat(first, lengths) + within))
        return self._function(groups, values, np.ones(len(groups), dtype=np.int64), len(first))
