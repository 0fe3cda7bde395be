"""Arrow types that Spark can read from Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from snapline.errors import ConfigurationError

_READABLE: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
"""Lossless replacements for types Spark cannot read."""

_MAX_PRECISION = 38


def readable_schema(schema: pa.Schema, what: str = "to_dataframe()") -> pa.Schema:
    """Returns the schema to write rows with so that Spark can read them. Raises `ConfigurationError`."""
    try:
        return pa.schema([pa.field(field.name, _readable(field.type, field.name), field.nullable) for field in schema])
    except ConfigurationError as error:
        raise ConfigurationError(f"{what}: {error}") from None


def _readable(kind: pa.DataType, column: str) -> pa.DataType:
    if kind in _READABLE:
        return _READABLE[kind]
    if pa.types.is_dictionary(kind):
        return _readable(kind.value_type, column)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, _readable(field.type, column), field.nullable) for field in fields])
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(_readable(kind.key_type, column), item.with_type(_readable(item.type, column)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_readable(kind.value_type, column)))
    is_plain = (
        pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_date32(kind)
        or (pa.types.is_decimal128(kind) and kind.precision <= _MAX_PRECISION)
    )
    if not is_plain:
        raise ConfigurationError(f"the column {column!r} is {kind}, which Spark cannot read; convert it first")
    return kind
