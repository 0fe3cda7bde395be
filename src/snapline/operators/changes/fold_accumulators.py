"""Aggregates per group made of folds and functions of whole groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.changes.accumulator import ChangeAccumulator, Parts
from snapline.operators.changes.counted_values import CountedValues
from snapline.operators.changes.folds import Fold, folded_groups
from snapline.operators.changes.group_changes import GroupChanges
from snapline.operators.changes.group_functions import ExtremeBy, GroupFunction
from snapline.operators.changes.row_codes import row_codes
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend


class Folded(ChangeAccumulator):
    """The result of a fold, over rows that are only added."""

    def __init__(self, column: str, fold: Fold, where: str | None) -> None:
        self.column = column
        self.where = where
        self.result = fold.result
        self.parts = fold.parts
        self._fold = fold

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        order = np.argsort(changes.groups, kind="stable")
        pieces = [part[order] for part in self._fold.pieces(values, len(values))]
        return self._fold.merged(parts, folded_groups(self._fold, pieces, changes.groups[order], changes.count))

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return self._fold.results(parts)


class Bag(ChangeAccumulator):
    """A function of all values of a group, which are kept with the number of times they are there.

    It is computed anew for each group of a batch, in an order of the values that depends on them alone.
    """

    def __init__(self, column: str, kind: pa.DataType, function: GroupFunction, where: str | None) -> None:
        self.column = column
        self.where = where
        self.result = function.result
        self._kind = kind
        self._function = function

    def open(self, keyed: KeyedBackend, name: str) -> None:
        # Numbers of equal values matter, so they are counted even if none is ever taken back.
        self._values = CountedValues(keyed, f"{name}/bag", self._kind, changing=True)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        self._values.add(values, changes)
        return parts

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        owners, values, counts = self._values.counted(keys)
        table = pa.table([pa.array(owners), row_codes([values], len(values))], ["owner", "code"])
        order = pc.sort_indices(table, sort_keys=[("owner", "ascending"), ("code", "ascending")])
        return self._function(owners, values.take(order), counts[order.to_numpy()], len(keys))

    def delete(self, keys: Rows) -> None:
        self._values.delete(keys)


class ExtremeRow(ChangeAccumulator):
    """What `ExtremeBy` chooses, over rows that are only added: only that row is kept."""

    def __init__(self, column: str, kind: pa.DataType, function: ExtremeBy, where: str | None) -> None:
        self.column = column
        self.where = where
        self.result = function.result
        self._kind = kind
        self._function = function

    def open(self, keyed: KeyedBackend, name: str) -> None:
        self._rows = keyed.value_state(f"{name}/row", self._kind)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        if not len(values):
            return parts
        old = self._rows.take(changes.keys)
        known = np.flatnonzero(old.is_valid().to_numpy(zero_copy_only=False))
        groups = np.concatenate([known, changes.groups])
        both = pa.concat_arrays([old.take(pa.array(known)), values.cast(self._kind)])
        rows = self._function.rows(groups, both, changes.count)
        chosen = np.flatnonzero(rows >= len(known))
        if chosen.size:
            self._rows.put(changes.keys.take(chosen), both.take(pa.array(rows[chosen])))
        return parts

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return self._rows.take(keys).flatten()[0]

    def delete(self, keys: Rows) -> None:
        self._rows.delete(keys)
