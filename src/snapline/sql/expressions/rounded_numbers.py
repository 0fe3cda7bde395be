"""Rounding of numbers to decimal places."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.sql.expressions import unscaled
from snapline.sql.expressions.decimals import rounded
from snapline.sql.expressions.number_casts import saturated
from snapline.sql.expressions.number_text import double_text
from snapline.sql.expressions.registry import Kernel, SparkError, UnsupportedError, kernel
from snapline.sql.expressions.spark_errors import raise_out_of_range
from snapline.sql.expressions.unscaled import Digits
from snapline.sql.expressions.values import numbers, of_arrays, valid, with_nulls
from snapline.sql.plans.trees import Expression

_CONTEXT = Context(prec=800)
_MODES = {"Round": "half up", "BRound": "half even", "RoundCeil": "up", "RoundFloor": "down"}


def _whole(values: Digits, places: int, mode: str) -> Digits:
    """Digits without their last `places`, rounded."""
    factor = 10**places
    if values.dtype != object and factor >= 2**61:
        values = unscaled.wide(values)
    below = values // factor
    if mode == "down":
        return np.asarray(below)
    rest = values - below * factor
    if mode == "up":
        return np.asarray(below + (rest > 0))
    if mode == "half even":
        return np.asarray(below + ((2 * rest > factor) | ((2 * rest == factor) & (below % 2 == 1))))
    return np.asarray(below + ((2 * rest > factor) | ((2 * rest == factor) & (values >= 0))))


@kernel("Round", "BRound", "RoundCeil", "RoundFloor")
def _round(expression: Expression) -> Kernel:
    child, places = expression.children
    while places.kind == "Cast":
        places = places.children[0]
    if places.kind not in ("Literal", "UnaryMinus"):
        raise UnsupportedError(f"the scale must be a literal: {expression.text}")
    scale = _constant(places)
    if scale is None:
        return lambda _values, _rows: pa.scalar(None, expression.type)
    mode = _MODES[expression.kind]
    raises = bool(expression.arguments.get("ansiEnabled"))
    source, target = child.type, expression.type
    if pa.types.is_decimal(source):
        return _unary(lambda array: _decimals(array, scale, mode, target, raises))
    if pa.types.is_integer(source):
        if scale >= 0:
            return lambda values, _rows: values[0]
        return _unary(lambda array: _integers(array, -scale, mode, target, raises))
    return _unary(lambda array: _doubles(array, scale, mode == "half even", target))


def _constant(places: Expression) -> int | None:
    if places.kind == "UnaryMinus":
        inner = _constant(places.children[0])
        return None if inner is None else -inner
    value: int | None = places.arguments["value"]
    return value


def _unary(compute: Any) -> Kernel:
    return of_arrays(lambda array, _places: compute(array))


def _decimals(array: pa.Array, scale: int, mode: str, target: pa.DataType, raises: bool) -> pa.Array:
    values = unscaled.digits(array)
    given = array.type.scale
    if scale < given:
        values = unscaled.shifted(_whole(values, given - scale, mode), max(0, -scale))
        given = max(scale, 0)
    if scale < 0 and (valid(array) & unscaled.exceeds(values, target.precision)).any():
        raise_out_of_range(target, suggestion=False)
    return rounded(values, given, valid(array), target, raises)


def _integers(array: pa.Array, places: int, mode: str, target: pa.DataType, raises: bool) -> pa.Array:
    values = numbers(array).astype(np.int64)
    exact = unscaled.wide(_whole(unscaled.wide(values), places, mode)) * 10**places
    there = valid(array)
    limit = 1 << target.bit_width - 1
    if raises and (there & np.asarray((exact >= limit) | (exact < -limit), np.bool_)).any():
        raise SparkError("ARITHMETIC_OVERFLOW", "Overflow in round.")
    wrapped = np.array([(int(value) + 2**63) % 2**64 - 2**63 for value in exact], np.int64)
    return with_nulls(wrapped.astype(target.to_pandas_dtype()), there, target)


def _doubles(array: pa.Array, scale: int, half_even: bool, target: pa.DataType) -> pa.Array:
    values = numbers(array, 0.0).astype(np.float64)
    if -15 <= scale <= 15:
        with np.errstate(all="ignore"):
            result, doubtful = _quickly(values, scale)
    else:
        result, doubtful = values.copy(), np.isfinite(values)
    for row in np.flatnonzero(doubtful):
        result[row] = _exactly(float(values[row]), scale, half_even)
    with np.errstate(over="ignore"):
        return with_nulls(result.astype(target.to_pandas_dtype()), valid(array), target)


def _quickly(values: Any, scale: int) -> tuple[Any, Any]:
    """Rounded doubles, and where the result is in doubt."""
    whole, doubtful = unscaled.nearest(values, scale)
    factor = 10.0 ** abs(scale)
    back = whole / factor if scale >= 0 else whole * factor
    # A negative number that rounds to zero loses its sign.
    signed = np.where((values < 0) & (whole > 0), -back, back)
    finite = np.isfinite(values)
    return np.where(finite, signed, values), doubtful & finite


def _exactly(value: float, scale: int, half_even: bool) -> float:
    exact = Decimal(double_text(value))
    if scale > 350:
        return value + 0.0
    if scale < -310:
        return 0.0
    unit = Decimal(1).scaleb(-scale)
    if not exact:
        return 0.0
    if exact.adjusted() + scale > 700:
        return value
    return float(exact.quantize(unit, ROUND_HALF_EVEN if half_even else ROUND_HALF_UP, _CONTEXT)) + 0.0


@kernel("Ceil", "Floor")
def _ceil_or_floor(expression: Expression) -> Kernel:
    source, target = expression.children[0].type, expression.type
    mode = "up" if expression.kind == "Ceil" else "down"
    function = np.ceil if mode == "up" else np.floor
    raises = bool(expression.arguments.get("failOnError") or expression.arguments.get("ansiEnabled"))

    def doubles(array: pa.Array) -> pa.Array:
        values = function(numbers(array, 0.0).astype(np.float64))
        there = valid(array)
        if raises and (there & ((values >= 2.0**63) | (values < -(2.0**63)))).any():
            raise SparkError("ARITHMETIC_OVERFLOW", "long overflow.")
        return with_nulls(saturated(values, 64).astype(np.int64), there, target)

    if pa.types.is_decimal(source):
        return of_arrays(lambda array: _decimals(array, 0, mode, target, raises=False))
    if pa.types.is_integer(source):
        return lambda values, _rows: values[0]
    return of_arrays(doubles)
