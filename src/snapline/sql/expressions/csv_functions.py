"""`from_csv` and `to_csv`: one line of comma-separated values as a struct and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.csv_columns import read_lines
from snapline.sql.expressions.datetime_strings import date_days, local_timestamp_us, timestamp_us
from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.interval_casts import refuse_intervals
from snapline.sql.expressions.json_times import TimeTexts
from snapline.sql.expressions.json_write import check_patterns, time_texts
from snapline.sql.expressions.number_strings import java_decimal, java_double
from snapline.sql.expressions.number_text import number_texts
from snapline.sql.expressions.registry import Kernel, SparkError, UnsupportedError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.expressions.zone_offsets import Zone, zone
from snapline.sql.plans.trees import Expression

Converter: TypeAlias = Callable[[str], Any]
"""Turns a value that is not empty into one of a type, None if it is none."""

_READ_OPTIONS: Final = frozenset({"mode", "sep", "delimiter", "timezone", "columnnameofcorruptrecord"})
_WRITE_OPTIONS: Final = frozenset(
    {"sep", "delimiter", "timezone", "dateformat", "timestampformat", "timestampntzformat"}
)
_BLANKS: Final = "".join(map(chr, range(33)))


def _options(expression: Expression, known: frozenset[str]) -> Mapping[str, str]:
    options = {str(key).lower(): value for key, value in expression.arguments.get("options", {}).items()}
    if unknown := set(options) - known:
        raise UnsupportedError(f"the options {sorted(unknown)} are not supported: {expression.text}")
    if len(_separator(options)) != 1:
        raise UnsupportedError(f"a separator of several characters is not supported: {expression.text}")
    return options


def _separator(options: Mapping[str, str]) -> str:
    return options.get("sep") or options.get("delimiter") or ","


def _session_name(expression: Expression, options: Mapping[str, str]) -> str:
    return options.get("timezone") or expression.arguments.get("timeZoneId") or "UTC"


@kernel("CsvToStructs")
def _from_csv(expression: Expression) -> Kernel:
    options = _options(expression, _READ_OPTIONS)
    refuse_intervals(expression, "from_csv")
    fails = options.get("mode", "PERMISSIVE").upper() == "FAILFAST"
    corrupt = options.get("columnnameofcorruptrecord", "_corrupt_record")
    session_name = _session_name(expression, options)
    session = zone(session_name)
    converters = {field.name: _converter(field.type, session) for field in expression.type if field.name != corrupt}
    tokens = tokenizer(_separator(options))

    def read(text: str) -> dict[str, Any]:
        given = tokens(text)
        result: dict[str, Any] = {}
        is_whole = len(given) == len(converters) or (not text and not fails)
        for (name, convert), token in zip(converters.items(), given, strict=False):
            result[name] = convert(token) if token else None
            is_whole = is_whole and (result[name] is not None or not token)
        if not is_whole and fails:
            message = f"Malformed records are detected in record parsing: {text}."
            raise SparkError("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", message)
        return result if is_whole else {**result, corrupt: text}

    by_row = rowwise(read, expression.type)
    if len(converters) < expression.type.num_fields:
        return by_row
    times = TimeTexts(session_name, {})

    def run(values: Sequence[Value], rows: int) -> Value:
        given = values[0]
        is_array = isinstance(given, pa.Array)
        found = read_lines(given, expression.type, _separator(options), times) if is_array else None
        return by_row(values, rows) if found is None else found

    return run


def tokenizer(separator: str) -> Callable[[str], list[str]]:
    """Takes a line apart. A quotation that does not end with its value is no quotation."""
    between = re.escape(separator)
    quoted = rf'"(?P<quoted>(?:[^"\\]|\\.)*)"(?={between}|\Z)'
    token = re.compile(rf"(?:{quoted}|(?P<plain>[^{between}]*))(?:{between}|\Z)", re.DOTALL)

    def tokens(text: str) -> list[str]:
        found = []
        position = 0
        while position <= len(text):
            match = token.match(text, position)
            assert match is not None
            inner = match["quoted"]
            found.append(match["plain"] if inner is None else inner.replace('\\"', '"'))
            if match.end() == len(text) and text[-1:] != separator:
                break
            position = match.end() if match.end() > position else position + 1
        return found

    return tokens


def _integer(bits: int) -> Converter:
    def convert(text: str) -> int | None:
        number = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
        return number if number is not None and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None

    return convert


def _decimal(type: pa.DataType) -> Converter:
    def convert(text: str) -> Decimal | None:
        given = java_decimal(text.replace(",", ""))
        if given is None:
            return None
        try:
            with localcontext(prec=80, rounding=ROUND_HALF_UP):
                number = given.quantize(Decimal(1).scaleb(-type.scale))
        except ArithmeticError:
            return None
        fits = not number or number.adjusted() < type.precision - type.scale
        return number if fits else None

    return convert


def _double(text: str) -> float | None:
    special = {"NaN": "nan", "Inf": "inf", "-Inf": "-inf"}.get(text)
    return float(special) if special else java_double(text)


def _single(text: str) -> float | None:
    value = _double(text)
    with np.errstate(over="ignore"):
        return None if value is None else float(np.float32(value))


def _converter(type: pa.DataType, session: Zone) -> Converter:
    if pa.types.is_string(type):
        return str
    if pa.types.is_integer(type):
        return _integer(type.bit_width)
    if pa.types.is_floating(type):
        return _double if pa.types.is_float64(type) else _single
    if pa.types.is_boolean(type):
        return lambda text: {"true": True, "false": False}.get(text.lower())
    if pa.types.is_decimal(type):
        return _decimal(type)
    if pa.types.is_date32(type):
        return date_days
    if pa.types.is_timestamp(type):
        return (lambda text: timestamp_us(text, session)) if type.tz else local_timestamp_us
    raise UnsupportedError(f"from_csv to {type} is not supported")


@kernel("StructsToCsv")
def _to_csv(expression: Expression) -> Kernel:
    options = _options(expression, _WRITE_OPTIONS)
    separator, session_name = _separator(options), _session_name(expression, options)
    check_patterns(options)
    written = rowwise(lambda text: quoted_value(text, separator), pa.string())
    refuse_intervals(expression.children[0], "to_csv")
    for field in expression.children[0].type:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or _is_interval(field.type):
            raise UnsupportedError(f"to_csv of {field.type} is not supported: {expression.text}")

    def run(values: Sequence[Value], rows: int) -> Value:
        if isinstance(values[0], pa.Scalar):
            return run([as_array(values[0], 1)], 1)[0]
        texts = []
        for array in values[0].flatten():
            found = array if pa.types.is_string(array.type) else _texts(array, options, session_name)
            texts.append(pc.fill_null(as_array(written([found], rows), rows), ""))
        joined = pc.binary_join_element_wise(*texts, separator)
        if len(texts) == 1:
            joined = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
        return pc.if_else(values[0].is_valid(), joined, pa.scalar(None, pa.string()))

    return run


def _is_interval(type: pa.DataType) -> bool:
    return bool(pa.types.is_interval(type) or pa.types.is_duration(type) or pa.types.is_time(type))


def _texts(array: pa.Array, options: Mapping[str, str], session_name: str) -> pa.Array:
    if pa.types.is_null(array.type) or pa.types.is_boolean(array.type):
        return array.cast(pa.string())
    if pa.types.is_date32(array.type) or pa.types.is_timestamp(array.type):
        return time_texts(array, options, session_name)
    return number_texts(array, plain_decimals=False)


def quoted_value(text: str, separator: str) -> str:
    """A value as it stands in a line, without blanks around it, in quotation marks where it needs them."""
    stripped = text.strip(_BLANKS)
    if not stripped:
        return '""'
    if any(char in text.lstrip(_BLANKS) for char in (separator, '"', "\n", "\r")):
        return '"' + stripped.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return stripped
