"""Arrow types in Parquet: which ones it can hold, and how to get exactly the same type back."""

from __future__ import annotations

import functools

import pyarrow as pa


@functools.lru_cache(maxsize=256)
def fits_parquet(kind: pa.DataType) -> bool:
    """Whether a column of this type can be stored as it is and restored with `cast`.

    False for unions, intervals, run-end encoding, structs without fields, decimals of negative scale, and for
    dictionaries inside other types, unless of text or bytes.
    """
    if pa.types.is_dictionary(kind):
        return fits_parquet(kind.value_type)
    return _fits_nested(kind)


def to_ipc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Encode each value of a column as an Arrow IPC stream of one column and one row."""
    schema = pa.schema([pa.field("value", column.type)])
    values: list[bytes] = []
    for chunk in column.chunks:
        for row in range(len(chunk)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as stream:
                stream.write_batch(pa.record_batch([chunk.slice(row, 1)], schema=schema))
            values.append(sink.getvalue().to_pybytes())
    return pa.chunked_array([values], pa.large_binary())


def from_ipc(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The inverse of `to_ipc`."""
    arrays = [chunk for value in column for chunk in pa.ipc.open_stream(value.as_buffer()).read_all().column(0).chunks]
    if any(array.type != kind or len(array) != 1 for array in arrays) or len(arrays) != len(column):
        raise pa.ArrowInvalid(f"a value is not of type {kind}")
    return pa.chunked_array([pa.concat_arrays(arrays)] if arrays else [], kind)


def cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Cast a column that was read from Parquet to the type that was written."""
    if column.type == field.type:
        return column
    if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
        column = column.cast(field.type.value_type).dictionary_encode()
    return column.cast(field.type)


def _fits_nested(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _fits_nested(kind.storage_type)
    if pa.types.is_dictionary(kind):
        value = kind.value_type
        return bool(pa.types.is_string(value) or pa.types.is_binary(value))
    if pa.types.is_union(kind) or pa.types.is_interval(kind) or pa.types.is_run_end_encoded(kind):
        return False
    if pa.types.is_decimal(kind):
        return bool(kind.scale >= 0)
    if pa.types.is_struct(kind) and kind.num_fields == 0:
        return False
    return all(_fits_nested(kind.field(index).type) for index in range(kind.num_fields))
