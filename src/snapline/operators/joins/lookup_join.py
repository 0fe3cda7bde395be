"""Joins of a stream with a static table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.plain_data import stream_bytes
from snapline.operators.joins.join_rows import Pairs
from snapline.operators.kept_rows import kept_column
from snapline.operators.projection import combined
from snapline.state.arrays import Ints
from snapline.state.batch_keys import KeyTypes, Rows
from snapline.state.key_index import KeyIndex


class StaticTable:
    """A table by key, pickled with the job as one IPC stream."""

    def __init__(self, table: pa.Table, key_columns: Sequence[str]) -> None:
        self.key_columns = tuple(key_columns)
        self._data = stream_bytes(table)

    def index(self) -> TableIndex:
        """The table with an index of its keys."""
        table = pa.ipc.open_stream(self._data).read_all()
        batch = pa.RecordBatch.from_arrays([combined(column) for column in table.columns], schema=table.schema)
        return TableIndex(batch, self.key_columns)


class TableIndex:
    """The rows of a table by key, without rows whose key has a null."""

    def __init__(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        keys = [kept_column(batch.column(name)) for name in key_columns]
        self._types = KeyTypes(pa.struct([pa.field(str(number), key.type) for number, key in enumerate(keys)]))
        self._index = KeyIndex(self._types.kinds)
        rows = np.flatnonzero(_all_valid(keys, batch.num_rows))
        slots = self._slots([key.take(pa.array(rows)) for key in keys], add=True)
        order = np.argsort(slots, kind="stable")
        others = [name for name in batch.schema.names if name not in key_columns]
        self.columns = [kept_column(batch.column(name)).take(pa.array(rows[order])) for name in others]
        self._counts = np.bincount(slots, minlength=self._index.size)
        self._starts = np.cumsum(self._counts) - self._counts

    def pairs(self, keys: Sequence[pa.Array], count: int) -> tuple[Pairs, Ints]:
        """Pairs of rows with rows of the table, and the rows without a match."""
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
    """Joins each row with all rows of a table that have the same key.

    `key_columns` are those of the stream. Rows without a match are dropped, or with `keeps_all` emitted with nulls.
    """

    def __init__(self, static: StaticTable, key_columns: Sequence[str], schema: pa.Schema, *, keeps_all: bool) -> None:
        self._static = static
        self._key_columns = tuple(key_columns)
        self._schema = schema
        self._keeps_all = keeps_all

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._table = self._static.index()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        pairs, missing = self._table.pairs(
            [kept_column(batch.column(name)) for name in self._key_columns], batch.num_rows
        )
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
