"""First and last values, lists and sets of values that are added and taken back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.operators.aggregates.list_accumulators import first_of_each
from snapline.operators.changes.accumulator import ChangeAccumulator, Parts
from snapline.operators.changes.changes import occurrences
from snapline.operators.changes.counted_values import CountedValues
from snapline.operators.changes.group_changes import GroupChanges
from snapline.operators.changes.row_codes import row_codes
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.collection_states import ListState
from snapline.state.keyed_backend import KeyedBackend

_BOX = "value"
"""Elements of lists and values of states cannot be null, but fields of structs can."""


def _boxed(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], names=[_BOX])


class FirstOrLast(ChangeAccumulator):
    """The first or the last value to arrive; null without any. Over rows that are only added."""

    def __init__(self, column: str, kind: pa.DataType, where: str | None, *, last: bool, ignore_nulls: bool) -> None:
        self.column = column
        self.where = where
        self.result = kind
        self.takes_nulls = not ignore_nulls
        self._last = last

    def open(self, keyed: KeyedBackend, name: str) -> None:
        self._values = keyed.value_state(f"{name}/value", pa.struct([(_BOX, self.result)]))

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        rows = np.full(changes.count, -1, dtype=np.int64)
        every = np.arange(len(values))
        step = 1 if self._last else -1
        rows[changes.groups[::step]] = every[::step]
        chosen = np.flatnonzero(rows >= 0)
        if not self._last and chosen.size:
            chosen = chosen[self._values.take(changes.keys.take(chosen)).is_null().to_numpy(zero_copy_only=False)]
        if chosen.size:
            self._values.put(changes.keys.take(chosen), _boxed(values.take(pa.array(rows[chosen]))))
        return parts

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return self._values.take(keys).flatten()[0]

    def delete(self, keys: Rows) -> None:
        self._values.delete(keys)


class _Listed(ChangeAccumulator):
    """Keeps values in order of arrival. Of equal values the first is taken out."""

    _elements: ListState

    def __init__(self, column: str, kind: pa.DataType, where: str | None) -> None:
        self.column = column
        self.where = where
        self._kind = kind

    def open(self, keyed: KeyedBackend, name: str) -> None:
        self._elements = keyed.list_state(f"{name}/list", pa.struct([(_BOX, self._kind)]))

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        weights = changes.weights
        is_added = np.ones(len(values), dtype=np.bool_) if weights is None else weights > 0
        added = np.flatnonzero(is_added)
        if added.size:
            elements = _boxed(values if len(added) == len(values) else values.take(pa.array(added)))
            self._elements.append(changes.keys.take(changes.groups[added]), elements)
        removed = np.flatnonzero(~is_added)
        if removed.size:
            self._remove(values.take(pa.array(removed)), changes.groups[removed], changes.keys)
        return parts

    def _remove(self, values: pa.Array, groups: Ints, keys: Rows) -> None:
        """Lists can only be deleted as a whole, so what is left of a list is appended again."""
        touched = np.unique(groups)
        owners, elements = self._elements.elements(keys.take(touched))
        owners = touched[owners]
        both = pa.concat_arrays([elements.field(0), values])
        codes = pc.dictionary_encode(row_codes([both], len(both)))
        identity = np.concatenate([owners, groups]) * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
        _, identity = np.unique(identity, return_inverse=True)
        kept, gone = identity[: len(owners)], identity[len(owners) :]
        survives = occurrences(kept) >= np.bincount(gone, minlength=int(identity.max()) + 1)[kept]
        self._elements.delete(keys.take(touched))
        left = np.flatnonzero(survives)
        if left.size:
            self._elements.append(keys.take(owners[left]), elements.take(pa.array(left)))

    def delete(self, keys: Rows) -> None:
        self._elements.delete(keys)


class Listed(_Listed):
    """All values but nulls, in order of arrival; an empty list without any."""

    def __init__(self, column: str, kind: pa.DataType, result: pa.DataType, where: str | None) -> None:
        super().__init__(column, kind, where)
        self.result = result

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        owners, elements = self._elements.elements(keys)
        return first_of_each(owners, elements.field(0), len(keys), None).cast(self.result)


class EndOfList(_Listed):
    """The first or the last value to arrive of those that were not taken back; null without any."""

    def __init__(self, column: str, kind: pa.DataType, where: str | None, *, last: bool, ignore_nulls: bool) -> None:
        super().__init__(column, kind, where)
        self.result = kind
        self.takes_nulls = not ignore_nulls
        self._last = last

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        owners, elements = self._elements.elements(keys)
        ends = np.searchsorted(owners, np.arange(len(keys)), side="right" if self._last else "left") - int(self._last)
        is_empty = np.bincount(owners, minlength=len(keys)) == 0
        return elements.field(0).take(pa.array(ends, mask=is_empty))


class ValueSet(ChangeAccumulator):
    """The distinct values but nulls, in an order that depends on them alone; an empty list without any."""

    def __init__(
        self, column: str, kind: pa.DataType, result: pa.DataType, where: str | None, *, changing: bool
    ) -> None:
        self.column = column
        self.where = where
        self.result = result
        self._kind = kind
        self._changing = changing

    def open(self, keyed: KeyedBackend, name: str) -> None:
        self._values = CountedValues(keyed, f"{name}/set", self._kind, changing=self._changing)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        self._values.add(values, changes)
        return parts

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        owners, values = self._values.entries(keys)
        table = pa.table([pa.array(owners), row_codes([values], len(values))], ["owner", "code"])
        order = pc.sort_indices(table, sort_keys=[("owner", "ascending"), ("code", "ascending")])
        return first_of_each(owners, values.take(order), len(keys), None).cast(self.result)

    def delete(self, keys: Rows) -> None:
        self._values.delete(keys)
