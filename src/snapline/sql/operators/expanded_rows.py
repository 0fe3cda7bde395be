"""Several rows for each row, as grouping sets need them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import is_changing
from snapline.sql.expressions.compiler import Program
from snapline.sql.plans.trees import Attribute, Expression


class ExpandRows(Operator):
    """Emits a row for each of the projections and each row."""

    def __init__(
        self, projections: Sequence[Sequence[Expression]], attributes: Sequence[Attribute], schema: pa.Schema
    ) -> None:
        self._projections = tuple(tuple(projection) for projection in projections)
        self._attributes = tuple(attributes)
        self._schema = schema

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._programs = [Program(projection, self._attributes) for projection in self._projections]

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        kinds = [batch.column(batch.num_columns - 1)] if is_changing(batch.schema) else []
        for program in self._programs:
            self.context.emit(pa.RecordBatch.from_arrays([*program.arrays(batch), *kinds], schema=self._schema))
