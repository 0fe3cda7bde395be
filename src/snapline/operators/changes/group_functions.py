"""Aggregates that need all values of a group at once: percentiles, modes, and the row with the extreme of another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.accumulator import REAL, or_null
from snapline.operators.changes.folds import Fold, folded_groups
from snapline.operators.changes.rank_order import SortCodes, SortColumn, sort_codes_of
from snapline.operators.changes.row_codes import row_codes
from snapline.state.arrays import Bools, Ints


class GroupFunction(ABC):
    """A function of the values of each group. Pickled with the job."""

    result: pa.DataType

    @abstractmethod
    def __call__(self, groups: Ints, values: pa.Array, counts: Ints, count: int) -> pa.Array:
        """The result of each of `count` groups.

        `groups` ascends, `values` are without nulls, each is there `counts` times, at least once. The result depends
        only on the values of the group and, if the order of values matters to it, on that order.
        """


class GroupFold(GroupFunction):
    """The result of a fold."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.result = fold.result

    def __call__(self, groups: Ints, values: pa.Array, counts: Ints, count: int) -> pa.Array:
        if (counts != 1).any():
            rows = np.repeat(np.arange(len(groups)), counts)
            groups, values = groups[rows], values.take(pa.array(rows))
        pieces = self._fold.pieces(values, len(values))
        return self._fold.results(folded_groups(self._fold, pieces, groups, count))


class ExtremeBy(GroupFunction):
    """The first field of the struct whose second field is least or greatest; null without values.

    Of several such rows it is the same one each time.
    """

    def __init__(self, kind: pa.DataType, *, least: bool) -> None:
        self.result = kind.field(0).type
        self._least = least

    def __call__(self, groups: Ints, values: pa.Array, counts: Ints, count: int) -> pa.Array:
        rows = self.rows(groups, values, count)
        return values.flatten()[0].take(pa.array(rows, mask=rows < 0))

    def rows(self, groups: Ints, values: pa.Array, count: int) -> Ints:
        """The row that is chosen of each group, -1 without values."""
        rows = np.full(count, -1, dtype=np.int64)
        ties = row_codes([values], len(values)).dictionary_encode()
        places = pc.rank(ties.dictionary).to_numpy()[ties.indices.to_numpy()] if len(values) else rows[:0]
        order = np.lexsort([places, *reversed(value_codes(values.flatten()[1], descending=not self._least)), groups])
        rows[groups[order[::-1]]] = order[::-1]
        return rows


class Collected(GroupFunction):
    """A list of all values in their order, or of the distinct ones in an order that depends on them alone."""

    def __init__(self, kind: pa.DataType, *, distinct: bool) -> None:
        self.result = kind
        self._distinct = distinct

    def __call__(self, groups: Ints, values: pa.Array, counts: Ints, count: int) -> pa.Array:
        rows = np.repeat(np.arange(len(groups)), counts)
        if self._distinct and len(values):
            encoded = row_codes([values], len(values), normalise=True).dictionary_encode()
            places = pc.rank(encoded.dictionary).to_numpy()[encoded.indices.to_numpy()]
            order = np.lexsort([places, groups])
            is_new = np.ones(len(order), dtype=np.bool_)
            is_new[1:] = (groups[order[1:]] != groups[order[:-1]]) | (places[order[1:]] != places[order[:-1]])
            rows = order[is_new]
        ends = np.searchsorted(groups[rows], np.arange(count + 1))
        made = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), values.take(pa.array(rows)))
        return made.cast(self.result)


class Mode(GroupFunction):
    """The most frequent value; of several the least, or with `greatest` the greatest."""

    def __init__(self, kind: pa.DataType, *, greatest: bool = False) -> None:
        self.result = kind
        self._greatest = greatest

    def __call__(self, groups: Ints, values: pa.Array, counts: Ints, count: int) -> pa.Array:
        if not len(values):
            return pa.nulls(count, self.result)
        codes = value_codes(values, descending=self._greatest)
        order = np.lexsort([*reversed(codes), groups])
        is_new = np.ones(len(order), dtype=np.bool_)
        is_new[1:] = groups[order[1:]] != groups[order[:-1]]
        for code in codes:
            is_new[1:] |= code[order[1:]] != code[order[:-1]]
        firsts = np.flatnonzero(is_new)
        totals = np.add.reduceat(counts[order], firsts)
        values_at = order[firsts]
        best = np.lexsort([np.arange(len(firsts)), -totals, groups[values_at]])[::-1]
        rows = np.full(count, -1, dtype=np.int64)
        rows[groups[values_at[best]]] = values_at[best]
        return values.take(pa.array(rows, mask=rows < 0))


@dataclass(frozen=True, slots=True)
class Percentages:
    """Which percentiles are wanted: between 0 and 1, as a list or a single one, perhaps of values in falling order.

    With `weighted` values are structs of a number and how often it counts.
    """

    values: tuple[float, ...]
    is_list: bool = False
    descending: bool = False
    weighted: bool = False


class Percentile(GroupFunction):
    """Percentiles of numbers; null without values.

    `interpolated` ones lie between two values where no value is at that place, and are floats; others are the first
    value that the percentage of values does not exceed, in the type of the values.
    """

    def __init__(self, percentages: Percentages, kind: pa.DataType, *, interpolated: bool) -> None:
        self._percentages = percentages
        self._interpolated = interpolated
        self.result = pa.list_(pa.field("element", kind, nullable=False)) if percentages.is_list else kind
        self._kind = kind

    def __call__(self, groups: Ints, values: pa.Array, counts: Ints, count: int) -> pa.Array:
        if self._percentages.weighted:
            values, weights = values.flatten()
            counts = counts * weights.to_numpy().astype(np.int64)
            there = np.flatnonzero(counts > 0)
            groups, values, counts = groups[there], values.take(pa.array(there)), counts[there]
        order = np.lexsort([*reversed(value_codes(values, descending=self._percentages.descending)), groups])
        groups, values, counts = groups[order], values.take(pa.array(order)), counts[order]
        ends = np.cumsum(counts)
        totals = np.bincount(groups, weights=counts, minlength=count).astype(np.int64)
        before = np.cumsum(totals) - totals
        is_empty: Bools = totals == 0
        found = [self._one(values, ends, before, totals, share) for share in self._percentages.values]
        if not self._percentages.is_list:
            return or_null(found[0].cast(self.result), is_empty)
        rows = np.arange(count * len(found)).reshape(len(found), count).T.ravel()
        flat = pa.concat_arrays(found).take(pa.array(rows)).cast(self._kind)
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * len(found))
        return pa.ListArray.from_arrays(offsets, flat, type=self.result, mask=pa.array(is_empty))

    def _one(self, values: pa.Array, ends: Ints, before: Ints, totals: Ints, share: float) -> pa.Array:
        """The percentile of each group; anything for groups without values."""
        if not len(values):
            return pa.nulls(len(totals), self._kind) if not self._interpolated else pa.array(np.zeros(len(totals)))
        last = np.maximum(totals - 1, 0)
        if not self._interpolated:
            places = np.clip(np.ceil(share * totals).astype(np.int64) - 1, 0, last)
            return values.take(pa.array(_rows_at(ends, before + places)))
        position = last * share
        low, high = np.floor(position), np.ceil(position)
        floats = values.cast(REAL, safe=False).to_numpy(zero_copy_only=False)
        lower, upper = (floats[_rows_at(ends, before + place.astype(np.int64))] for place in (low, high))
        with np.errstate(invalid="ignore"):
            between = (high - position) * lower + (position - low) * upper
        return pa.array(np.where((low == high) | (lower == upper), lower, between))


def _rows_at(ends: Ints, places: Ints) -> Ints:
    """The row that holds each place, of rows that end before `ends`."""
    return np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)


def value_codes(values: pa.Array, *, descending: bool = False) -> SortCodes:
    """Numbers that sort as values do; structs field by field, null first."""
    columns = values.flatten() if pa.types.is_struct(values.type) else [values]
    return sort_codes_of(columns, [SortColumn("", descending=descending, nulls_first=not descending)] * len(columns))
