"""Parquet files, a row group at a time, with dictionaries for the columns that gain by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_SAMPLE_ROWS = 4096
_MOST_DISTINCT = 0.95
"""Columns of which a larger share of the sample is distinct get no dictionary: it would be as large as the values, and
take most of the time of writing them.
"""


class ParquetGroups:
    """Writes batches of one schema to an open file; `options` are those of `pyarrow.parquet.ParquetWriter`.

    The rows of the first group decide which columns get dictionaries.
    """

    def __init__(self, sink: Any, schema: pa.Schema, **options: Any) -> None:
        self._sink = sink
        self._schema = schema
        self._options = options
        self._writer: Any = None

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Write these rows as one row group."""
        rows = pa.Table.from_batches(batches, self._schema)
        if self._writer is None:
            self._writer = self._opened(rows)
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def close(self) -> pq.FileMetaData:
        """Write the footer; the file stays open. Returns what the footer says."""
        if self._writer is None:
            self._writer = self._opened(self._schema.empty_table())
        self._writer.close()
        metadata: pq.FileMetaData = self._writer.writer.metadata
        return metadata

    def _opened(self, rows: pa.Table) -> Any:
        return pq.ParquetWriter(self._sink, self._schema, use_dictionary=dictionary_columns(rows), **self._options)


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The columns for which a dictionary is worth while, by the names that Parquet gives to leaves of nested ones.

    Judged by some of the rows, from anywhere among them: values often repeat at a distance. Nested columns have one.
    """
    sample = rows
    if rows.num_rows > _SAMPLE_ROWS:
        places = np.random.default_rng(0).integers(0, rows.num_rows, _SAMPLE_ROWS)
        sample = rows.select([field.name for field in rows.schema if _is_judged(field.type)]).take(np.unique(places))
    distinct = {
        field.name
        for number, field in enumerate(sample.schema)
        if _is_judged(field.type) and _is_distinct(sample.column(number))
    }
    return [path for path in _paths(rows.schema) if path not in distinct]


def _is_judged(kind: pa.DataType) -> bool:
    """Whether Arrow can count the values of this type."""
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return not (is_view or pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind))


def _is_distinct(column: pa.ChunkedArray) -> bool:
    values = len(column) - column.null_count
    return bool(values) and int(pc.count_distinct(column).as_py()) > _MOST_DISTINCT * values


def _paths(schema: pa.Schema) -> list[str]:
    if not any(pa.types.is_nested(field.type) for field in schema):
        return [*schema.names]
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [leaves.column(number).path for number in range(len(leaves))]
