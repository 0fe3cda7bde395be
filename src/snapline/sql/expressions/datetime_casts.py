"""Casts to dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions import datetime_strings, unscaled
from snapline.sql.expressions.cast_rules import CastRules, Converter
from snapline.sql.expressions.number_casts import saturated
from snapline.sql.expressions.values import numbers, valid, with_nulls
from snapline.sql.expressions.zone_offsets import Times

_SECOND_US = 1_000_000
_DIGITS = 34
_DAY_US = 86_400_000_000
_HIGHEST_S = (2**63 - 1) // _SECOND_US
_PLAIN_DATE = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_PLAIN_DAY_AND_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]*$"
_PLAIN_TIMESTAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,6})?$"
_ZONED = pa.timestamp("us", "UTC")
_LOCAL = pa.timestamp("us")


def micros(array: pa.Array) -> Times:
    """Timestamps as microseconds, zero for nulls."""
    return numbers(array.view(pa.int64()))


def to_date(source: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to `date`, or None if there is none."""
    if pa.types.is_string(source):
        return lambda array: _dates_from_texts(array, rules)
    if source == _ZONED:
        return lambda array: _dates(rules.zone.local(micros(array)), array)
    if source == _LOCAL:
        return lambda array: _dates(micros(array), array)
    return None


def _dates_from_texts(array: pa.Array, rules: CastRules) -> pa.Array:
    if pc.all(pc.match_substring_regex(array, _PLAIN_DAY_AND_TIME)).as_py() is True:
        array = pc.utf8_slice_codeunits(array, 0, 10)
    return _parsed(array, _PLAIN_DATE, datetime_strings.date_days, pa.date32(), rules)


def _dates(local: Times, array: pa.Array) -> pa.Array:
    return with_nulls((local // _DAY_US).astype(np.int32), valid(array), pa.int32()).view(pa.date32())


def _parsed(
    array: pa.Array, plain: str, parse: Callable[[str], Any], target: pa.DataType, rules: CastRules
) -> pa.Array:
    if pc.all(pc.match_substring_regex(array, plain)).as_py() is not False:
        try:
            return pc.cast(array, target)
        except pa.ArrowInvalid:
            # One of them is no day of the calendar, which the exact way tells.
            pass
    return rules.parsed(array, parse, target)


def to_timestamp(source: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to `timestamp`, or None if there is none."""
    if pa.types.is_string(source):
        return lambda array: _timestamps_from_texts(array, rules)
    if pa.types.is_date32(source):
        return lambda array: _zoned(rules.zone.utc(_midnights(array)), array)
    if source == _LOCAL:
        return lambda array: _zoned(rules.zone.utc(micros(array)), array)
    if pa.types.is_boolean(source):
        return lambda array: _zoned(numbers(array, False).astype(np.int64), array)
    if pa.types.is_integer(source):
        return lambda array: _zoned(_from_seconds(numbers(array).astype(np.int64)), array)
    if pa.types.is_floating(source):
        return lambda array: _timestamps_from_doubles(array, rules)
    if pa.types.is_decimal(source):
        return _timestamps_from_decimals
    return None


def _zoned(utc: Times, array: pa.Array) -> pa.Array:
    return with_nulls(utc, valid(array), pa.int64()).view(_ZONED)


def _midnights(array: pa.Array) -> Times:
    return numbers(array.view(pa.int32())).astype(np.int64) * _DAY_US


def _timestamps_from_texts(array: pa.Array, rules: CastRules) -> pa.Array:
    if pc.all(pc.match_substring_regex(array, _PLAIN_TIMESTAMP)).as_py() is not False:
        try:
            return _zoned(rules.zone.utc(micros(pc.cast(array, _LOCAL))), array)
        except pa.ArrowInvalid:
            # One of them is no time of the calendar, which the exact way tells.
            pass
    zone = rules.zone
    return rules.parsed(array, lambda text: datetime_strings.timestamp_us(text, zone), _ZONED)


def _from_seconds(seconds: Times) -> Times:
    """Microseconds; what does not fit becomes the highest or lowest there is."""
    inside = (seconds <= _HIGHEST_S) & (seconds >= -_HIGHEST_S)
    extreme = np.where(seconds > 0, 2**63 - 1, -(2**63))
    return np.where(inside, np.where(inside, seconds, 0) * _SECOND_US, extreme)


def _timestamps_from_doubles(array: pa.Array, rules: CastRules) -> pa.Array:
    values = numbers(array, 0.0).astype(np.float64)
    there = rules.without(~np.isfinite(values), valid(array), "CAST_INVALID_INPUT", _ZONED)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = values * 1e6
    if not rules.legacy:
        there = rules.without(
            ~((np.floor(moved) <= 2.0**63) & (np.ceil(moved) >= -(2.0**63))), there, "CAST_OVERFLOW", _ZONED
        )
    return with_nulls(saturated(moved, 64).astype(np.int64), there, pa.int64()).view(_ZONED)


def _short(value: int) -> int:
    """Rounded to as many digits as Spark computes with."""
    excess = len(str(value)) - _DIGITS
    return value if excess <= 0 else round(value, -excess)


def _timestamps_from_decimals(array: pa.Array) -> pa.Array:
    digits = unscaled.wide(unscaled.digits(array))
    scale = array.type.scale
    moved = np.array([_short(int(value)) for value in np.abs(digits) * _SECOND_US], object) // 10**scale
    signed = np.where(digits < 0, -moved, moved)
    wrapped = np.array([(int(value) + 2**63) % 2**64 - 2**63 for value in signed], np.int64)
    return _zoned(wrapped, array)


def to_local_timestamp(source: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to `timestamp_ntz`, or None if there is none."""
    if pa.types.is_string(source):
        parse = datetime_strings.local_timestamp_us
        return lambda array: _parsed(array, _PLAIN_TIMESTAMP, parse, _LOCAL, rules)
    if pa.types.is_date32(source):
        return lambda array: with_nulls(_midnights(array), valid(array), pa.int64()).view(_LOCAL)
    if source == _ZONED:
        return lambda array: with_nulls(rules.zone.local(micros(array)), valid(array), pa.int64()).view(_LOCAL)
    return None
