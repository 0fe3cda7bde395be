"""The whole result of a query, again after each change: Spark's complete mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.changes import weights_of, without_change
from snapline.operators.changes.rank_order import SortColumn, sort_codes_of
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.kept_rows import RowType
from snapline.operators.keyed_batches import keyed_state
from snapline.state.batch_keys import Rows

_BATCH_ROWS = 65_536


class CompleteTable(Operator):
    """Keeps all rows, and emits all of them before each checkpoint before which some have changed.

    The input, keyed by the constant of a `KeyLayout` without columns, has inserts only or changes; rows are emitted
    in the order `order`, if there is one, at most `limit` of them, without the columns of `dropped`.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_columns: Sequence[str],
        order: Sequence[SortColumn] = (),
        dropped: Sequence[str] = (),
        limit: int | None = None,
    ) -> None:
        names = [name for name in without_change(schema).names if name not in key_columns]
        self._rows = RowType(pa.schema([schema.field(name) for name in names]), ())
        self._order = tuple(order)
        self._limit = limit
        self._shown = [name for name in names if name not in dropped]
        self._entry = pa.struct([pa.field("count", pa.int64()), pa.field("row", self._rows.type)])
        self.output_schema = pa.schema([field for field in self._rows.fields if field.name in self._shown])

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "complete")
        self._table = self._keyed.map_state("table", pa.binary(), self._entry)
        self._has_changed = False

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        rows = self._rows.rows(batch)
        codes = row_codes(self._rows.arrays(rows, len(rows)), len(rows)).dictionary_encode()
        weights = weights_of(batch)
        given = np.ones(len(rows), dtype=np.int64) if weights is None else weights
        net = np.zeros(len(codes.dictionary), dtype=np.int64)
        np.add.at(net, codes.indices.to_numpy(), given)
        first = np.zeros(len(net), dtype=np.int64)
        first[codes.indices.to_numpy()[::-1]] = np.arange(len(rows) - 1, -1, -1)
        owners = self._owner(batch, len(net))
        known = self._table.take(owners, codes.dictionary)
        counts = pc.fill_null(known.field(0), 0).to_numpy(zero_copy_only=False) + net
        entries = pa.StructArray.from_arrays(
            [pa.array(counts), rows.take(pa.array(first))], fields=list(self._entry), mask=pa.array(counts == 0)
        )
        self._table.put_all(owners, codes.dictionary, entries)
        self._has_changed = True

    def _owner(self, batch: pa.RecordBatch, count: int) -> Rows:
        """The key that all rows have, as often as there are entries."""
        columns = [batch.column(name) for name in self.context.key_columns]
        self._constants = [column.slice(0, 1) for column in columns]
        return self._keyed.keys([pa.repeat(column[0], count) for column in self._constants])

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._emit_all()

    def finish(self) -> None:
        self._emit_all()

    def _emit_all(self) -> None:
        if not self._has_changed:
            return
        self._has_changed = False
        _, _, entries = self._table.entries(self._keyed.keys(self._constants))
        counts = entries.field(0).to_numpy(zero_copy_only=False)
        rows = entries.field(1)
        if (counts != 1).any():
            rows = rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
        arrays = self._rows.arrays(rows, len(rows))
        names = [field.name for field in self._rows.fields]
        if self._order:
            by = [arrays[names.index(column.name)] for column in self._order]
            order = np.lexsort(sort_codes_of(by, self._order)[::-1])
            arrays = [array.take(pa.array(order)) for array in arrays]
        chosen = [array for name, array in zip(names, arrays, strict=True) if name in self._shown]
        batch = pa.RecordBatch.from_arrays(chosen, schema=self.output_schema)
        batch = batch if self._limit is None else batch.slice(0, self._limit)
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            self.context.emit(batch.slice(start, _BATCH_ROWS))


class LatestRows(Operator):
    """Lets the rows pass that are new or have changed, without their kind: Spark's update mode."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        kinds = batch.column(batch.num_columns - 1).to_numpy()
        rows = batch.remove_column(batch.num_columns - 1)
        kept = rows if not (kinds & 1).any() else rows.filter(pa.array((kinds & 1) == 0))
        if kept.num_rows:
            self.context.emit(kept)
