"""Aggregates whose results are lists: the greatest values, all values, whole rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.aggregates.accumulators import COUNT, Accumulator, Inputs
from snapline.operators.keyed_batches import chosen
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.groups import Groups
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.value_states import ValueState


class Greatest(Accumulator):
    """The values of a column in the rows with the greatest values of `by`; of equal rows the earlier ones.

    The state is the current list of pairs.
    """

    def __init__(
        self, column: str, kind: pa.DataType, count: int, by: str, by_kind: pa.DataType, where: int | None
    ) -> None:
        self._column = column
        self._by = by
        self._count = count
        self._pair = pa.struct([pa.field("value", kind), pa.field("by", by_kind)])
        self.result = pa.list_(kind)
        self.where = where

    def open(self, backend: KeyedBackend, name: str, namespace: pa.DataType | None) -> None:
        self._state = backend.value_state(name, pa.list_(self._pair), namespace=namespace)

    def add(self, keys: Rows, inputs: Inputs, namespace: pa.Array | None) -> None:
        values, by = inputs.column(self._column), inputs.column(self._by)
        rows = inputs.rows(self.where, values, by)
        if rows is not None:
            values, by = values.take(pa.array(rows)), by.take(pa.array(rows))
            keys, namespace = chosen(keys, namespace, rows)
        self._add(keys, pa.StructArray.from_arrays([values, by], fields=list(self._pair)), namespace)

    def _add(self, keys: Rows, pairs: pa.Array, namespace: pa.Array | None) -> None:
        def updated(old: pa.Array, groups: Groups) -> pa.Array:
            owners = np.concatenate([pc.list_parent_indices(old).to_numpy(), group_of_rows(groups)])
            return self._best(owners, pa.concat_arrays([old.flatten(), pairs]), groups.count)

        if len(pairs):
            self._state.update(keys, updated, namespace)

    def _best(self, owners: Ints, pairs: pa.Array, count: int) -> pa.Array:
        """The greatest pairs of each owner, of which there are `count`."""
        table = pa.table([pa.array(owners), pairs.field(1)], ["owner", "by"])
        order = pc.sort_indices(table, sort_keys=[("owner", "ascending"), ("by", "descending")]).to_numpy()
        return first_of_each(owners[order], pairs.take(pa.array(order)), count, self._count)

    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        return self._values(self._state.take(keys, namespace))

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        lists = self._state.take(keys, namespace)
        if groups.indices is None:
            return self._values(lists)
        owners = group_of_rows(groups)[pc.list_parent_indices(lists).to_numpy()]
        return self._values(self._best(owners, lists.flatten(), groups.count))

    def _values(self, lists: pa.Array) -> pa.Array:
        owners = pc.list_parent_indices(lists).to_numpy()
        return first_of_each(owners, lists.flatten().field(0), len(lists), self._count)

    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        lists = self._state.take(keys, sources)
        self._state.delete(keys, sources)
        owners = pc.list_parent_indices(lists)
        self._add(keys.take(owners.to_numpy()), lists.flatten(), targets.take(owners))

    def delete(self, keys: Rows, namespace: pa.Array | None) -> None:
        self._state.delete(keys, namespace)


class Collected(Accumulator):
    """The values of a column, or whole rows as structs, in order of arrival; at most `limit` of them."""

    _counts: ValueState | None = None

    def __init__(self, column: str | None, kind: pa.DataType, limit: int | None, where: int | None) -> None:
        self._column = column
        self._kind = kind
        self._limit = limit
        self.result = pa.list_(kind)
        self.where = where

    def open(self, backend: KeyedBackend, name: str, namespace: pa.DataType | None) -> None:
        self._elements = backend.list_state(name, self._kind, namespace=namespace)
        if self._limit is not None:
            self._counts = backend.value_state(f"{name}/count", COUNT, namespace=namespace)

    def add(self, keys: Rows, inputs: Inputs, namespace: pa.Array | None) -> None:
        values = self._whole_rows(inputs) if self._column is None else inputs.column(self._column)
        rows = inputs.rows(self.where, values)
        keys, namespace = chosen(keys, namespace, rows)
        self._append(keys, values if rows is None else values.take(pa.array(rows)), namespace)

    def _whole_rows(self, inputs: Inputs) -> pa.Array:
        return pa.StructArray.from_arrays([inputs.column(field.name) for field in self._kind], fields=list(self._kind))

    def _append(self, keys: Rows, values: pa.Array, namespace: pa.Array | None) -> None:
        if self._counts is not None and len(values):
            rows = self._within_limit(self._counts, keys, namespace)
            keys, namespace = chosen(keys, namespace, rows)
            values = values.take(pa.array(rows))
        if len(values):
            self._elements.append(keys, values, namespace)

    def _within_limit(self, counts: ValueState, keys: Rows, namespace: pa.Array | None) -> Ints:
        """The rows within the limit, which are added to the counts."""
        kept: list[Ints] = []

        def counted(old: pa.Array, groups: Groups) -> pa.Array:
            before = pc.fill_null(old, 0).to_numpy(zero_copy_only=False)
            owners = group_of_rows(groups)
            fits = before[owners] + ranks(owners) < self._limit
            kept.append(np.flatnonzero(fits))
            return pa.array(before + np.bincount(owners[fits], minlength=groups.count))

        counts.update(keys, counted, namespace)
        return kept[0]

    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        owners, values = self._elements.elements(keys, namespace)
        return first_of_each(owners, values, len(keys), None)

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        owners, values = self._elements.elements(keys, namespace)
        if groups.indices is not None:
            owners = group_of_rows(groups)[owners]
            order = np.argsort(owners, kind="stable")
            owners, values = owners[order], values.take(pa.array(order))
        return first_of_each(owners, values, groups.count, self._limit)

    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        owners, values = self._elements.elements(keys, sources)
        self.delete(keys, sources)
        self._append(keys.take(owners), values, targets.take(pa.array(owners)))

    def delete(self, keys: Rows, namespace: pa.Array | None) -> None:
        self._elements.delete(keys, namespace)
        if self._counts is not None:
            self._counts.delete(keys, namespace)


def group_of_rows(groups: Groups) -> Ints:
    """The group of each row."""
    return np.arange(groups.count) if groups.indices is None else groups.indices.astype(np.int64)


def ranks(owners: Ints) -> Ints:
    """For each row, the number of earlier rows with the same owner."""
    order = np.argsort(owners, kind="stable")
    ordered = owners[order]
    result = np.empty(len(owners), dtype=np.int64)
    result[order] = np.arange(len(owners)) - np.searchsorted(ordered, ordered)
    return result


def first_of_each(owners: Ints, values: pa.Array, count: int, limit: int | None) -> pa.Array:
    """A list of the first `limit` values of each of `count` owners; `owners` are ascending."""
    ends = np.searchsorted(owners, np.arange(count + 1))
    if limit is not None:
        fits = np.arange(len(owners)) - ends[owners] < limit
        if not fits.all():
            return first_of_each(owners[fits], values.filter(pa.array(fits)), count, None)
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), values)
