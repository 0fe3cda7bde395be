"""Aggregates in keyed state, which take in and return whole batches at once.

Running aggregates and windows share them. For windows, which are namespaces of the state, calls take an array with the
namespace of each row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import EngineError, UserCodeError
from snapline.operators.bad_rows import row_at_fault
from snapline.operators.keyed_batches import chosen, decoded
from snapline.operators.projection import Evaluation
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.exact_cast import converted
from snapline.state.groups import Groups
from snapline.state.keyed_backend import KeyedBackend
from snapline.text import explanation, for_row

COUNT = pa.int64()


class Inputs:
    """A batch as aggregates see it: columns without dictionaries, and the mask of each `where` condition."""

    def __init__(self, batch: pa.RecordBatch, masks: Mapping[int, pa.Array]) -> None:
        self.batch = batch
        self._masks = masks
        self._columns: dict[str, pa.Array] = {}
        self._pairs: dict[str, tuple[Ints, Ints]] = {}
        self._groups: Ints | None = None

    def column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = decoded(self.batch.column(name))
        return self._columns[name]

    def pairs(self, name: str, keys: Rows, backend: KeyedBackend) -> tuple[Ints, Ints]:
        """The distinct pairs of key and value of a column: the number of the pair of each row, and a row of each pair.

        `keys` are those of all rows of the batch.
        """
        if name not in self._pairs:
            if self._groups is None:
                self._groups = backend.distinct(keys)[1].astype(np.int64)
            encoded = pc.dictionary_encode(self.column(name), null_encoding="encode")
            codes = self._groups * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
            both = pc.dictionary_encode(pa.array(codes))
            numbers = both.indices.to_numpy()
            rows = np.empty(len(both.dictionary), dtype=np.int64)
            rows[numbers] = np.arange(len(numbers))
            self._pairs[name] = numbers, rows
        return self._pairs[name]

    def mask(self, where: int | None) -> pa.Array | None:
        """The mask of a condition, or None without condition."""
        return None if where is None else self._masks[where]

    def rows(self, where: int | None, *needed: pa.Array) -> Ints | None:
        """The rows that meet a condition and have no null in `needed`; None stands for all rows."""
        keep: Bools | None = None
        mask = self.mask(where)
        if mask is not None:
            keep = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
        for values in needed:
            if values.null_count:
                valid = values.is_valid().to_numpy(zero_copy_only=False)
                keep = valid if keep is None else keep & valid
        return None if keep is None or keep.all() else np.flatnonzero(keep)


class Accumulator(ABC):
    """One aggregate in keyed state. It is pickled with the job; `open` is called first.

    `result` is the type of its results, `where` the number of the condition that rows must meet.
    """

    result: pa.DataType
    where: int | None = None

    @abstractmethod
    def open(self, backend: KeyedBackend, name: str, namespace: pa.DataType | None) -> None:
        """Declare its states; `name` prefixes their names."""

    @abstractmethod
    def add(self, keys: Rows, inputs: Inputs, namespace: pa.Array | None) -> None:
        """Add the rows of a batch."""

    @abstractmethod
    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        """The result for each row."""

    @abstractmethod
    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        """The result of each group of rows, each row standing for what its namespace holds.

        Where order matters, that of the rows counts.
        """

    @abstractmethod
    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        """Merge a source namespace into a target for each row. Sources are distinct and never targets."""

    @abstractmethod
    def delete(self, keys: Rows, namespace: pa.Array | None) -> None:
        """Reset to no rows."""

    def parts(self, name: str) -> dict[str, Reduced] | None:
        """The partial aggregates that rows can be combined to before they are sent, by the names of its states.

        None if it needs the rows themselves.
        """
        return None

    def merging(self, name: str) -> Accumulator:
        """An accumulator with the same states that adds rows whose columns are the parts of this one."""
        raise EngineError(f"the aggregate {name!r} has no parts to merge")


class Accumulators:
    """The aggregates of one operator by name, and their conditions."""

    def __init__(self, by_name: Mapping[str, Accumulator], conditions: Sequence[pc.Expression]) -> None:
        self.by_name = dict(by_name)
        self._conditions = tuple(conditions)
        self._evaluation: Evaluation | None = None

    @property
    def fields(self) -> list[pa.Field]:
        """The fields of the results."""
        return [pa.field(name, item.result) for name, item in self.by_name.items()]

    @property
    def parts(self) -> dict[str, Reduced] | None:
        """The partial aggregates of all of them, or None if one needs the rows themselves."""
        made: dict[str, Reduced] = {}
        for name, accumulator in self.by_name.items():
            parts = accumulator.parts(name)
            if parts is None:
                return None
            made |= parts
        return made

    def merging(self) -> Accumulators:
        """The same aggregates over rows whose columns are `parts`."""
        return Accumulators({name: item.merging(name) for name, item in self.by_name.items()}, ())

    def inputs(self, batch: pa.RecordBatch) -> Inputs:
        """A batch with the masks of all conditions."""
        if not self._conditions:
            return Inputs(batch, {})
        if self._evaluation is None:
            # It cannot be pickled with the job.
            self._evaluation = Evaluation(self._conditions)
        try:
            return Inputs(batch, dict(enumerate(self._evaluation.arrays(batch))))
        except pa.ArrowException as error:
            row = for_row(row_at_fault(self._evaluation.arrays, batch))
            raise UserCodeError(f"where= of an aggregate failed: {explanation(error)}{row}") from error

    def open(self, backend: KeyedBackend, namespace: pa.DataType | None = None) -> None:
        for name, accumulator in self.by_name.items():
            accumulator.open(backend, name, namespace)

    def add(self, keys: Rows, batch: pa.RecordBatch, namespace: pa.Array | None = None) -> None:
        inputs = self.inputs(batch)
        for accumulator in self.by_name.values():
            accumulator.add(keys, inputs, namespace)

    def take(self, keys: Rows, namespace: pa.Array | None = None) -> list[pa.Array]:
        return [accumulator.take(keys, namespace) for accumulator in self.by_name.values()]

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> list[pa.Array]:
        return [accumulator.take_together(keys, groups, namespace) for accumulator in self.by_name.values()]

    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        for accumulator in self.by_name.values():
            accumulator.move(keys, sources, targets)

    def delete(self, keys: Rows, namespace: pa.Array | None = None) -> None:
        for accumulator in self.by_name.values():
            accumulator.delete(keys, namespace)


# Numbers.


class Reduced(Accumulator):
    """Sum, min, max, first or last of a column, without its nulls."""

    def __init__(self, column: str, reduce: str, result: pa.DataType, where: int | None) -> None:
        self.column = column
        self.reduce = reduce
        self.result = result
        self.where = where

    def open(self, backend: KeyedBackend, name: str, namespace: pa.DataType | None) -> None:
        self._state = backend.reducing_state(name, self.result, self.reduce, namespace=namespace)

    def add(self, keys: Rows, inputs: Inputs, namespace: pa.Array | None) -> None:
        self._state.add_all(keys, self.values(inputs), namespace)

    def parts(self, name: str) -> dict[str, Reduced] | None:
        return {name: self}

    def merging(self, name: str) -> Accumulator:
        return Reduced(name, self.reduce, self.result, None)

    def values(self, inputs: Inputs) -> pa.Array:
        """The value each row adds; nulls add nothing."""
        values, mask = inputs.column(self.column), inputs.mask(self.where)
        return values if mask is None else pc.if_else(mask, values, pa.scalar(None, values.type))

    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        return self._state.take(keys, namespace)

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        values = self._state.take(keys, namespace)
        together = converted(getattr(groups, self.reduce)(values), self.result)
        if self.reduce != "sum" or not values.null_count:
            return together
        return pc.if_else(pc.greater(groups.sum(values.is_valid()), 0), together, pa.scalar(None, self.result))

    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        values = self._state.take(keys, sources)
        self._state.delete(keys, sources)
        self._state.add_all(keys, values, targets)

    def delete(self, keys: Rows, namespace: pa.Array | None) -> None:
        self._state.delete(keys, namespace)


class Counted(Reduced):
    """The number of rows, or of rows in which a column is not null; 0 if there are none.

    With `counted` the column holds counts to add up.
    """

    def __init__(self, column: str | None, where: int | None, *, counted: bool = False) -> None:
        super().__init__(column or "", "sum", COUNT, where)
        self._counted = counted

    def merging(self, name: str) -> Accumulator:
        return Counted(name, None, counted=True)

    def values(self, inputs: Inputs) -> pa.Array:
        if self._counted:
            return inputs.column(self.column)
        rows = inputs.rows(self.where, *([inputs.column(self.column)] if self.column else []))
        ones = np.full(inputs.batch.num_rows, int(rows is None), dtype=np.int64)
        if rows is not None:
            ones[rows] = 1
        return pa.array(ones)

    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        return _or_zero(super().take(keys, namespace))

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        return _or_zero(super().take_together(keys, groups, namespace))


class Mean(Accumulator):
    """The mean, stored as a sum and a count."""

    result = pa.float64()

    def __init__(self, column: str, total: pa.DataType, where: int | None) -> None:
        self._parts = Reduced(column, "sum", total, where), Counted(column, where)

    def _state_names(self, name: str) -> list[str]:
        return [f"{name}/sum", f"{name}/count"]

    def open(self, backend: KeyedBackend, name: str, namespace: pa.DataType | None) -> None:
        for part, state in zip(self._parts, self._state_names(name), strict=True):
            part.open(backend, state, namespace)

    def add(self, keys: Rows, inputs: Inputs, namespace: pa.Array | None) -> None:
        for part in self._parts:
            part.add(keys, inputs, namespace)

    def parts(self, name: str) -> dict[str, Reduced] | None:
        return dict(zip(self._state_names(name), self._parts, strict=True))

    def merging(self, name: str) -> Accumulator:
        merged = Mean("", self._parts[0].result, None)
        total, count = self._state_names(name)
        merged._parts = Reduced(total, "sum", self._parts[0].result, None), Counted(count, None, counted=True)
        return merged

    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        return self._divided(lambda part: part.take(keys, namespace))

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        return self._divided(lambda part: part.take_together(keys, groups, namespace))

    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        for part in self._parts:
            part.move(keys, sources, targets)

    def delete(self, keys: Rows, namespace: pa.Array | None) -> None:
        for part in self._parts:
            part.delete(keys, namespace)

    def _divided(self, taken: Callable[[Accumulator], pa.Array]) -> pa.Array:
        total, count = (taken(part).cast(pa.float64(), safe=False) for part in self._parts)
        # The sum of no values is null; this avoids the division by 0.
        return pc.divide(total, pc.if_else(total.is_valid(), count, 1.0))


def _or_zero(counts: pa.Array) -> pa.Array:
    return pc.fill_null(counts, 0) if counts.null_count else counts


# Sets.


class Distinct(Accumulator):
    """The number of distinct values: stores the values, and their count so that a result need not iterate."""

    result = COUNT

    def __init__(self, column: str, kind: pa.DataType, where: int | None) -> None:
        self._column = column
        self._kind = kind
        self.where = where

    def open(self, backend: KeyedBackend, name: str, namespace: pa.DataType | None) -> None:
        self._backend = backend
        self._values = backend.map_state(f"{name}/values", self._kind, pa.int32(), namespace=namespace)
        self._counts = backend.reducing_state(f"{name}/count", COUNT, "sum", namespace=namespace)

    def add(self, keys: Rows, inputs: Inputs, namespace: pa.Array | None) -> None:
        values = inputs.column(self._column)
        rows = inputs.rows(self.where, values)
        if namespace is None and not pa.types.is_floating(self._kind):
            self._insert_pairs(keys, values, rows, inputs)
            return
        keys, namespace = chosen(keys, namespace, rows)
        self._insert(keys, values if rows is None else values.take(pa.array(rows)), namespace)

    def _insert_pairs(self, keys: Rows, values: pa.Array, rows: Ints | None, inputs: Inputs) -> None:
        """Add the values of some rows, or of all, each pair of key and value only once."""
        numbers, firsts = inputs.pairs(self._column, keys, self._backend)
        if rows is not None:
            is_met = np.zeros(len(firsts), dtype=np.bool_)
            is_met[numbers[rows]] = True
            firsts = firsts[is_met]
        keys, values = keys.take(firsts), values.take(pa.array(firsts))
        new = np.flatnonzero(self._values.take(keys, values).is_null().to_numpy(zero_copy_only=False))
        if new.size:
            keys, values = keys.take(new), values.take(pa.array(new))
            self._values.put_all(keys, values, pa.array(np.zeros(len(new), dtype=np.int32)))
            self._counts.add_all(keys, pa.array(np.ones(len(new), dtype=np.int64)))

    def _insert(self, keys: Rows, values: pa.Array, namespace: pa.Array | None) -> None:
        is_new = self._values.take(keys, values, namespace).is_null().to_numpy(zero_copy_only=False)
        if not is_new.any():
            return
        rows = np.flatnonzero(is_new)
        keys, namespace = chosen(keys, namespace, rows)
        values = values.take(pa.array(rows))
        # Of several rows with the same value the one whose number is in the state afterwards wins.
        numbers = pa.array(np.arange(len(rows), dtype=np.int32))
        self._values.put_all(keys, values, numbers, namespace)
        winners = pc.equal(self._values.take(keys, values, namespace), numbers).to_numpy(zero_copy_only=False)
        keys, namespace = chosen(keys, namespace, np.flatnonzero(winners))
        self._counts.add_all(keys, pa.array(np.ones(len(keys), dtype=np.int64)), namespace)

    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        return _or_zero(self._counts.take(keys, namespace))

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        if groups.indices is None:
            return self.take(keys, namespace)
        rows, values, _ = self._values.entries(keys, namespace)
        found = pa.table([pa.array(groups.indices[rows]), values], ["group", "value"])
        distinct = found.group_by(["group", "value"], use_threads=False).aggregate([]).column("group").to_numpy()
        return pa.array(np.bincount(distinct, minlength=groups.count).astype(np.int64))

    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        rows, values, _ = self._values.entries(keys, sources)
        self.delete(keys, sources)
        self._insert(keys.take(rows), values, targets.take(pa.array(rows)))

    def delete(self, keys: Rows, namespace: pa.Array | None) -> None:
        self._values.delete(keys, namespace)
        self._counts.delete(keys, namespace)
