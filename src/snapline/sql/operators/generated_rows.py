"""Several rows of one: generators of SQL and table functions in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import is_changing
from snapline.sql.expressions.generators import Generator
from snapline.sql.operators.udtf_rows import UdtfRows
from snapline.sql.plans.trees import Attribute, Expression


class RowGenerator(Protocol):
    """Makes rows of the rows of a batch."""

    def generate(self, batch: pa.RecordBatch) -> tuple[pa.Array, list[pa.Array]]:
        """The number of the row that each new row comes from, and the new columns."""


def row_generator(expression: Expression, attributes: Sequence[Attribute], *, outer: bool) -> RowGenerator:
    """A generator over batches whose columns are `attributes`.

    With `outer`, a row that gives none is kept, with nulls in the new columns. Raises `UnsupportedError` for what does
    not run here.
    """
    if expression.kind == "PythonUDTF":
        return UdtfRows(expression, attributes, outer=outer)
    return Generator(expression, attributes, outer=outer)


class GenerateRows(Operator):
    """Emits the columns `kept` of each row with the columns of each row made of it; `schema` is that of the output."""

    def __init__(
        self,
        generator: Expression,
        attributes: Sequence[Attribute],
        kept: Sequence[int],
        schema: pa.Schema,
        *,
        is_outer: bool,
    ) -> None:
        self._generator = generator
        self._attributes = tuple(attributes)
        self._kept = tuple(kept)
        self._schema = schema
        self._is_outer = is_outer

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._rows = row_generator(self._generator, self._attributes, outer=self._is_outer)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        rows, columns = self._rows.generate(batch)
        if not len(rows):
            return
        arrays = [batch.column(number).take(rows) for number in self._kept]
        arrays += columns
        if is_changing(batch.schema):
            arrays.append(batch.column(batch.num_columns - 1).take(rows))
        made = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(arrays, self._schema, strict=True)
        ]
        self.context.emit(pa.RecordBatch.from_arrays(made, schema=self._schema))
