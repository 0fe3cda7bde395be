"""Rows of a stream with each row of a table for which a condition holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import without_change
from snapline.operators.changes.changing_join import JoinKind
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.joins.lookup_join import TableIndex
from snapline.sql.expressions.compiler import Program
from snapline.sql.plans.trees import Attribute, Expression
from snapline.state.arrays import Bools, Ints

_PAIRS = 1 << 18
"""About how many pairs are looked at together where no columns must be equal."""

_ROW = "row"


@dataclass(frozen=True, slots=True)
class TableKeys:
    """Expressions over the rows of a stream and over those of a table, in pairs that must be equal.

    `null_safe` says for each pair whether null equals null.
    """

    ours: tuple[Expression, ...]
    theirs: tuple[Expression, ...]
    null_safe: tuple[bool, ...]


class TablePairs(Operator):
    """Joins each row with the rows of a table, which is kept in memory; the kind of a change goes along with its row.

    `attributes` are the columns of the input and then those of the table; the condition, if there is one, is over
    these. Only rows with equal `keys` meet; without keys all of them do. Emits the columns of `schema`: for INNER and
    LEFT both, for SEMI and ANTI those of the input. LEFT also emits rows without a partner, with nulls. Without state.
    """

    def __init__(
        self,
        kind: JoinKind,
        table: pa.RecordBatch,
        condition: Expression | None,
        attributes: Sequence[Attribute],
        schema: pa.Schema,
        keys: TableKeys | None = None,
    ) -> None:
        self._kind = kind
        self._table = table
        self._condition = condition
        self._attributes = tuple(attributes)
        self._schema = schema
        self._keys = keys

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._program = None if self._condition is None else Program([self._condition], self._attributes)
        width = len(self._attributes) - self._table.num_columns
        sides = self._attributes[:width], self._attributes[width:]
        self._candidates = _Every(self._table) if self._keys is None else _Equal(self._table, self._keys, *sides)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        step = self._candidates.step
        for start in range(0, batch.num_rows, step):
            self._join(batch.slice(start, step))

    def _join(self, batch: pa.RecordBatch) -> None:
        has_partner = np.zeros(batch.num_rows, dtype=np.bool_)
        for candidates in self._candidates.pairs(batch):
            mine, theirs = self._checked(batch, *candidates)
            has_partner[mine] = True
            if self._kind in (JoinKind.INNER, JoinKind.LEFT):
                self._emit(batch, mine, pa.array(theirs))
        if self._kind is JoinKind.SEMI:
            self._emit(batch, np.flatnonzero(has_partner), None)
        elif self._kind is not JoinKind.INNER:
            alone = np.flatnonzero(~has_partner)
            self._emit(batch, alone, pa.nulls(len(alone), pa.int64()) if self._kind is JoinKind.LEFT else None)

    def _checked(self, batch: pa.RecordBatch, mine: Ints, theirs: Ints) -> tuple[Ints, Ints]:
        """The pairs for which the condition holds."""
        if self._program is None or not len(mine):
            return mine, theirs
        arrays = [column.take(pa.array(mine)) for column in batch.columns[: self._width(batch)]]
        arrays += [column.take(pa.array(theirs)) for column in self._table.columns]
        pairs = pa.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])
        kept = np.flatnonzero(pc.fill_null(self._program.arrays(pairs)[0], False).to_numpy(zero_copy_only=False))
        return mine[kept], theirs[kept]

    def _width(self, batch: pa.RecordBatch) -> int:
        return len(without_change(batch.schema))

    def _emit(self, batch: pa.RecordBatch, mine: Ints, theirs: pa.Array | None) -> None:
        if not len(mine):
            return
        is_whole = len(mine) == batch.num_rows and np.array_equal(mine, np.arange(len(mine)))
        columns, width = (batch if is_whole else batch.take(pa.array(mine))).columns, self._width(batch)
        arrays = columns[:width]
        if theirs is not None:
            arrays += [column.take(theirs) for column in self._table.columns]
        arrays += columns[width:]
        self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class _Every:
    """All rows of the table are candidates for each row."""

    def __init__(self, table: pa.RecordBatch) -> None:
        self._size = table.num_rows
        self.step = max(_PAIRS // max(self._size, 1), 1)

    def pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[Ints, Ints]]:
        count = batch.num_rows
        yield np.repeat(np.arange(count), self._size), np.tile(np.arange(self._size), count)


class _Equal:
    """The rows of the table with equal keys are candidates."""

    step = _PAIRS

    def __init__(
        self, table: pa.RecordBatch, keys: TableKeys, ours: Sequence[Attribute], theirs: Sequence[Attribute]
    ) -> None:
        self._program = Program(keys.ours, ours)
        self._null_safe = keys.null_safe
        names = [str(n) for n in range(len(keys.ours))]
        schema = pa.schema([pa.field(name, key.type) for name, key in zip(names, keys.ours, strict=True)])
        self._layout = KeyLayout(schema, names, keys.null_safe)
        found = self._of(Program(keys.theirs, theirs).arrays(table), table.num_rows)
        rows = pa.array(np.arange(table.num_rows))
        self._index = TableIndex(
            pa.RecordBatch.from_arrays([*found, rows], names=[*self._layout.key_columns, _ROW]),
            self._layout.key_columns,
        )
        self._rows: Ints = self._index.columns[0].to_numpy()

    def pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[Ints, Ints]]:
        found, _ = self._index.pairs(self._of(self._program.arrays(batch), batch.num_rows), batch.num_rows)
        for mine, theirs in found:
            yield mine, self._rows[theirs]

    def _of(self, values: Sequence[pa.Array], count: int) -> list[pa.Array]:
        """The key columns; null where a value is null that equals nothing, so that the index leaves the row out."""
        names = [str(n) for n in range(len(values))]
        first, *others = self._layout.keys(pa.RecordBatch.from_arrays(list(values), names=names))
        absent: Bools = np.zeros(count, dtype=np.bool_)
        for value, is_safe in zip(values, self._null_safe, strict=True):
            if value.null_count and not is_safe:
                absent |= value.is_null().to_numpy(zero_copy_only=False)
        return [pc.if_else(pa.array(absent), None, first) if absent.any() else first, *others]
