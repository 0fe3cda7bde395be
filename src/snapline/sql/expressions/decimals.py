"""Arithmetic of decimals: exact, then rounded half up to the scale of the result and checked for its precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from snapline.sql.expressions import unscaled
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.spark_errors import raise_division_by_zero, raise_out_of_range
from snapline.sql.expressions.unscaled import Digits
from snapline.sql.expressions.values import Bools, numbers, of_arrays, valid, with_nulls
from snapline.sql.plans.trees import Expression

_NEGATED_DIGITS = 34
_QUOTIENT_DIGITS = 39


def rounded(values: Digits, scale: int, there: Bools, type: pa.DataType, raises: bool) -> pa.Array:
    """Digits of one scale as an array of a decimal type; what does not fit is null or raises `SparkError`."""
    values = unscaled.shifted(values, type.scale - scale)
    excess = there & unscaled.exceeds(values, type.precision)
    if excess.any():
        if raises:
            raise_out_of_range(type)
        there = there & ~excess
    if not there.all():
        values = np.where(there, values, 0)
    return unscaled.decimals(values, there, type)


def arithmetic(kind: str, expression: Expression, mode: str) -> Kernel:
    """The kernel of `Add`, `Subtract` or `Multiply` of two decimals."""
    type = expression.type
    left_scale, right_scale = (child.type.scale for child in expression.children)

    def sums(left: pa.Array, right: pa.Array) -> pa.Array:
        scale = max(left_scale, right_scale)
        first = unscaled.shifted(unscaled.digits(left), scale - left_scale)
        second = unscaled.shifted(unscaled.digits(right), scale - right_scale)
        first, second = unscaled.fitting(first, second, unscaled.magnitude(first) + unscaled.magnitude(second))
        result = first + second if kind == "Add" else first - second
        return rounded(result, scale, valid(left, right), type, mode == "ANSI")

    def products(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = unscaled.digits(left), unscaled.digits(right)
        first, second = unscaled.fitting(first, second, unscaled.magnitude(first) * unscaled.magnitude(second))
        return rounded(first * second, left_scale + right_scale, valid(left, right), type, mode == "ANSI")

    return of_arrays(products if kind == "Multiply" else sums)


def division(kind: str, expression: Expression, mode: str) -> Kernel:
    """The kernel of `Divide`, `IntegralDivide`, `Remainder` or `Pmod` of two decimals."""
    type = expression.type
    left_scale, right_scale = (child.type.scale for child in expression.children)
    scale = max(left_scale, right_scale)
    whole_digits = min(max(expression.children[0].type.precision - left_scale + right_scale, 1), 38)

    def quotients(first: Digits, second: Digits, there: Bools) -> pa.Array:
        first = unscaled.shifted(first, max(0, type.scale - left_scale + right_scale))
        second = unscaled.shifted(second, max(0, left_scale - right_scale - type.scale))
        return rounded(unscaled.quotient_half_up(first, second), type.scale, there, type, mode == "ANSI")

    def integral_quotients(first: Digits, second: Digits, there: Bools) -> pa.Array:
        first, second = _aligned(first, second)
        _check_quotients(first, second, there)
        up, down = unscaled.fitting(first, second, unscaled.magnitude(first) + unscaled.magnitude(second))
        magnitudes = np.abs(up) // np.abs(down)
        result = np.where((up < 0) != (down < 0), -magnitudes, magnitudes)
        excess = there & unscaled.exceeds(result, whole_digits)
        if excess.any() and mode == "ANSI":
            raise_out_of_range(pa.decimal128(whole_digits, 0))
        return _longs(result, there & ~excess)

    def remainders(first: Digits, second: Digits, there: Bools) -> pa.Array:
        first, second = _aligned(first, second)
        _check_quotients(first, second, there)
        rests = unscaled.remainder(first, second)
        if kind == "Pmod":
            rests, second = unscaled.fitting(rests, second, 2 * unscaled.magnitude(second))
            rests = np.where(rests < 0, unscaled.remainder(rests + second, second), rests)
        return rounded(rests, scale, there, type, mode == "ANSI")

    def _aligned(first: Digits, second: Digits) -> tuple[Digits, Digits]:
        return unscaled.shifted(first, scale - left_scale), unscaled.shifted(second, scale - right_scale)

    computations: dict[str, Callable[[Digits, Digits, Bools], pa.Array]] = {
        "Divide": quotients,
        "IntegralDivide": integral_quotients,
        "Remainder": remainders,
        "Pmod": remainders,
    }
    compute = computations[kind]

    def checked(left: pa.Array, right: pa.Array) -> pa.Array:
        there = valid(left, right)
        first, second = unscaled.digits(left), unscaled.digits(right)
        zero = second == 0
        if (there & zero).any() and mode == "ANSI":
            raise_division_by_zero(kind)
        if zero.any():
            second = np.where(zero, 1, second)
        return compute(first, second, there & ~zero.astype(np.bool_))

    return of_arrays(checked)


def _check_quotients(first: Digits, second: Digits, there: Bools) -> None:
    """Raise what Java does where the quotient, an integer, has more digits than it computes with."""
    if first.dtype != object or unscaled.magnitude(first) < 10**_QUOTIENT_DIGITS:
        return
    for number in np.flatnonzero(there):
        quotient = str(abs(int(first[number])) // abs(int(second[number])))
        if quotient[_QUOTIENT_DIGITS:].strip("0"):
            raise SparkError("ArithmeticException", "Division impossible")


def negated(array: pa.Array) -> pa.Array:
    """The opposite of decimals; Spark computes it with 34 digits only."""
    digits = unscaled.digits(array)
    values = -(unscaled.wide(digits) if unscaled.magnitude(digits) >= 2**62 else digits)
    there = valid(array)
    type = array.type
    if unscaled.magnitude(values) >= 10**_NEGATED_DIGITS:
        values = np.array([_shortened(int(value)) for value in values], object)
        if (there & unscaled.exceeds(values, type.precision)).any():
            raise_out_of_range(type, suggestion=False)
    return unscaled.decimals(values, there, type)


def _shortened(value: int) -> int:
    excess = len(str(abs(value))) - _NEGATED_DIGITS
    return value if excess <= 0 else round(value, -excess)


def _longs(values: Digits, there: Bools) -> pa.Array:
    """As 64-bit integers; what does not fit loses its high bits, in all modes."""
    if values.dtype == object:
        values = np.array([(int(value) + 2**63) % 2**64 - 2**63 for value in values], np.int64)
    return with_nulls(values, there, pa.int64())


@kernel("CheckOverflow", "CheckOverflowInSum")
def _checked(expression: Expression) -> Kernel:
    type = expression.type
    raises = not expression.arguments.get("nullOnOverflow", True)
    scale = expression.children[0].type.scale

    return of_arrays(lambda array: rounded(unscaled.digits(array), scale, valid(array), type, raises))


@kernel("MakeDecimal")
def _made(expression: Expression) -> Kernel:
    type = expression.type
    raises = not expression.arguments.get("nullOnOverflow", True)
    return of_arrays(lambda array: rounded(numbers(array).astype(np.int64), type.scale, valid(array), type, raises))


@kernel("UnscaledValue")
def _digits(_expression: Expression) -> Kernel:
    return of_arrays(lambda array: with_nulls(unscaled.digits(array).astype(np.int64), valid(array), pa.int64()))
