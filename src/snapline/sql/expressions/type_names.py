"""The names of types in SQL."""

from __future__ import annotations

import pyarrow as pa

_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
    pa.month_day_nano_interval(): "interval",
    pa.null(): "void",
}


def type_name(type: pa.DataType) -> str:
    """The name of a type as `typeof` gives it; year-month intervals are `int` here, as their values are."""
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_map(type):
        return f"map<{type_name(type.key_type)},{type_name(type.item_type)}>"
    if pa.types.is_list(type):
        return f"array<{type_name(type.value_type)}>"
    if pa.types.is_struct(type):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in type)}>"
    return _NAMES.get(type, str(type))
