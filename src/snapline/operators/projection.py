"""Evaluates expressions of `pyarrow.compute` on batches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import conform
from snapline.errors import UserCodeError


class Evaluation:
    """Expressions over rows of one schema, evaluated a whole batch at a time."""

    def __init__(self, expressions: Sequence[pc.Expression]) -> None:
        # Imported on demand: it loads pandas if installed, and takes longer than all other imports together.
        import pyarrow.acero as acero

        names = [str(number) for number in range(len(expressions))]
        self._acero = acero
        self._project = acero.Declaration("project", acero.ProjectNodeOptions(list(expressions), names))

    def arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The values of each expression. Raises whatever Arrow raises."""
        acero = self._acero
        source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
        # No threads: other subtasks use the other cores.
        table = acero.Declaration.from_sequence([source, self._project]).to_table(use_threads=False)
        return [combined(column) for column in table.columns]


def combined(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, without a copy if it is one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class Project(Operator):
    """Computes columns from expressions and copies others.

    `columns` are the columns of the output `schema`, each an expression or the name of the column it copies; `name` is
    the method the user called.
    """

    def __init__(self, name: str, columns: Sequence[str | pc.Expression], schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._columns = tuple(columns)

    @property
    def copies(self) -> dict[str, str]:
        """The output columns that are copies, with the columns they copy."""
        pairs = zip(self.schema.names, self._columns, strict=True)
        return {name: item for name, item in pairs if isinstance(item, str)}

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        expressions = [item for item in self._columns if not isinstance(item, str)]
        self._evaluation = Evaluation(expressions) if expressions else None

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        what = f"{self.name} {self.context.uid!r}"
        try:
            computed = iter(() if self._evaluation is None else self._evaluation.arrays(batch))
        except pa.ArrowException as error:
            raise UserCodeError(f"{what} failed for a row: {error}") from error
        arrays = [batch.column(item) if isinstance(item, str) else next(computed) for item in self._columns]
        self.context.emit(conform(pa.RecordBatch.from_arrays(arrays, names=self.schema.names), self.schema, what))


class FilterExpression(Operator):
    """Keeps the rows for which an expression is true, not null."""

    def __init__(self, predicate: pc.Expression) -> None:
        self._predicate = predicate

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._evaluation = Evaluation([self._predicate])

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        try:
            (mask,) = self._evaluation.arrays(batch)
        except pa.ArrowException as error:
            raise UserCodeError(f"filter {self.context.uid!r} failed for a row: {error}") from error
        kept = batch.filter(mask)
        if kept.num_rows:
            self.context.emit(kept)
