"""The changes of one batch to the groups of an aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.kept_rows import kept_column
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend


@dataclass(frozen=True)
class GroupChanges:
    """Values that are added to groups or taken out of them.

    `keys` are the keys of the groups, each once; `groups` is the group of each row as an index into them. `weights`
    are +1 and -1, or None if all rows are added.
    """

    keys: Rows
    groups: Ints
    weights: Ints | None

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.keys)

    def take(self, rows: Ints | None) -> GroupChanges:
        """The changes of some rows, or of all, to the same groups."""
        if rows is None:
            return self
        return GroupChanges(self.keys, self.groups[rows], None if self.weights is None else self.weights[rows])

    def of_groups(self, groups: Ints, weights: Ints | None) -> GroupChanges:
        """Other changes to the same groups."""
        return GroupChanges(self.keys, groups, weights)

    @cached_property
    def totals(self) -> Ints:
        """The sum of the weights of each group."""
        if self.weights is None:
            return np.bincount(self.groups, minlength=self.count)
        return self.sums(self.weights)

    def sums(self, values: npt.NDArray[np.int64]) -> Ints:
        """The sum of whole numbers of each group, without their weights; wraps around."""
        result = np.zeros(self.count, dtype=np.int64)
        np.add.at(result, self.groups, values)
        return result

    def weighted(self, values: npt.NDArray[np.int64]) -> Ints:
        """The sum of whole numbers of each group times their weights; wraps around."""
        return self.sums(values if self.weights is None else values * self.weights)

    def float_sums(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sum of floats of each group times their weights."""
        weighted = values if self.weights is None else values * self.weights
        sums: npt.NDArray[np.float64] = np.bincount(self.groups, weighted, self.count).astype(np.float64, copy=False)
        return sums


class AggregateInput:
    """A batch as the aggregates of an operator see it."""

    def __init__(self, batch: pa.RecordBatch, changes: GroupChanges) -> None:
        self._batch = batch
        self._changes = changes
        self._columns: dict[str, pa.Array] = {}

    def chosen(
        self, column: str | None, where: str | None, *, with_nulls: bool = False
    ) -> tuple[pa.Array | None, GroupChanges]:
        """The values of a column in the rows that meet a condition, and the changes of these rows.

        Nulls are left out unless `with_nulls`. Without a column there are no values.
        """
        values = None if column is None else self._column(column)
        keep = None
        if where is not None:
            keep = self._flags(where)
        if values is not None and values.null_count and not with_nulls:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            keep = valid if keep is None else keep & valid
        if keep is None or keep.all():
            return values, self._changes
        rows = np.flatnonzero(keep)
        return None if values is None else values.take(pa.array(rows)), self._changes.take(rows)

    def with_conditions(self, column: str, conditions: Sequence[str | None]) -> tuple[pa.Array, GroupChanges, Ints]:
        """The values of a column that are not null and meet a condition, their changes, and a bit for each condition.

        None is a condition that always holds.
        """
        values = self._column(column)
        bits: Ints = np.zeros(len(values), dtype=np.int64)
        for number, where in enumerate(conditions):
            bits |= np.int64(1 << number) if where is None else self._flags(where).astype(np.int64) << number
        if values.null_count:
            bits[values.is_null().to_numpy(zero_copy_only=False)] = 0
        rows = np.flatnonzero(bits)
        if len(rows) == len(bits):
            return values, self._changes, bits
        return values.take(pa.array(rows)), self._changes.take(rows), bits[rows]

    def _flags(self, where: str) -> Bools:
        flags: Bools = pc.fill_null(self._batch.column(where), False).to_numpy(zero_copy_only=False)
        return flags

    def _column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = kept_column(self._batch.column(name))
        return self._columns[name]


def grouped(keyed: KeyedBackend, columns: list[pa.Array], weights: Ints | None) -> tuple[Ints, GroupChanges]:
    """A row of each group, and the changes of all rows; `columns` are the key columns."""
    keys = keyed.keys(columns)
    rows, groups = keyed.distinct(keys)
    return rows, GroupChanges(keys if len(rows) == len(keys) else keys.take(rows), groups, weights)
