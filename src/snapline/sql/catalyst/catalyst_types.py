"""Spark's types and the values of its literals, as Arrow's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from snapline.errors import ConfigurationError

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "StringType": pa.string(),
    "CharType": pa.string(),
    "VarcharType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimeType": pa.time64("ns"),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
    "YearMonthIntervalType": pa.int32(),
    "CalendarIntervalType": pa.month_day_nano_interval(),
    "NullType": pa.null(),
}

_INSTEAD: Final[Mapping[str, str]] = {
    "Collation": "only the default collation UTF8_BINARY runs; compare lower(column), or cast with "
    "`COLLATE UTF8_BINARY`",
    "UserDefinedType": "select the fields that it is made of",
    "VariantType": "extract what you need with variant_get or try_variant_get before the stream, or keep it as JSON "
    "text",
}


def arrow_type(described: Sequence[Any], where: str) -> pa.DataType:
    """The Arrow type for a type as `PlanWriter` describes it; `where` is text of the query for messages.

    Raises `ConfigurationError` for types without a counterpart.
    """
    kind = described[0]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "DecimalType":
        return pa.decimal128(described[1], described[2])
    if kind == "ArrayType":
        return pa.list_(_field("element", described[1], described[2], where))
    if kind == "MapType":
        return pa.map_(arrow_type(described[1], where), _field("value", described[2], described[3], where))
    if kind == "StructType":
        return pa.struct([_field(name, field, nullable, where) for name, field, nullable in described[1]])
    advice = _INSTEAD.get(kind, "cast it to a type that Arrow has")
    raise ConfigurationError(f"the type {described[1]} is not supported, in {where}: {advice}")


def _field(name: str, described: Sequence[Any], nullable: bool, where: str) -> pa.Field:
    kind = arrow_type(described, where)
    return pa.field(name, kind, nullable or pa.types.is_null(kind))  # an empty array has elements that are never null


def interval_type_name(described: Sequence[Any]) -> str:
    """The name in SQL of a type that is or holds an interval of years to seconds; empty for all others."""
    name = _type_name(described)
    return name if "interval " in name and _holds_interval(described) else ""


def _holds_interval(described: Sequence[Any]) -> bool:
    if described[0] == "StructType":
        return any(_holds_interval(field) for _, field, _ in described[1])
    if described[0] in ("ArrayType", "MapType"):
        return any(_holds_interval(part) for part in described[1:-1])
    return described[0] in ("YearMonthIntervalType", "DayTimeIntervalType")


def _type_name(described: Sequence[Any]) -> str:
    if described[0] == "StructType":
        return f"struct<{','.join(f'{name}:{_type_name(field)}' for name, field, _ in described[1])}>"
    if described[0] == "ArrayType":
        return f"array<{_type_name(described[1])}>"
    if described[0] == "MapType":
        return f"map<{_type_name(described[1])},{_type_name(described[2])}>"
    return f"decimal({described[1]},{described[2]})" if described[0] == "DecimalType" else str(described[1])


def literal_value(written: Any, kind: pa.DataType) -> Any:
    """A literal's value, as `pa.scalar(value, kind)` takes it."""
    if written is None:
        return None
    if pa.types.is_interval(kind):
        _, months, days, microseconds = written
        return pa.MonthDayNano([months, days, microseconds * 1000])
    if pa.types.is_binary(kind):
        return bytes(written)
    if pa.types.is_map(kind):
        return [(literal_value(key, kind.key_type), literal_value(item, kind.item_type)) for key, item in written]
    if pa.types.is_list(kind):
        return [literal_value(element, kind.value_type) for element in written]
    if pa.types.is_struct(kind):
        return {kind.field(n).name: literal_value(value, kind.field(n).type) for n, value in enumerate(written)}
    return written
