"""The least and the greatest of values that are added and taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.accumulator import WHOLE, ChangeAccumulator, Parts, or_null
from snapline.operators.changes.counted_values import CountedValues
from snapline.operators.changes.group_changes import GroupChanges
from snapline.operators.changes.rank_order import SortColumn, sort_codes_of, sorted_rows
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.changes.value_codes import order_codes, values_of_codes
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend

_ENDS = np.iinfo(np.int64)


class Extreme(ChangeAccumulator):
    """The least or the greatest value, of a type with `value_codes`; null without values.

    Over changes all values are counted, and those of a group are looked through when its extreme goes.
    """

    parts = (WHOLE, WHOLE)
    """Number of values (over changes: of distinct ones), and the code of the extreme."""

    _counted: CountedValues | None = None

    def __init__(self, column: str, kind: pa.DataType, where: str | None, *, least: bool, changing: bool) -> None:
        self.column = column
        self.where = where
        self.result = kind
        self._changing = changing
        self._worst = _ENDS.max if least else _ENDS.min
        self._least = least

    def open(self, keyed: KeyedBackend, name: str) -> None:
        if self._changing:
            self._counted = CountedValues(keyed, f"{name}/values", WHOLE, changing=True)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        codes = order_codes(values)
        counts, extremes = parts[0], np.where(parts[0] > 0, parts[1], self._worst)
        if self._counted is None:
            self._merge(extremes, changes.groups, codes)
            return [counts + changes.totals, extremes]
        turned = self._counted.add(pa.array(codes), changes)
        codes, groups = turned.values.to_numpy(), turned.groups
        counts = counts + changes.of_groups(groups, turned.weights).totals
        is_new = turned.weights > 0
        is_gone = ~is_new & (codes == extremes[groups])
        self._merge(extremes, groups[is_new], codes[is_new])
        if is_gone.any():
            lost = np.unique(groups[is_gone])
            owners, found = self._counted.entries(changes.keys.take(lost))
            extremes[lost] = self._worst
            self._merge(extremes, lost[owners], found.to_numpy())
        return [counts, extremes]

    def _merge(self, extremes: Ints, groups: Ints, codes: Ints) -> None:
        merge: Any = np.minimum if self._least else np.maximum
        merge.at(extremes, groups, codes)

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        is_empty = parts[0] <= 0
        return or_null(values_of_codes(np.where(is_empty, 0, parts[1]), self.result), is_empty)

    def delete(self, keys: Rows) -> None:
        if self._counted is not None:
            self._counted.delete(keys)


class LongExtreme(ChangeAccumulator):
    """The least or the greatest of texts, bytes, long decimals or structs; null without values.

    Structs are ordered field by field, null before any value.
    """

    _counted: CountedValues | None = None

    def __init__(self, column: str, kind: pa.DataType, where: str | None, *, least: bool, changing: bool) -> None:
        self.column = column
        self.where = where
        self.result = kind
        self._changing = changing
        self._least = least

    def open(self, keyed: KeyedBackend, name: str) -> None:
        self._extremes = keyed.value_state(f"{name}/extreme", self.result)
        if self._changing:
            self._counted = CountedValues(keyed, f"{name}/values", self.result, changing=True)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        if not len(values):
            return parts
        old = self._extremes.take(changes.keys)
        groups = changes.groups
        if self._counted is not None:
            turned = self._counted.add(values, changes)
            is_new = turned.weights > 0
            groups, values = turned.groups[is_new], turned.values.filter(pa.array(is_new))
            gone = np.flatnonzero(~is_new)
            old = self._without(old, turned.groups[gone], turned.values.take(pa.array(gone)), changes.keys)
        owners = np.concatenate([np.arange(changes.count), groups])
        self._extremes.put(changes.keys, self._best(owners, pa.concat_arrays([old, values]), changes.count))
        return parts

    def _without(self, extremes: pa.Array, groups: Ints, gone: pa.Array, keys: Rows) -> pa.Array:
        """The extremes of groups when some of their values are gone: those that were extremes are looked for again."""
        assert self._counted is not None
        if not len(gone):
            return extremes
        old = extremes.take(pa.array(groups))
        is_lost: Bools = pc.equal(row_codes([old], len(old)), row_codes([gone], len(gone))).to_numpy(
            zero_copy_only=False
        )
        lost = np.unique(groups[is_lost])
        if not lost.size:
            return extremes
        owners, found = self._counted.entries(keys.take(lost))
        places = np.arange(len(extremes))
        places[lost] = len(extremes) + np.arange(len(lost))
        return pa.concat_arrays([extremes, self._best(owners, found, len(lost))]).take(pa.array(places))

    def _best(self, groups: Ints, values: pa.Array, count: int) -> pa.Array:
        """The extreme of each group, leaving out nulls; null for a group without values."""
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        groups, values = groups[rows], values.take(pa.array(rows))
        columns = values.flatten() if pa.types.is_struct(values.type) else [values]
        codes = sort_codes_of(
            columns, [SortColumn("", descending=not self._least, nulls_first=self._least)] * len(columns)
        )
        order = sorted_rows(groups, codes, np.zeros(len(rows), dtype=np.int64))[::-1]
        chosen = np.full(count, -1, dtype=np.int64)
        # The last one that is put for a group stays: the first in order.
        chosen[groups[order]] = order
        return values.take(pa.array(chosen, mask=chosen < 0))

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return self._extremes.take(keys)

    def delete(self, keys: Rows) -> None:
        self._extremes.delete(keys)
        if self._counted is not None:
            self._counted.delete(keys)
