"""Arrow values as JSON, without losing anything a person would look for."""

from __future__ import annotations

import base64
import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = dt.datetime(1970, 1, 1)


def json_value(value: pa.Scalar) -> JsonValue:
    """Convert one value. Times become ISO 8601 (with `Z` if they have a zone), bytes `{"base64": ...}`, maps pairs.

    Decimals become text, and so do floats that JSON cannot represent.
    """
    kind = value.type
    if isinstance(kind, pa.BaseExtensionType):
        return json_value(value.value)
    if not value.is_valid:
        return None
    if pa.types.is_dictionary(kind) or pa.types.is_union(kind):
        return json_value(value.value)
    if pa.types.is_struct(kind):
        return {kind.field(index).name: json_value(value[index]) for index in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [[json_value(entry[0]), json_value(entry[1])] for entry in value.values]
    if pa.types.is_nested(kind) and hasattr(value, "values"):
        return [json_value(item) for item in value.values]
    if pa.types.is_timestamp(kind):
        return _moment(value.value, kind.unit) + ("" if kind.tz is None else "Z")
    if pa.types.is_time(kind):
        return _moment(value.value, kind.unit).partition("T")[2]
    if pa.types.is_duration(kind):
        return f"PT{Decimal(value.value) / _PER_SECOND[kind.unit]:f}S"
    return json_of_object(value.as_py())


def json_of_object(value: Any) -> JsonValue:
    """Convert a Python object. What JSON cannot represent becomes `{"repr": ...}`."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
        case Decimal():
            return str(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case pa.MonthDayNano():
            return {"months": value.months, "days": value.days, "nanoseconds": value.nanoseconds}
        case list() | tuple():
            return [json_of_object(item) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: json_of_object(item) for key, item in value.items()}
        case _:
            return {"repr": repr(value)}


def json_of_pickle(data: bytes, *, unpickle: bool) -> JsonValue:
    """The size of a pickled value, or if `unpickle` the value; that runs whatever code the pickle names."""
    if not unpickle:
        return {"pickle": len(data)}
    try:
        return json_of_object(pickle.loads(data))  # noqa: S301
    except Exception as error:  # code in the pickle may raise anything
        return {"pickle": len(data), "error": f"{type(error).__name__}: {error}"}


def json_rows(table: pa.Table, pickled: frozenset[str], *, unpickle: bool = False) -> list[dict[str, JsonValue]]:
    """Convert the rows of a table. `pickled` are the columns that hold pickles."""
    columns = {
        name: [
            json_of_pickle(value.as_py(), unpickle=unpickle)
            if name in pickled and value.is_valid
            else json_value(value)
            for value in table[name]
        ]
        for name in table.column_names
    }
    return [{name: values[row] for name, values in columns.items()} for row in range(table.num_rows)]


def _moment(value: int, unit: str) -> str:
    """A time since 1970 in ISO 8601 with all digits of the unit; out of range, the number with its unit."""
    seconds, fraction = divmod(value, _PER_SECOND[unit])
    try:
        whole = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return f"{value}{unit}"
    return f"{whole}.{fraction:0{len(str(_PER_SECOND[unit])) - 1}d}" if fraction else whole
