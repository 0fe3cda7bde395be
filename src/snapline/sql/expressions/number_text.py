"""Numbers as Java writes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.java_digits import double_digits, float_digits
from snapline.sql.expressions.values import each, numbers

_PLAIN_PLACES = 6
"""Decimals with no more places than this are never written with an exponent."""


def double_text(value: float) -> str:
    """A double as Java 17 writes it."""
    return _written(value, double_digits)


def float_text(value: float) -> str:
    """A single-precision number, given as a double."""
    return _written(value, float_digits)


def _written(value: float, digits_of: Callable[[float], tuple[str, int]]) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    minus = "-" if math.copysign(1.0, value) < 0 else ""
    if not value:
        return f"{minus}0.0"
    digits, point = digits_of(abs(value))
    if 0 < point < 8:
        return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    return f"{minus}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def decimal_text(value: Decimal, plain: bool) -> str:
    """A decimal; `plain` writes all zeros, otherwise very small ones have an exponent."""
    if plain:
        return f"{value:f}"
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    adjusted = len(digits) - 1 + exponent
    if exponent == 0 or adjusted >= -6:
        return f"{value:f}"
    written = "".join(map(str, digits))
    fraction = f".{written[1:]}" if len(written) > 1 else ""
    return f"{'-' if sign else ''}{written[0]}{fraction}E{adjusted}"


def number_texts(array: pa.Array, plain_decimals: bool) -> pa.Array:
    """The texts of an array of numbers."""
    type = array.type
    if pa.types.is_floating(type):
        return _floating_texts(array, double_text if pa.types.is_float64(type) else float_text)
    if pa.types.is_decimal(type) and type.scale > _PLAIN_PLACES:
        return each(array, lambda value: decimal_text(value, plain_decimals), pa.string())
    return pc.cast(array, pa.string())


def _floating_texts(array: pa.Array, text: Callable[[float], str]) -> pa.Array:
    """Arrow writes the digits of numbers of usual size as Java does, but whole ones without a fraction."""
    values = numbers(array, 0.0)
    sizes = np.abs(values)
    usual = ((sizes >= 1e-3) & (sizes < 1e7)) | (values == 0)
    written = pc.cast(array, pa.string())
    whole = usual & (values == np.floor(values))
    if whole.any():
        written = pc.if_else(pa.array(whole), pc.binary_join_element_wise(written, ".0", ""), written)
    if usual.all():
        return written
    others = pc.if_else(pa.array(usual), pa.scalar(None, array.type), array)
    return pc.coalesce(each(others, text, pa.string()), written)
