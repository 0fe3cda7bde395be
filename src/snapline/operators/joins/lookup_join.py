"""Rows put together with those of a table that does not change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.joins.join_rows import Pairs
from snapline.operators.kept_rows import plain
from snapline.state.arrays import Ints
from snapline.state.batch_keys import KeyTypes, Rows
from snapline.state.key_index import KeyIndex


class StaticTable:
    """A table by key. It travels with the job as one piece of data, without what is behind a slice."""

    def __init__(self, table: pa.Table, key_columns: Sequence[str]) -> None:
        self.key_columns = tuple(key_columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self._data: bytes = sink.getvalue().to_pybytes()

    def index(self) -> TableIndex:
        """The table, ready to be searched."""
        table = pa.ipc.open_stream(self._data).read_all()
        batch = pa.RecordBatch.from_arrays([_combined(column) for column in table.columns], schema=table.schema)
        return TableIndex(batch, self.key_columns)


class TableIndex:
    """The rows of a table by key; rows with a null in their key are not there."""

    def __init__(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        keys = [plain(batch.column(name)) for name in key_columns]
        self._types = KeyTypes(pa.struct([pa.field(str(number), key.type) for number, key in enumerate(keys)]))
        self._index = KeyIndex(self._types.kinds)
        rows = np.flatnonzero(_all_valid(keys, batch.num_rows))
        slots = self._slots([key.take(pa.array(rows)) for key in keys], add=True)
        order = np.argsort(slots, kind="stable")
        others = [name for name in batch.schema.names if name not in key_columns]
        self.columns = [plain(batch.column(name)).take(pa.array(rows[order])) for name in others]
        self._counts = np.bincount(slots, minlength=self._index.size)
        self._starts = np.cumsum(self._counts) - self._counts

    def pairs(self, keys: Sequence[pa.Array], count: int) -> tuple[Pairs, Ints]:
        """Which row goes with which of those of the table, and the rows that have none."""
        slots = np.full(count, -1, dtype=np.int64)
        valid = _all_valid(keys, count)
        if valid.all():
            slots = self._slots(keys, add=False)
        else:
            rows = np.flatnonzero(valid)
            slots[rows] = self._slots([key.take(pa.array(rows)) for key in keys], add=False)
        if not self._index.size:
            nothing = np.zeros(count, dtype=np.int64)
            return Pairs(nothing, nothing), np.arange(count)
        counts = np.where(slots >= 0, self._counts[slots], 0)
        return Pairs(self._starts[slots], counts), np.flatnonzero(slots < 0)

    def _slots(self, keys: Sequence[pa.Array], *, add: bool) -> Ints:
        rows = Rows.of(self._types.encode(list(keys)))
        slots = self._index.find(rows.encoded, rows.hashes)
        if add:
            self._index.add_missing(rows.encoded, rows.hashes, slots)
        return slots


class LookUp(Operator):
    """Adds the columns of a table's rows that have the same key to each row, once for each such row.

    `key_columns` are those of the stream. Rows that have none are left out, or if `keeps_all` come with nulls.
    """

    _table: TableIndex

    def __init__(self, static: StaticTable, key_columns: Sequence[str], schema: pa.Schema, *, keeps_all: bool) -> None:
        self._static = static
        self._key_columns = tuple(key_columns)
        self._schema = schema
        self._keeps_all = keeps_all

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._table = self._static.index()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        pairs, missing = self._table.pairs([plain(batch.column(name)) for name in self._key_columns], batch.num_rows)
        for mine, theirs in pairs:
            is_whole = len(mine) == batch.num_rows == pairs.count and not missing.size
            columns = batch.columns if is_whole else batch.take(pa.array(mine)).columns
            at = pa.array(theirs)
            self._emit([*columns, *(column.take(at) for column in self._table.columns)])
        if self._keeps_all and missing.size:
            nulls = [pa.nulls(len(missing), column.type) for column in self._table.columns]
            self._emit([*batch.take(pa.array(missing)).columns, *nulls])

    def _emit(self, arrays: list[pa.Array]) -> None:
        self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def _all_valid(columns: Sequence[pa.Array], count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    valid = np.ones(count, dtype=np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
