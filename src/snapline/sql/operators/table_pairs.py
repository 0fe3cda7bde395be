"""Rows of a stream with each row of a table for which a condition holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import is_changing, without_change
from snapline.operators.changes.changing_join import JoinKind
from snapline.sql.expressions.compiler import Program
from snapline.sql.plans.trees import Attribute, Expression

_PAIRS = 1 << 18
"""About how many pairs are looked at together."""


class TablePairs(Operator):
    """Joins each row with all rows of a table, which is kept in memory; the kind of a change goes along with its row.

    `attributes` are the columns of the input and then those of the table; the condition, if there is one, is over
    these. Emits the columns of `schema`: for INNER and LEFT both, for SEMI and ANTI those of the input. LEFT also
    emits rows without a partner, with nulls. Without state.
    """

    def __init__(
        self,
        kind: JoinKind,
        table: pa.RecordBatch,
        condition: Expression | None,
        attributes: Sequence[Attribute],
        schema: pa.Schema,
    ) -> None:
        self._kind = kind
        self._table = table
        self._condition = condition
        self._attributes = tuple(attributes)
        self._schema = schema

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._program = None if self._condition is None else Program([self._condition], self._attributes)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        step = max(_PAIRS // max(self._table.num_rows, 1), 1)
        for start in range(0, batch.num_rows, step):
            self._join(batch.slice(start, step))

    def _join(self, batch: pa.RecordBatch) -> None:
        count, size = batch.num_rows, self._table.num_rows
        mine, theirs = np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
        if self._program is not None and len(mine):
            arrays = [column.take(pa.array(mine)) for column in batch.columns[: self._width(batch)]]
            arrays += [column.take(pa.array(theirs)) for column in self._table.columns]
            pairs = pa.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])
            kept = np.flatnonzero(pc.fill_null(self._program.arrays(pairs)[0], False).to_numpy(zero_copy_only=False))
            mine, theirs = mine[kept], theirs[kept]
        if self._kind in (JoinKind.SEMI, JoinKind.ANTI):
            has_partner = np.bincount(mine, minlength=count) > 0
            self._emit(batch, np.flatnonzero(has_partner == (self._kind is JoinKind.SEMI)), None)
            return
        is_padding = np.zeros(len(mine), dtype=np.bool_)
        if self._kind is JoinKind.LEFT:
            alone = np.flatnonzero(np.bincount(mine, minlength=count) == 0)
            mine, theirs = np.concatenate([mine, alone]), np.concatenate([theirs, np.zeros(len(alone), dtype=np.int64)])
            is_padding = np.concatenate([is_padding, np.ones(len(alone), dtype=np.bool_)])
        self._emit(batch, mine, pa.array(theirs, mask=is_padding))

    def _width(self, batch: pa.RecordBatch) -> int:
        return len(without_change(batch.schema))

    def _emit(self, batch: pa.RecordBatch, mine: np.ndarray, theirs: pa.Array | None) -> None:
        if not len(mine):
            return
        at, width = pa.array(mine), self._width(batch)
        arrays = [column.take(at) for column in batch.columns[:width]]
        if theirs is not None:
            arrays += [column.take(theirs) for column in self._table.columns]
        if is_changing(batch.schema):
            arrays.append(batch.column(width).take(at))
        self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
