"""The values of each group with the number of times they are in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.accumulator import ChangeAccumulator, Parts
from snapline.operators.changes.group_changes import GroupChanges
from snapline.operators.changes.key_layout import is_keyable
from snapline.operators.changes.row_codes import row_codes
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend


@dataclass(frozen=True, slots=True)
class ValueChanges:
    """Values that have come into groups (+1 in `weights`) or are no longer in them (-1), each once for a group."""

    groups: Ints
    values: pa.Array
    weights: Ints


class CountedValues:
    """Values without nulls by group, in a map state; equal floats are one value, and so are NaNs.

    A value counts as being in the group while it was added more often than taken out, in whatever order.
    """

    def __init__(self, keyed: KeyedBackend, name: str, kind: pa.DataType, *, changing: bool) -> None:
        self._kind = kind
        self._changing = changing
        self._is_keyable = is_keyable(kind)
        stored = pa.int64() if self._is_keyable else pa.struct([("count", pa.int64()), ("value", kind)])
        self._map = keyed.map_state(name, kind if self._is_keyable else pa.binary(), stored)

    def add(self, values: pa.Array, changes: GroupChanges) -> ValueChanges:
        """Apply changes; returns which values have come and gone."""
        values = normalised(values)
        codes = values if self._is_keyable else row_codes([values], len(values), normalise=True)
        encoded = pc.dictionary_encode(codes)
        size = max(len(encoded.dictionary), 1)
        pairs = changes.groups * size + encoded.indices.to_numpy()
        pairs, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        net = np.bincount(inverse, weights=changes.weights, minlength=len(pairs)).astype(np.int64)
        if changes.weights is not None:
            chosen = np.flatnonzero(net)
            pairs, firsts, net = pairs[chosen], firsts[chosen], net[chosen]
        groups, at = pairs // size, pa.array(firsts)
        keys, codes, values = changes.keys.take(groups), codes.take(at), values.take(at)
        stored = self._map.take(keys, codes)
        old = pc.fill_null(stored if self._is_keyable else stored.field(0), 0).to_numpy(zero_copy_only=False)
        if not self._is_keyable and stored.null_count:
            old = np.where(stored.is_null().to_numpy(zero_copy_only=False), 0, old)
        new = old + net
        if self._changing:
            self._put(keys, codes, values, new)
        else:
            rows = np.flatnonzero(old == 0)
            self._put(keys.take(rows), codes.take(pa.array(rows)), values.take(pa.array(rows)), new[rows])
        turned = np.flatnonzero((old > 0) != (new > 0))
        return ValueChanges(groups[turned], values.take(pa.array(turned)), np.where(new[turned] > 0, 1, -1))

    def _put(self, keys: Rows, codes: pa.Array, values: pa.Array, counts: Ints) -> None:
        if not len(counts):
            return
        is_gone = counts == 0
        if self._is_keyable:
            stored = pa.array(counts, mask=is_gone)
        else:
            columns = [pa.array(counts), values]
            stored = pa.StructArray.from_arrays(columns, names=["count", "value"], mask=pa.array(is_gone))
        self._map.put_all(keys, codes, stored)

    def entries(self, keys: Rows) -> tuple[Ints, pa.Array]:
        """The values in each group, in no particular order: the index of the group, ascending, and the value."""
        groups, values, _ = self.counted(keys)
        return groups, values

    def counted(self, keys: Rows) -> tuple[Ints, pa.Array, Ints]:
        """The same with the number of times that a value is there; over rows that are only added it is not kept up."""
        groups, codes, stored = self._map.entries(keys)
        counts = (stored if self._is_keyable else stored.field(0)).to_numpy()
        values = codes if self._is_keyable else stored.field(1)
        alive = np.flatnonzero(counts > 0)
        return groups[alive], values.take(pa.array(alive)), counts[alive]

    def delete(self, keys: Rows) -> None:
        self._map.delete(keys)


def normalised(values: pa.Array) -> pa.Array:
    """The values, of equal floats and of NaNs always the same one."""
    if not pa.types.is_floating(values.type):
        return values
    floats = values.to_numpy(zero_copy_only=False) + values.type.to_pandas_dtype()(0)
    floats[np.isnan(floats)] = np.nan
    return pa.array(floats, values.type)


class Distinct(ChangeAccumulator):
    """An aggregate over the distinct values of a column."""

    def __init__(self, aggregate: ChangeAccumulator, kind: pa.DataType, *, changing: bool) -> None:
        self._aggregate = aggregate
        self._kind = kind
        self._changing = changing
        self.column = aggregate.column
        self.where = aggregate.where
        self.result = aggregate.result
        self.parts = aggregate.parts

    def open(self, keyed: KeyedBackend, name: str) -> None:
        self._values = CountedValues(keyed, f"{name}/distinct", self._kind, changing=self._changing)
        self._aggregate.open(keyed, name)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        turned = self._values.add(values, changes)
        weights = turned.weights if self._changing else None
        return self._aggregate.add_values(parts, turned.values, changes.of_groups(turned.groups, weights))

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return self._aggregate.take(parts, keys)

    def delete(self, keys: Rows) -> None:
        self._values.delete(keys)
        self._aggregate.delete(keys)
