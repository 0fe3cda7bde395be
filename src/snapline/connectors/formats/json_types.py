"""How Arrow types stand in JSON: as what Arrow's parser reads them, and as what Python's does."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args

import msgspec
import pyarrow as pa
import pyarrow.types as pt

from snapline.connectors.formats.type_tree import LISTS, leaf_types, rebuilt
from snapline.errors import ConfigurationError

Times: TypeAlias = Literal["iso", "s", "ms", "us", "ns"]
"""How timestamps are written: as text in ISO 8601, or as a whole number of these units since 1970."""

TIMES = get_args(Times)

_INTEGER_BITS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63} | {
    pa.uint8(): 8,
    pa.uint16(): 16,
    pa.uint32(): 32,
}
_IN_OBJECTS = (pt.is_map, pt.is_time, pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view)
_PLAIN = (
    *(pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_timestamp, pt.is_date, pt.is_null),
    *(pt.is_string, pt.is_large_string, pt.is_string_view, pt.is_struct, pt.is_list, pt.is_large_list),
    *(pt.is_fixed_size_list, pt.is_dictionary, *_IN_OBJECTS),
)


def check_types(schema: pa.Schema, call: str) -> None:
    """Raises `ConfigurationError` if JSON cannot hold a column of this schema. Called on the driver."""
    for column in schema:
        for kind in leaf_types(column.type):
            if not any(test(kind) for test in _PLAIN):
                raise ConfigurationError(
                    f"{call}: the column {column.name!r} has the type {kind}, which JSON cannot hold"
                )
            if pt.is_map(kind) and not (is_text(kind.key_type) or pt.is_integer(kind.key_type)):
                raise ConfigurationError(
                    f"{call}: the column {column.name!r} is a map with keys of type {kind.key_type}; JSON has text "
                    "there, or numbers written as text"
                )
        if in_objects(column.type) and any(getattr(kind, "unit", "") == "ns" for kind in leaf_types(column.type)):
            raise ConfigurationError(
                f"{call}: the column {column.name!r} has nanoseconds in a map or beside bytes, which would lose their "
                "last digits; use microseconds"
            )


def in_objects(kind: pa.DataType) -> bool:
    """Whether Arrow's parser cannot read a column of this type, so that it goes by way of Python objects."""
    return any(test(inner) for inner in leaf_types(kind) for test in _IN_OBJECTS)


def is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def wire_type(kind: pa.DataType, times: Times) -> pa.DataType:
    """As what Arrow's parser reads a column of this type."""

    def leaf(kind: pa.DataType) -> pa.DataType:
        if pt.is_date(kind):
            return pa.string()
        if pt.is_timestamp(kind) and times != "iso":
            return pa.int64()
        return pa.float32() if pt.is_float16(kind) else kind

    return rebuilt(kind, leaf)


def middle_type(kind: pa.DataType, times: Times) -> pa.DataType:
    """The type between that and the one wanted, with times in the units of the messages."""

    def leaf(kind: pa.DataType) -> pa.DataType:
        if pt.is_timestamp(kind) and (times != "iso" or in_python):
            return pa.timestamp("us" if times == "iso" else times, kind.tz)
        if pt.is_date(kind):
            return pa.date32()
        if in_python and pt.is_time(kind):
            return pa.time64("us")
        return kind

    in_python = in_objects(kind)
    return rebuilt(kind, leaf)


def object_type(kind: pa.DataType, times: Times, *, exact: bool) -> Any:
    """As what msgspec reads values of this type; without `exact` it takes all that Arrow's parser takes, and more."""
    inner = _object_type(kind, times, exact)
    return inner if inner is None or inner is Any else inner | None


def _object_type(kind: pa.DataType, times: Times, exact: bool) -> Any:
    if pt.is_dictionary(kind):
        return _object_type(kind.value_type, times, exact)
    if any(test(kind) for test in LISTS):
        return list[object_type(kind.value_type, times, exact=exact)]  # type: ignore[misc]
    if pt.is_struct(kind):
        # Typed dictionaries, since Arrow makes structs of dictionaries.
        fields = {inner.name: object_type(inner.type, times, exact=exact) for inner in kind}
        return TypedDict("Struct", fields, total=False)  # type: ignore[operator]
    if pt.is_map(kind):
        key = int if pt.is_integer(kind.key_type) else str
        return dict[key, object_type(kind.item_type, times, exact=exact)]  # type: ignore[misc, valid-type]
    return _leaf_object(kind, times, exact)


def _leaf_object(kind: pa.DataType, times: Times, exact: bool) -> Any:
    if pt.is_integer(kind):
        bits = _INTEGER_BITS.get(kind)
        if bits is None:  # uint64: msgspec knows no limit that large, Arrow does
            return Annotated[int, msgspec.Meta(ge=0)]
        return Annotated[int, msgspec.Meta(ge=0 if pt.is_unsigned_integer(kind) else -(1 << bits), le=(1 << bits) - 1)]
    if pt.is_timestamp(kind):
        return int if times != "iso" else dt.datetime if exact else str
    if pt.is_date(kind):
        return dt.date if exact else str
    if pt.is_decimal(kind):
        return Decimal if exact else Any
    for test, found in (
        (pt.is_boolean, bool),
        (pt.is_floating, float),
        (pt.is_time, dt.time),
        (pt.is_null, None),
        (is_text, str),
    ):
        if test(kind):
            return found
    return bytes
