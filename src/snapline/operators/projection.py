"""Evaluates expressions of `pyarrow.compute` on batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.dead_letters import OnError, salvaged
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import conform
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import BadRows
from snapline.operators.row_batches import row_at
from snapline.text import explanation


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


class _Computing(Operator):
    """Base of the operators with expressions, and what to do with rows they fail for. `name` is what the user called.

    An expression has no side effects: where it fails for a batch, it is evaluated again to find the row at fault.
    """

    name: str

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"{self.name} {context.uid!r}"
        self._bad = BadRows(self, context, self._what, self._on_error)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        for made in salvaged(
            lambda start, end: self._computed(batch.slice(start, end - start)), 0, batch.num_rows, self._failed(batch)
        ):
            if made.num_rows:
                self.context.emit(made)
        self._bad.flush()

    @abstractmethod
    def _computed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The output for a batch. Raises whatever Arrow raises."""

    def _failed(self, batch: pa.RecordBatch) -> Callable[[int, Exception], None]:
        def failed(number: int, error: Exception) -> None:
            problem = error
            if isinstance(error, pa.ArrowException):
                column = self._column_at_fault(batch.slice(number, 1))
                problem = UserCodeError(f"{self._what}{column} failed: {explanation(error)}")
                problem.__cause__ = error
            self._bad.take(problem, row_at(batch, number))

        return failed

    def _column_at_fault(self, row: pa.RecordBatch) -> str:
        """The end of a message: which column cannot be computed."""
        del row
        return ""


class Project(_Computing):
    """Computes columns from expressions and copies others.

    `columns` are the columns of the output `schema`, each an expression or the name of the column it copies; `name` is
    the method the user called.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str | pc.Expression],
        schema: pa.Schema,
        on_error: OnError = OnError.FAIL,
    ) -> None:
        super().__init__(on_error)
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

    def _computed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        computed = iter(() if self._evaluation is None else self._evaluation.arrays(batch))
        arrays = [batch.column(item) if isinstance(item, str) else next(computed) for item in self._columns]
        return conform(pa.RecordBatch.from_arrays(arrays, names=self.schema.names), self.schema, self._what)

    def _column_at_fault(self, row: pa.RecordBatch) -> str:
        for name, item in zip(self.schema.names, self._columns, strict=True):
            if not isinstance(item, str):
                try:
                    Evaluation([item]).arrays(row)
                except pa.ArrowException:
                    return f", column {name!r},"
        return ""


class FilterExpression(_Computing):
    """Keeps the rows for which an expression is true, not null."""

    name = "filter"

    def __init__(self, predicate: pc.Expression, on_error: OnError = OnError.FAIL) -> None:
        super().__init__(on_error)
        self._predicate = predicate

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._evaluation = Evaluation([self._predicate])

    def _computed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        (mask,) = self._evaluation.arrays(batch)
        return batch.filter(mask)
