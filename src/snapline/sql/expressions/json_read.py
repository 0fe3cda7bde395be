"""`from_json`: values of a given type from JSON texts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.interval_casts import refuse_intervals
from snapline.sql.expressions.json_columns import is_plain, read_objects
from snapline.sql.expressions.json_documents import Json, JsonError, Number, members, parsed
from snapline.sql.expressions.json_times import TimeTexts
from snapline.sql.expressions.json_write import json_text
from snapline.sql.expressions.registry import Kernel, SparkError, UnsupportedError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

Converter: TypeAlias = Callable[[Json], Any]
"""Turns a JSON value that is not null into one of a type. Raises `_MismatchError`."""

_KNOWN_OPTIONS: Final = frozenset(
    {"mode", "columnnameofcorruptrecord", "timezone", "dateformat", "timestampformat", "timestampntzformat"}
)
_UNREADABLE: Final = object()


class _MismatchError(Exception):
    """A value is not of the type; `partial` is what could be read of it."""

    def __init__(self, partial: Any = _UNREADABLE) -> None:
        super().__init__()
        self.partial = partial


@kernel("JsonToStructs")
def _from_json(expression: Expression) -> Kernel:
    options = {str(key).lower(): value for key, value in expression.arguments.get("options", {}).items()}
    if unknown := set(options) - _KNOWN_OPTIONS:
        raise UnsupportedError(f"the options {sorted(unknown)} of from_json are not supported: {expression.text}")
    refuse_intervals(expression, "from_json")
    mode = options.get("mode", "PERMISSIVE").upper()
    corrupt = options.get("columnnameofcorruptrecord", "_corrupt_record")
    times = TimeTexts(options.get("timezone") or expression.arguments.get("timeZoneId") or "UTC", options)
    type = expression.type
    if pa.types.is_struct(type):
        names = [type.field(n).name for n in range(type.num_fields) if type.field(n).name != corrupt]
        convert = _struct({name: _converter(type.field(name).type, times) for name in names})
        nothing: Any = {}
        has_corrupt = len(names) < type.num_fields
    else:
        convert = _root(type, _converter(type, times))
        nothing, has_corrupt = None, False

    def read(text: str) -> Any:
        if not text.strip(" \t\r\n"):
            return None
        try:
            return convert(parsed(text))
        except (_MismatchError, JsonError) as error:
            if mode == "FAILFAST":
                message = f"Malformed records are detected in record parsing: {text}."
                raise SparkError(f"MALFORMED_RECORD_IN_PARSING.{_reason(text, type)}", message) from error
            partial: Any = error.partial if isinstance(error, _MismatchError) else _UNREADABLE
            result = nothing if partial is _UNREADABLE else partial
            return {**result, corrupt: text} if has_corrupt else result

    by_row = rowwise(read, type)
    if not pa.types.is_struct(type) or not is_plain(times.as_text(type)) or has_corrupt:
        return by_row

    def run(values: Sequence[Value], rows: int) -> Value:
        found = read_objects(values[0], times.as_text(type)) if isinstance(values[0], pa.Array) else None
        if found is not None:
            found = times.from_text(found, type)
        return by_row(values, rows) if found is None else found

    return run


def _reason(text: str, type: pa.DataType) -> str:
    """The last part of the error for a text that has not this type."""
    if pa.types.is_struct(type) and text.lstrip(" \t\r\n").startswith("["):
        return "CANNOT_PARSE_JSON_ARRAYS_AS_STRUCTS"
    return "WITHOUT_SUGGESTION"


def _root(type: pa.DataType, convert: Converter) -> Converter:
    """One object stands for an array with it."""
    if not pa.types.is_list(type) or not pa.types.is_struct(type.value_type):
        return convert
    return lambda value: convert([value] if isinstance(value, dict) else value)


def _struct(fields: dict[str, Converter]) -> Converter:
    def convert(value: Json) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _MismatchError
        result: dict[str, Any] = {}
        is_whole = True
        for name, of_field in fields.items():
            given = value.get(name)
            if given is None:
                continue
            try:
                result[name] = of_field(given)
            except _MismatchError as error:
                is_whole = False
                if error.partial is not _UNREADABLE:
                    result[name] = error.partial
        if not is_whole:
            raise _MismatchError(result)
        return result

    return convert


def _list(of_element: Converter) -> Converter:
    def convert(value: Json) -> list[Any]:
        if not isinstance(value, list):
            raise _MismatchError
        result: list[Any] = []
        is_whole = True
        for element in value:
            try:
                result.append(None if element is None else of_element(element))
            except _MismatchError as error:
                if error.partial is _UNREADABLE:
                    raise
                is_whole = False
                result.append(error.partial)
        if not is_whole:
            raise _MismatchError(result)
        return result

    return convert


def _map(of_item: Converter) -> Converter:
    def convert(value: Json) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _MismatchError
        result: list[tuple[str, Any]] = []
        is_whole = True
        for key, item in members(value):
            try:
                result.append((key, None if item is None else of_item(item)))
            except _MismatchError as error:
                if error.partial is _UNREADABLE:
                    raise
                is_whole = False
                result.append((key, error.partial))
        if not is_whole:
            raise _MismatchError(result)
        return result

    return convert


def _converter(type: pa.DataType, times: TimeTexts) -> Converter:
    if pa.types.is_struct(type):
        fields = [type.field(n) for n in range(type.num_fields)]
        return _struct({field.name: _converter(field.type, times) for field in fields})
    if pa.types.is_list(type):
        return _list(_converter(type.value_type, times))
    if pa.types.is_map(type):
        if not pa.types.is_string(type.key_type):
            raise UnsupportedError(f"from_json to {type} is not supported: keys must be strings")
        return _map(_converter(type.item_type, times))
    if pa.types.is_integer(type):
        return _integer(type.bit_width)
    if pa.types.is_decimal(type):
        return _decimal(type)
    if pa.types.is_timestamp(type) or pa.types.is_date32(type):
        return _time(type, times)
    for test, convert in _SIMPLE:
        if test(type):
            return convert
    raise UnsupportedError(f"from_json to {type} is not supported")


def _string(value: Json) -> str:
    return value if isinstance(value, str) and not isinstance(value, Number) else json_text(value)


def _boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise _MismatchError
    return value


def _integer(bits: int) -> Converter:
    def convert(value: Json) -> int:
        if not isinstance(value, Number) or not value.is_integer or len(value) > 25:
            raise _MismatchError
        number = int(value)
        if bits == 8 and 128 <= number < 256:
            return number - 256  # Jackson takes unsigned bytes, too.
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise _MismatchError
        return number

    return convert


_SPECIAL: Final = {
    "NaN": float("nan"),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity", "INF"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}


def _double(value: Json) -> float:
    if not isinstance(value, str):
        raise _MismatchError
    if value in _SPECIAL and (value != "INF" or isinstance(value, Number)):
        return _SPECIAL[value]
    if not isinstance(value, Number):
        raise _MismatchError
    return float(int(value)) if value.is_integer and len(value) < 300 else float(value)


def _single(value: Json) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(_double(value)))


def _decimal(type: pa.DataType) -> Converter:
    unit = Decimal(1).scaleb(-type.scale)

    def convert(value: Json) -> Decimal:
        if not isinstance(value, str):
            raise _MismatchError
        text = str(value) if isinstance(value, Number) else value.replace(",", "")
        try:
            with localcontext(prec=80, rounding=ROUND_HALF_UP):
                number = Decimal(text).quantize(unit)
        except ArithmeticError as error:
            raise _MismatchError from error
        if not number.is_finite() or (number and number.adjusted() >= type.precision - type.scale):
            raise _MismatchError
        return number

    return convert


def _found(value: int | None) -> int:
    if value is None:
        raise _MismatchError
    return value


def _text_of(value: Json) -> str:
    if isinstance(value, Number) or not isinstance(value, str) or not value:
        raise _MismatchError
    return value


_seconds = _integer(64)


def _time(type: pa.DataType, times: TimeTexts) -> Converter:
    is_instant = pa.types.is_timestamp(type) and type.tz is not None

    def convert(value: Json) -> int:
        if is_instant and isinstance(value, Number) and value.is_integer:
            seconds: int = _seconds(value)
            # The product wraps as Java's does.
            return (seconds * 1_000_000 + 2**63) % 2**64 - 2**63
        return _found(times.value(_text_of(value), type))

    return convert


def _binary(value: Json) -> bytes:
    if isinstance(value, Number) or not isinstance(value, str):
        raise _MismatchError
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise _MismatchError from error


_SIMPLE: Final[tuple[tuple[Callable[[pa.DataType], bool], Converter], ...]] = (
    (pa.types.is_string, _string),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_float64, _double),
    (pa.types.is_float32, _single),
    (pa.types.is_binary, _binary),
)
