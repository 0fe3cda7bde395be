"""What a sink takes of a stream of changes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator
from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import (
    CHANGE,
    DELETE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    change_batch,
    is_changing,
    kinds_of,
    with_change,
    without_change,
)
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.keyed_batches import decoded


class SinkChanges(StrEnum):
    """What a sink declares to take: appended rows only, rows that replace those with the same key, or all changes."""

    APPENDS = "appends"
    UPSERTS = "upserts"
    CHANGES = "changes"


def check_sink(sink: str, takes: SinkChanges, schema: pa.Schema, key: Sequence[str] = ()) -> None:
    """Raise `ConfigurationError` if a sink cannot take a stream of this schema; `key` is what upserts replace by."""
    if takes is SinkChanges.APPENDS and is_changing(schema):
        raise ConfigurationError(
            f"{sink} can only append rows, but results of this query change later; write to a sink that takes upserts "
            "or changes, or make results final: aggregate by windows with a watermark"
        )
    if takes is SinkChanges.UPSERTS:
        if not key:
            raise ConfigurationError(f"{sink} replaces rows by key; name the columns of the key")
        missing = [name for name in key if name not in schema.names]
        if missing:
            raise ConfigurationError(f"{sink} replaces rows by {', '.join(key)}, but there is no {', '.join(missing)}")


class ChangesToSink(Operator):
    """Turns a stream of any schema into what a sink takes. Without state.

    - APPENDS: the rows as they are; a changing input was refused by `check_sink`.
    - UPSERTS: of rows with the same `key` in a batch the last one; its kind is an update after or a delete, and deletes
      come last. `split_upserts` takes the two apart. A delete's other columns mean nothing.
    - CHANGES: all changes, with the column of kinds also where the input has inserts only.
    """

    def __init__(self, takes: SinkChanges, schema: pa.Schema, key: Sequence[str] = ()) -> None:
        check_sink("the sink", takes, schema, key)
        self._takes = takes
        self._key = tuple(key)
        self.output_schema = schema if takes is SinkChanges.APPENDS else with_change(schema)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        if self._takes is SinkChanges.APPENDS:
            self.context.emit(batch)
            return
        kinds = kinds_of(batch)
        given: Kinds = np.zeros(batch.num_rows, dtype=np.int8) if kinds is None else kinds
        arrays = [batch.column(name) for name in without_change(batch.schema).names]
        if self._takes is SinkChanges.UPSERTS:
            arrays, given = self._upserts(batch, arrays, given)
        if given.size:
            self.context.emit(change_batch(arrays, given, self.output_schema))

    def _upserts(self, batch: pa.RecordBatch, arrays: list[pa.Array], kinds: Kinds) -> tuple[list[pa.Array], Kinds]:
        columns = [decoded(batch.column(name)) for name in self._key]
        codes = row_codes(columns, batch.num_rows, normalise=True).dictionary_encode()
        rows = np.flatnonzero(kinds != UPDATE_BEFORE)
        last = np.full(len(codes.dictionary), -1, dtype=np.int64)
        last[codes.indices.to_numpy()[rows]] = rows
        rows = np.sort(last[last >= 0])
        is_delete = kinds[rows] == DELETE
        rows = np.concatenate([rows[~is_delete], rows[is_delete]])
        made = np.where(kinds[rows] == DELETE, DELETE, UPDATE_AFTER).astype(np.int8)
        return [array.take(pa.array(rows)) for array in arrays], made


def split_upserts(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows to put and the rows to delete of a batch of upserts, both without the column of kinds."""
    kinds = batch.column(CHANGE).to_numpy()
    rows = batch.remove_column(batch.num_columns - 1)
    deletes = int(np.count_nonzero(kinds == DELETE))
    return rows.slice(0, batch.num_rows - deletes), rows.slice(batch.num_rows - deletes)
