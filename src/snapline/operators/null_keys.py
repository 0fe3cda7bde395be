"""Null keys as a group of their own, as in SQL: a column beside the keys says which of them are null.

Keys of state have no nulls. `MarkNullKeys` fills them with a default value of the type and adds the column `MARK`, by
which the stream is then keyed too; `RestoreNullKeys` turns the keys behind a keyed operator into what they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator
from snapline.contracts.schemas import decoded_type
from snapline.errors import ConfigurationError

MARK: Final = "_null_keys"
"""A number whose bit i says that key column i is null."""

MAX_COLUMNS: Final = 62


def marked_schema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Returns the schema of marked rows. Raises `ConfigurationError` for too many key columns, or the reserved name."""
    if len(columns) > MAX_COLUMNS:
        raise ConfigurationError(f"null keys: {len(columns)} key columns are too many, at most {MAX_COLUMNS}")
    if MARK in schema.names:
        raise ConfigurationError(f"null keys: the name of the column {MARK!r} is reserved; rename it")
    plain = [field.with_type(decoded_type(field.type)) if field.name in columns else field for field in schema]
    return pa.schema([*plain, pa.field(MARK, pa.int64(), nullable=False)])


def marked(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns rows with nulls of the key columns filled, and marked."""
    schema = marked_schema(batch.schema, columns)
    marks = np.zeros(batch.num_rows, dtype=np.int64)
    arrays = list(batch.columns)
    for bit, name in enumerate(columns):
        index = batch.schema.get_field_index(name)
        array = arrays[index]
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if array.null_count:
            marks |= array.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << bit
            array = pc.fill_null(array, _default(array.type))
        arrays[index] = array
    return pa.RecordBatch.from_arrays([*arrays, pa.array(marks)], schema=schema)


def unmarked(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns rows as they were before they were marked."""
    marks = batch.column(MARK).to_numpy()
    if not marks.any():
        return batch.drop_columns([MARK])
    for bit, name in enumerate(columns):
        is_null = pa.array((marks >> bit & 1).astype(bool))
        values = pc.if_else(is_null, pa.scalar(None, batch.schema.field(name).type), batch.column(name))
        batch = batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), values)
    return batch.drop_columns([MARK])


def unmarked_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a key, whose last value is its mark, as it was before it was marked."""
    *values, mark = key
    return tuple(None if mark >> bit & 1 else value for bit, value in enumerate(values))


def _default(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_temporal(kind):
        return pa.array([0], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)[0]
    return pa.scalar(False if pa.types.is_boolean(kind) else 0 if pa.types.is_primitive(kind) else "", kind)


class MarkNullKeys(Operator):
    """Marks null keys ahead of a keyed operator."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(marked(batch, self._columns))


class RestoreNullKeys(Operator):
    """Makes keys null again behind a keyed operator that emits its key columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(unmarked(batch, self._columns))
