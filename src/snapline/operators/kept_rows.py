"""Rows of a keyed stream as operators store them in state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_NOTHING = pa.bool_()
"""Stands for a row without columns besides its key."""


def kept_type(kind: pa.DataType) -> pa.DataType:
    """The type a column is stored and emitted as."""
    if pa.types.is_dictionary(kind):
        return kept_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def kept_column(column: pa.Array) -> pa.Array:
    """The column cast to its `kept_type`."""
    kind = kept_type(column.type)
    return column if column.type == kind else column.cast(kind)


class RowType:
    """Rows of a keyed stream without their key, as one column of structs."""

    def __init__(self, schema: pa.Schema, key_columns: Sequence[str]) -> None:
        self.key_columns = tuple(key_columns)
        self.columns = tuple(name for name in schema.names if name not in self.key_columns)
        self.fields = [pa.field(name, kept_type(schema.field(name).type)) for name in self.columns]
        self.type: pa.DataType = pa.struct(self.fields) if self.fields else _NOTHING

    def keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [kept_column(batch.column(name)) for name in self.key_columns]

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """The rows of a batch as they are stored."""
        if not self.fields:
            return pa.array(np.ones(batch.num_rows, dtype=np.bool_))
        return pa.StructArray.from_arrays(
            [kept_column(batch.column(name)) for name in self.columns], fields=self.fields
        )

    def arrays(self, rows: pa.Array | None, count: int) -> list[pa.Array]:
        """The columns of stored rows; `count` nulls each if `rows` is None."""
        if rows is None:
            return [pa.nulls(count, field.type) for field in self.fields]
        return list(rows.flatten()) if self.fields else []
