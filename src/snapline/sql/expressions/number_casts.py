"""Casts to numbers and truth values."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions import number_strings, unscaled
from snapline.sql.expressions.cast_rules import CastRules, Converter
from snapline.sql.expressions.decimals import rounded
from snapline.sql.expressions.number_text import double_text
from snapline.sql.expressions.unscaled import Digits
from snapline.sql.expressions.values import numbers, valid, with_nulls

_SECOND_US = 1_000_000
_MOST_DIGITS = 38
_PLAIN_INTEGER = "^-?[0-9]{1,18}$"
_PLAIN_DECIMALS = {
    r"^-?[0-9]{1,12}(\.[0-9]{1,6})?$": pa.decimal128(18, 6),
    r"^-?[0-9]{1,19}(\.[0-9]{1,18})?$": pa.decimal128(38, 18),
}
"""Texts that Arrow reads as Spark does, those of 64 bits first."""
_PLAIN_DOUBLE = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"


def _all_match(array: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(array, pattern)).as_py() is not False)


def to_integer(source: pa.DataType, target: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to an integer type, or None if there is none."""
    if pa.types.is_string(source):
        return partial(_integers_from_texts, target=target, rules=rules)
    if pa.types.is_boolean(source):
        return lambda array: pc.cast(array, target)
    if pa.types.is_integer(source):
        return partial(_integers_from_integers, target=target, rules=rules)
    if pa.types.is_floating(source):
        return partial(_integers_from_floats, target=target, rules=rules)
    if pa.types.is_decimal(source):
        return partial(_integers_from_decimals, target=target, rules=rules)
    if pa.types.is_timestamp(source) and source.tz:
        # What does not fit is null even in legacy mode.
        strict = replace(rules, mode="TRY") if rules.legacy else rules
        return lambda array: _integers_from_integers(_seconds(array), target, strict)
    return None


def _seconds(array: pa.Array) -> pa.Array:
    return with_nulls(numbers(array.view(pa.int64())) // _SECOND_US, valid(array), pa.int64())


def _integers_from_texts(array: pa.Array, target: pa.DataType, rules: CastRules) -> pa.Array:
    bits = target.bit_width
    if _all_match(array, _PLAIN_INTEGER):
        wide = pc.cast(array, pa.int64())
        values = numbers(wide)
        limit = 1 << bits - 1
        there = (
            rules.without((values < -limit) | (values >= limit), valid(array), "CAST_INVALID_INPUT", target)
            if bits < 64
            else valid(array)
        )
        return with_nulls(values.astype(target.to_pandas_dtype()), there, target)
    return rules.parsed(array, lambda text: number_strings.integer(text, bits, truncates=rules.legacy), target)


def _integers_from_integers(array: pa.Array, target: pa.DataType, rules: CastRules) -> pa.Array:
    values = numbers(array)
    there = valid(array)
    narrow = values.astype(target.to_pandas_dtype())
    if not rules.legacy and target.bit_width < array.type.bit_width:
        there = rules.without(narrow != values, there, "CAST_OVERFLOW", target)
    return with_nulls(narrow, there, target)


def _integers_from_floats(array: pa.Array, target: pa.DataType, rules: CastRules) -> pa.Array:
    values = numbers(array, 0.0).astype(np.float64)
    there = valid(array)
    bits = target.bit_width
    if rules.legacy:
        wide = saturated(values, max(bits, 32))
        return with_nulls(wide.astype(target.to_pandas_dtype()), there, target)
    limit = float(1 << bits - 1)
    top = limit if bits == 64 else limit - 1
    with np.errstate(invalid="ignore"):
        fits = (np.floor(values) <= top) & (np.ceil(values) >= -limit)
    there = rules.without(~fits, there, "CAST_OVERFLOW", target)
    return with_nulls(saturated(values, bits).astype(target.to_pandas_dtype()), there, target)


def saturated(values: Any, bits: int) -> Any:
    """Doubles as integers with the given number of bits: truncated; too large becomes the largest, NaN zero."""
    limit = float(1 << bits - 1)
    with np.errstate(invalid="ignore"):
        inside = (values < limit) & (values >= -limit)
        whole = np.where(inside, values, 0.0).astype(np.int64)
    highest, lowest = (1 << bits - 1) - 1, -(1 << bits - 1)
    return np.where(inside, whole, np.where(values >= limit, highest, np.where(values < -limit, lowest, 0)))


def _integers_from_decimals(array: pa.Array, target: pa.DataType, rules: CastRules) -> pa.Array:
    values = unscaled.digits(array)
    there = valid(array)
    factor = 10**array.type.scale
    if factor > 1:
        if factor >= 2**63 or unscaled.magnitude(values) >= 2**62:
            values = unscaled.wide(values)
        magnitudes = np.abs(values) // factor
        values = np.where(values < 0, -magnitudes, magnitudes)
    limit = 1 << target.bit_width - 1
    if not rules.legacy:
        there = rules.without(
            np.asarray((values < -limit) | (values > limit - 1), np.bool_), there, "CAST_OVERFLOW", target
        )
    if values.dtype == object:
        values = np.array([(int(value) + 2**63) % 2**64 - 2**63 for value in values], np.int64)
    return with_nulls(values.astype(target.to_pandas_dtype()), there, target)


def to_floating(source: pa.DataType, target: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to `float` or `double`, or None if there is none."""
    if pa.types.is_string(source):
        return partial(_floats_from_texts, target=target, rules=rules)
    if pa.types.is_boolean(source):
        return lambda array: pc.cast(pc.cast(array, pa.int8()), target)
    if pa.types.is_integer(source) or pa.types.is_floating(source):
        return lambda array: _floats(numbers(array), array, target)
    if pa.types.is_decimal(source):
        return partial(_floats_from_decimals, target=target)
    if pa.types.is_timestamp(source) and source.tz:
        return lambda array: _floats(timestamp_doubles(array), array, target)
    return None


def timestamp_doubles(array: pa.Array) -> Any:
    """Timestamps as seconds since 1970, zero for nulls."""
    return numbers(array.view(pa.int64())) / 1e6


def _floats(values: Any, array: pa.Array, target: pa.DataType) -> pa.Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return with_nulls(values.astype(target.to_pandas_dtype()), valid(array), target)


def _floats_from_texts(array: pa.Array, target: pa.DataType, rules: CastRules) -> pa.Array:
    if _all_match(array, _PLAIN_DOUBLE):
        return pc.cast(array, target)
    doubles = rules.parsed(array, number_strings.double, pa.float64())
    return doubles if target == pa.float64() else _floats(numbers(doubles, 0.0), doubles, target)


def _floats_from_decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    values = unscaled.digits(array)
    scale = array.type.scale
    if values.dtype != object and scale <= 22 and unscaled.magnitude(values) < 2**53:
        return _floats(values / 10.0**scale, array, target)
    factor = 10**scale
    return _floats(np.array([int(value) / factor for value in values], np.float64), array, target)


def to_decimal(source: pa.DataType, target: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to a decimal type, or None if there is none."""
    raises = rules.mode == "ANSI"

    def exact(values: Digits, scale: int, array: pa.Array) -> pa.Array:
        return rounded(values, scale, valid(array), target, raises)

    if pa.types.is_string(source):
        return partial(_decimals_from_texts, target=target, rules=rules)
    if pa.types.is_boolean(source):
        return lambda array: exact(numbers(array, False).astype(np.int64), 0, array)
    if pa.types.is_integer(source):
        return lambda array: exact(numbers(array).astype(np.int64), 0, array)
    if pa.types.is_decimal(source):
        return lambda array: exact(unscaled.digits(array), source.scale, array)
    if pa.types.is_floating(source):
        return lambda array: _decimals_from_doubles(_floats(numbers(array, 0.0), array, pa.float64()), target, raises)
    if pa.types.is_timestamp(source) and source.tz:
        return lambda array: exact(numbers(array.view(pa.int64())), 6, array)
    return None


def scaled(value: Decimal, scale: int) -> int:
    """The digits of a decimal at a scale, rounded half up."""
    sign, written, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, written)) or "0")
    places = exponent + scale
    if places >= 0:
        number = number * 10 ** min(places, 400)
    elif -places > len(written):
        number = 0
    else:
        factor = 10**-places
        number = (2 * number + factor) // (2 * factor)
    return -number if sign else number


def _decimals_from_doubles(array: pa.Array, target: pa.DataType, raises: bool) -> pa.Array:
    values = numbers(array, 0.0)
    finite = valid(array) & np.isfinite(values)
    whole, doubtful = unscaled.nearest(np.where(finite, values, 0.0), target.scale)
    digits: Digits = np.where(doubtful, 0.0, np.copysign(whole, values)).astype(np.int64)
    if doubtful.any():
        digits = unscaled.wide(digits)
        for row in np.flatnonzero(doubtful):
            digits[row] = scaled(Decimal(double_text(float(values[row]))), target.scale)
    return rounded(digits, target.scale, finite, target, raises)


def _decimals_from_texts(array: pa.Array, target: pa.DataType, rules: CastRules) -> pa.Array:
    for pattern, type in _PLAIN_DECIMALS.items():
        if _all_match(array, pattern):
            whole = unscaled.digits(pc.cast(array, type))
            return rounded(whole, type.scale, valid(array), target, raises=rules.mode == "ANSI")
    found = {text: number_strings.decimal(text) for text in array.unique().to_pylist() if text is not None}
    values = [None if text is None else found[text] for text in array.to_pylist()]
    there = rules.without(
        np.array([value is None for value in values], np.bool_), valid(array), "CAST_INVALID_INPUT", target
    )
    huge = np.array([value is not None and value.adjusted() >= _MOST_DIGITS for value in values], np.bool_)
    there = rules.without(huge, there, "NUMERIC_OUT_OF_SUPPORTED_RANGE", target)
    digits = [
        scaled(value, target.scale) if value is not None and fits else 0
        for value, fits in zip(values, there, strict=True)
    ]
    return rounded(np.array(digits, object), target.scale, there, target, raises=rules.mode == "ANSI")


def to_boolean(source: pa.DataType, rules: CastRules) -> Converter | None:
    """The cast to `boolean`, or None if there is none."""
    if pa.types.is_string(source):
        return lambda array: rules.parsed(array, number_strings.boolean, pa.bool_())
    if pa.types.is_timestamp(source) and source.tz:
        return lambda array: with_nulls(numbers(array.view(pa.int64())) != 0, valid(array), pa.bool_())
    if pa.types.is_decimal(source):
        return lambda array: with_nulls(np.asarray(unscaled.digits(array) != 0, np.bool_), valid(array), pa.bool_())
    if pa.types.is_integer(source) or pa.types.is_floating(source):
        return lambda array: with_nulls(numbers(array) != 0, valid(array), pa.bool_())
    return None
