"""Expressions of SQL on batches: projections, filters, and rows in several windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import is_changing
from snapline.sql.expressions.compiler import Program
from snapline.sql.plans.trees import Attribute, Expression


class ProjectColumns(Operator):
    """Computes columns; the kind of a change goes along with its row. `schema` is that of the output."""

    def __init__(self, expressions: Sequence[Expression], attributes: Sequence[Attribute], schema: pa.Schema) -> None:
        self._expressions = tuple(expressions)
        self._attributes = tuple(attributes)
        self._schema = schema

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._program = Program(self._expressions, self._attributes)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if batch.num_rows:
            self.context.emit(self._projected(batch))

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = self._program.arrays(batch)
        if is_changing(batch.schema):
            arrays.append(batch.column(batch.num_columns - 1))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class KeepRows(Operator):
    """Keeps the rows for which a condition is true, not null."""

    def __init__(self, condition: Expression, attributes: Sequence[Attribute]) -> None:
        self._condition = condition
        self._attributes = tuple(attributes)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._program = Program([self._condition], self._attributes)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        kept = batch.filter(self._program.arrays(batch)[0])
        if kept.num_rows:
            self.context.emit(kept)


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Windows of `length_us` of which one starts every `slide_us`, counted from `start_us` after 1970."""

    length_us: int
    slide_us: int
    start_us: int

    @property
    def copies(self) -> int:
        """The most windows that a row is in."""
        return -(-self.length_us // self.slide_us)


class ProjectWindows(ProjectColumns):
    """A projection of which one column, given as the time of the row, becomes a window; a row for each window.

    Rows without a time have no window and are dropped.
    """

    def __init__(
        self,
        expressions: Sequence[Expression],
        attributes: Sequence[Attribute],
        schema: pa.Schema,
        column: int,
        shape: WindowShape,
    ) -> None:
        super().__init__(expressions, attributes, schema)
        self._column = column
        self._shape = shape

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = self._program.arrays(batch)
        if is_changing(batch.schema):
            arrays.append(batch.column(batch.num_columns - 1))
        times = arrays[self._column]
        if times.null_count:
            valid = times.is_valid()
            arrays = [array.filter(valid) for array in arrays]
            times = arrays[self._column]
        rows, starts = window_starts(times.cast(pa.int64()).to_numpy(), self._shape)
        if rows is not None:
            arrays = [array.take(pa.array(rows)) for array in arrays]
        arrays[self._column] = window_structs(starts, self._shape, self._schema.field(self._column).type)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def window_starts(
    times_us: np.ndarray[tuple[int], np.dtype[np.int64]], shape: WindowShape
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]] | None, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The start of each window that a row is in, and the row; None for the rows if each has exactly one."""
    latest = times_us - (times_us - shape.start_us) % shape.slide_us
    if shape.copies == 1 and shape.length_us == shape.slide_us:
        return None, latest
    numbers = np.arange(len(times_us))
    starts, rows = [], []
    for copy in range(shape.copies):
        start = latest - copy * shape.slide_us
        is_in = start + shape.length_us > times_us
        starts.append(start[is_in])
        rows.append(numbers[is_in])
    return np.concatenate(rows), np.concatenate(starts)


def window_structs(
    starts_us: np.ndarray[tuple[int], np.dtype[np.int64]], shape: WindowShape, kind: pa.DataType
) -> pa.Array:
    """Windows as Spark's struct of start and end."""
    fields = [kind.field(0), kind.field(1)]
    bounds = [pa.array(starts_us), pa.array(starts_us + shape.length_us)]
    return pa.StructArray.from_arrays(
        [bound.view(field.type) for bound, field in zip(bounds, fields, strict=True)], fields=fields
    )


def end_times_ms(column: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Array]:
    """The last millisecond before the end of each window, or before a time itself; and which rows have one.

    Once a watermark has passed it, no more rows of the window come.
    """
    ends = column.field(1) if pa.types.is_struct(column.type) else column
    valid = column.is_valid() if column.null_count else ends.is_valid()
    numbers = pc.fill_null(ends.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return -(-numbers // 1000) - 1, valid
