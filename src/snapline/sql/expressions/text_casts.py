"""Casts to text."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.cast_rules import CastRules, Converter
from snapline.sql.expressions.datetime_casts import micros
from snapline.sql.expressions.datetime_text import date_texts, timestamp_texts
from snapline.sql.expressions.number_text import number_texts
from snapline.sql.expressions.values import valid

_MINUTE_US = 60_000_000
_HOUR_US = 60 * _MINUTE_US


def to_text(source: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to `string`, or None if there is none."""
    if pa.types.is_string(source):
        return lambda array: array
    if pa.types.is_null(source):
        return lambda array: pa.nulls(len(array), pa.string())
    if pa.types.is_boolean(source):
        return lambda array: pc.cast(array, pa.string())
    if pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_decimal(source):
        return lambda array: number_texts(array, plain_decimals=not rules.legacy)
    if pa.types.is_date32(source):
        return date_texts
    if pa.types.is_timestamp(source) and source.tz:
        return lambda array: timestamp_texts(rules.zone.local(micros(array)), valid(array))
    if pa.types.is_timestamp(source):
        return lambda array: timestamp_texts(micros(array), valid(array))
    if pa.types.is_binary(source):
        return lambda array: array.view(pa.string())
    if pa.types.is_interval(source):
        return lambda array: pa.array(
            [None if each is None else _interval(each) for each in array.to_pylist()], pa.string()
        )
    return _nested(source, rules)


def _interval(parts: pa.MonthDayNano) -> str:
    """A calendar interval, each unit with its own sign: `1 years -2 days 3.5 seconds`."""
    micros = parts.nanoseconds // 1000
    amounts = {
        "years": _quotient(parts.months, 12),
        "months": math.fmod(parts.months, 12),
        "days": parts.days,
        "hours": _quotient(micros, _HOUR_US),
        "minutes": _quotient(micros - _quotient(micros, _HOUR_US) * _HOUR_US, _MINUTE_US),
    }
    texts = [f"{int(amount)} {unit}" for unit, amount in amounts.items() if amount]
    seconds = Decimal(micros - _quotient(micros, _MINUTE_US) * _MINUTE_US).scaleb(-6).normalize()
    if seconds or not texts:
        texts.append(f"{seconds + 0:f} seconds")
    return " ".join(texts)


def _quotient(amount: int, unit: int) -> int:
    return abs(amount) // unit * (1 if amount >= 0 else -1)


def _nested(source: pa.DataType, rules: CastRules) -> Converter | None:
    if pa.types.is_map(source):
        return _maps(source, rules)
    if pa.types.is_list(source):
        return _lists(source, rules)
    if pa.types.is_struct(source):
        return _structs(source, rules)
    return None


def _texts(array: pa.Array) -> list[bytes]:
    """The texts as bytes, which need not be UTF-8: Spark takes them as they are."""
    return [b"null" if text is None else text for text in array.cast(pa.binary()).to_pylist()]


def _as_text(rows: list[bytes | None]) -> pa.Array:
    return pa.array(rows, pa.binary()).view(pa.string())


def _lists(source: pa.DataType, rules: CastRules) -> Converter | None:
    element = to_text(source.value_type, rules)
    if element is None:
        return None

    def convert(array: pa.Array) -> pa.Array:
        texts = iter(_texts(element(pc.list_flatten(array))))
        lengths = pc.list_value_length(array).to_pylist()
        return _as_text([None if n is None else b"[%b]" % b", ".join(islice(texts, n)) for n in lengths])

    return convert


def _maps(source: pa.DataType, rules: CastRules) -> Converter | None:
    key, item = to_text(source.key_type, rules), to_text(source.item_type, rules)
    if key is None or item is None:
        return None

    def convert(array: pa.Array) -> pa.Array:
        offsets = array.offsets.to_pylist()
        keys, items = _texts(key(array.keys)), _texts(item(array.items))
        rows: list[bytes | None] = []
        for there, start, end in zip(valid(array), offsets[:-1], offsets[1:], strict=True):
            pairs = b", ".join(b"%b -> %b" % (keys[at], items[at]) for at in range(start, end))
            rows.append(b"{%b}" % pairs if there else None)
        return _as_text(rows)

    return convert


def _structs(source: pa.DataType, rules: CastRules) -> Converter | None:
    fields = [to_text(field.type, rules) for field in source]
    known = [field for field in fields if field is not None]
    if len(known) < len(fields):
        return None

    def convert(array: pa.Array) -> pa.Array:
        columns = [_texts(field(child)) for field, child in zip(known, array.flatten(), strict=True)]
        rows = [b", ".join(texts) for texts in zip(*columns, strict=True)] if columns else [b""] * len(array)
        return _as_text([b"{%b}" % text if there else None for text, there in zip(rows, valid(array), strict=True)])

    return convert
