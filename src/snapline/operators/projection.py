"""Expressions of `pyarrow.compute` evaluated on batches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import conform
from snapline.errors import UserCodeError


class Evaluation:
    """Expressions for rows of one schema, evaluated for a whole batch at once."""

    def __init__(self, expressions: Sequence[pc.Expression]) -> None:
        # Only where it is needed: it loads pandas, if that is there, and takes longer than all the rest together.
        import pyarrow.acero as acero

        names = [str(number) for number in range(len(expressions))]
        self._acero = acero
        self._project = acero.Declaration("project", acero.ProjectNodeOptions(list(expressions), names))

    def arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """A value of each expression for each row; raises what Arrow raises."""
        acero = self._acero
        source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
        # Threads would cost more than they give: other subtasks have the other cores.
        table = acero.Declaration.from_sequence([source, self._project]).to_table(use_threads=False)
        return [_combined(column) for column in table.columns]


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class Project(Operator):
    """Makes rows of expressions and of columns as they are.

    `schema` is that of the result, and `columns` are its columns, each an expression, or the name of the column it is a
    copy of; `name` is what the user has called.
    """

    _evaluation: Evaluation | None

    def __init__(self, name: str, columns: Sequence[str | pc.Expression], schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._columns = tuple(columns)

    @property
    def copies(self) -> dict[str, str]:
        """The columns of the result that are nothing but copies, with what they are copies of."""
        pairs = zip(self.schema.names, self._columns, strict=True)
        return {name: item for name, item in pairs if isinstance(item, str)}

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        expressions = [item for item in self._columns if not isinstance(item, str)]
        self._evaluation = Evaluation(expressions) if expressions else None

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        what = f"{self.name} {self.context.uid!r}"
        try:
            computed = iter(() if self._evaluation is None else self._evaluation.arrays(batch))
        except pa.ArrowException as error:
            raise UserCodeError(f"{what} failed for a row: {error}") from error
        arrays = [batch.column(item) if isinstance(item, str) else next(computed) for item in self._columns]
        self.context.emit(conform(pa.RecordBatch.from_arrays(arrays, names=self.schema.names), self.schema, what))


class FilterExpression(Operator):
    """Keeps the rows for which an expression is true."""

    _evaluation: Evaluation

    def __init__(self, predicate: pc.Expression) -> None:
        self._predicate = predicate

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._evaluation = Evaluation([self._predicate])

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        try:
            (mask,) = self._evaluation.arrays(batch)
        except pa.ArrowException as error:
            raise UserCodeError(f"filter {self.context.uid!r} failed for a row: {error}") from error
        kept = batch.filter(mask)
        if kept.num_rows:
            self.context.emit(kept)
