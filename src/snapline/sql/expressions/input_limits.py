"""Inputs that need care: text that is no UTF-8, and times near the ends of their types.

Text comes from bytes with `CAST(... AS STRING)`, unchecked. Functions that Spark computes on bytes take it as it is;
for those that Spark computes on Java's strings, what is no UTF-8 is replaced as Java does; the others refuse it. Times
more than 290,000 years away are refused by functions of the calendar, since Spark's arithmetic overflows near the ends
of the types in ways of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.java_text import java_text
from snapline.sql.expressions.registry import Kernel, UnsupportedError
from snapline.sql.plans.trees import Expression

_Check: TypeAlias = Callable[[Value, int], Value]

_ON_BYTES: Final = frozenset(
    {
        *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "In"),
        *("Greatest", "Least", "Concat", "ConcatWs", "Hex", "OctetLength", "BitLength", "Murmur3Hash", "XxHash64"),
        *("IsValidUTF8", "MakeValidUTF8", "ValidateUTF8", "TryValidateUTF8", "Contains", "StartsWith", "EndsWith"),
        *("CreateArray", "CreateMap", "CreateNamedStruct", "StringRepeat", "IsNull", "IsNotNull", "StringReplace"),
        *("ArrayContains", "ElementAt", "GetMapValue", "GetArrayItem", "GetStructField", "NullIf", "AtLeastNNonNulls"),
        *("Size", "ArrayDistinct", "MapKeys", "MapValues", "ArraysOverlap", "ArrayPosition", "Md5", "Sha1", "Sha2"),
    }
)
_ON_JAVA_TEXT: Final = frozenset(
    {
        *("RLike", "RegExpReplace", "RegExpExtract", "RegExpExtractAll", "RegExpCount", "RegExpInStr", "RegExpSubStr"),
        *("Like", "ILike", "LikeAll", "LikeAny", "NotLikeAll", "NotLikeAny", "StringSplit", "StringSplitSQL"),
        *("FormatString", "JsonToStructs", "GetJsonObject", "StructsToJson", "Encode", "StringToMap", "SplitPart"),
        *("UrlEncode", "UrlDecode", "ParseUrl", "TryParseUrl", "TryUrlDecode", "CsvToStructs", "GetTimestamp"),
        *("LengthOfJsonArray", "JsonObjectKeys", "ToNumber", "TryToNumber", "UnixTimestamp", "ToUnixTimestamp"),
    }
)

_CALENDAR_US: Final = 9_150_000_000_000_000_000
_CALENDAR_DAYS: Final = _CALENDAR_US // 86_400_000_000
_ON_NUMBERS: Final = frozenset(
    {
        *_ON_BYTES,
        *("UnixSeconds", "UnixMillis", "UnixMicros", "UnixDate", "DateFromUnixDate", "PreciseTimestampConversion"),
        *("DateAdd", "DateSub", "DateDiff", "FromUTCTimestamp", "ToUTCTimestamp", "ConvertTimezone"),
    }
)

_READ_ELEMENTS: Final = frozenset({"Cast", "StructsToJson", "StructsToCsv"})
"""Functions that read the times inside arrays, maps and structs."""


def limited(expression: Expression, compute: Kernel) -> Kernel:
    """The kernel behind checks of those arguments that need one."""
    checks: dict[int, _Check] = {}
    for number, child in enumerate(expression.children):
        found = _check(expression, child)
        if found is not None:
            checks[number] = found
    if not checks:
        return compute

    def run(values: Sequence[Value], rows: int) -> Value:
        checked = [checks[number](value, rows) if number in checks else value for number, value in enumerate(values)]
        return compute(checked, rows)

    return run


def _check(expression: Expression, child: Expression) -> _Check | None:
    is_read = not pa.types.is_nested(child.type) or expression.kind in _READ_ELEMENTS
    if is_read and _holds_times(child.type) and not _is_on_numbers(expression):
        return lambda value, _rows: within_calendar(value, expression)
    if _holds_text(child.type) and expression.kind not in _ON_BYTES and _holds_bytes(child):
        return lambda value, rows: _utf8(value, rows, expression)
    return None


def _holds(type: pa.DataType, is_held: Callable[[pa.DataType], bool]) -> bool:
    """Whether the type, or one inside of it, is such a one."""
    if pa.types.is_nested(type):
        return any(_holds(type.field(number).type, is_held) for number in range(type.num_fields))
    return bool(is_held(type))


def _holds_text(type: pa.DataType) -> bool:
    return _holds(type, pa.types.is_string)


def _is_on_numbers(expression: Expression) -> bool:
    if expression.kind == "Cast":
        return bool(pa.types.is_integer(expression.type) or pa.types.is_floating(expression.type))
    return expression.kind in _ON_NUMBERS


def _holds_times(type: pa.DataType) -> bool:
    return _holds(type, lambda each: pa.types.is_timestamp(each) or pa.types.is_date32(each))


def within_calendar(value: Value, expression: Expression) -> Value:
    """The value itself. Raises `UnsupportedError` if one of its dates or timestamps is too far away."""
    for times in _times(as_array(value, 1)):
        size, limit = (pa.int32(), _CALENDAR_DAYS) if pa.types.is_date32(times.type) else (pa.int64(), _CALENDAR_US)
        ends = pc.min_max(times.view(size))
        lowest, highest = ends["min"].as_py(), ends["max"].as_py()
        if lowest is not None and (lowest < -limit or highest > limit):
            raise UnsupportedError(
                f"dates and timestamps more than 290,000 years away are not supported: {expression.text}; "
                "filter them out first"
            )
    return value


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """The dates and timestamps that an array holds."""
    if pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from _times(field)
    elif pa.types.is_map(array.type):
        yield from _times(array.keys)
        yield from _times(array.items)
    elif pa.types.is_list(array.type):
        yield from _times(array.values)
    elif _holds_times(array.type):
        yield array


def _holds_bytes(expression: Expression) -> bool:
    """Whether its text may come from bytes that nothing has checked."""
    return any(
        each.kind == "Cast" and _holds_text(each.type) and _holds(each.children[0].type, pa.types.is_binary)
        for each in expression.walk()
    )


def _utf8(value: Value, rows: int, expression: Expression) -> Value:
    array = as_array(value, 1) if isinstance(value, pa.Scalar) else as_array(value, rows)
    if _is_utf8(array):
        return value
    reads_java = expression.kind in _ON_JAVA_TEXT or (
        expression.kind == "Cast" and not pa.types.is_binary(expression.type)
    )
    if reads_java and pa.types.is_string(array.type):
        replaced = pa.array([None if b is None else java_text(b) for b in array.view(pa.binary()).to_pylist()])
        return replaced[0] if isinstance(value, pa.Scalar) else replaced
    raise UnsupportedError(
        f"{expression.kind} of text that is no UTF-8 is not supported: {expression.text}; write "
        "make_valid_utf8(...) around the text"
    )


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
