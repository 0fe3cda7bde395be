"""Rows of sliding windows, added up by slice before they are sent: a row has one slice, a slice several windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.accumulator import or_null
from snapline.operators.changes.aggregate_specs import AggregateKind
from snapline.operators.changes.local_best import group_numbers
from snapline.operators.changes.value_codes import order_codes, values_of_codes
from snapline.operators.kept_rows import kept_column
from snapline.sql.expressions.compiler import Program
from snapline.sql.operators.sql_projection import WindowShape, window_structs
from snapline.sql.plans.trees import Attribute, Expression
from snapline.state.arrays import Bools, Ints

_ENDS = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class SlicePart:
    """An aggregate of a slice: COUNT, MIN or MAX of a column, by number, in the rows that meet a condition.

    For COUNT the column may be None: all rows count.
    """

    kind: AggregateKind
    column: int | None
    where: int | None


class SlicedGroups(Operator):
    """Aggregates the rows of a batch by the columns `groups` and the slice of time that they are in.

    `expressions` are the columns to compute; that with the number `time` is the time of a row, and one of `groups`.
    Slices are as long as windows are apart, and windows as long as several slices. Emits for each group and window that
    the slice is in the columns of `schema`: the groups, with the window in place of the time, and `parts`. Rows without
    a time are dropped. Without state.
    """

    def __init__(
        self,
        expressions: Sequence[Expression],
        attributes: Sequence[Attribute],
        groups: Sequence[int],
        time: int,
        shape: WindowShape,
        parts: Sequence[SlicePart],
        schema: pa.Schema,
    ) -> None:
        self._expressions = tuple(expressions)
        self._attributes = tuple(attributes)
        self._groups = tuple(groups)
        self._time = time
        self._shape = shape
        self._parts = tuple(parts)
        self._schema = schema

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._program = Program(self._expressions, self._attributes)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        arrays = [kept_column(array) for array in self._program.arrays(batch)] if batch.num_rows else []
        if arrays and arrays[self._time].null_count:
            valid = arrays[self._time].is_valid()
            arrays = [array.filter(valid) for array in arrays]
        if not arrays or not len(arrays[self._time]):
            return
        times_us = arrays[self._time].cast(pa.int64()).to_numpy()
        starts_us = times_us - (times_us - self._shape.start_us) % self._shape.slide_us
        keys = [array for number, array in enumerate(arrays) if number in self._groups and number != self._time]
        numbers, count = group_numbers([*keys, pa.array(starts_us)])
        rows = np.empty(count, dtype=np.int64)
        rows[numbers] = np.arange(len(numbers))
        self._emit(arrays, starts_us[rows], rows, [self._part(part, arrays, numbers, count) for part in self._parts])

    def _part(self, part: SlicePart, arrays: list[pa.Array], numbers: Ints, count: int) -> pa.Array:
        keep: Bools | None = None
        values = None if part.column is None else arrays[part.column]
        if part.where is not None:
            keep = arrays[part.where].fill_null(False).to_numpy(zero_copy_only=False)
        if values is not None and values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            keep = valid if keep is None else keep & valid
        if keep is not None:
            numbers = numbers[keep]
            values = None if values is None else values.filter(pa.array(keep))
        counts = np.bincount(numbers, minlength=count)
        if part.kind is AggregateKind.COUNT or values is None:
            return pa.array(counts)
        least = part.kind is AggregateKind.MIN
        extremes = np.full(count, _ENDS.max if least else _ENDS.min)
        merge: Any = np.minimum if least else np.maximum
        merge.at(extremes, numbers, order_codes(values))
        is_empty = counts == 0
        return or_null(values_of_codes(np.where(is_empty, 0, extremes), values.type), is_empty)

    def _emit(self, arrays: list[pa.Array], starts_us: Ints, rows: Ints, parts: list[pa.Array]) -> None:
        copies = self._shape.copies
        at = np.tile(np.arange(len(rows)), copies)
        starts_us = np.concatenate([starts_us - copy * self._shape.slide_us for copy in range(copies)])
        columns = []
        for position, number in enumerate(self._groups):
            if number == self._time:
                columns.append(window_structs(starts_us, self._shape, self._schema.field(position).type))
            else:
                columns.append(arrays[number].take(pa.array(rows[at])))
        columns += [part.take(pa.array(at)) for part in parts]
        self.context.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))
