"""Arithmetic of integers, floating-point numbers and intervals; that of decimals is in `decimals`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions import decimals
from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.spark_errors import raise_division_by_zero, raise_interval_overflow, raise_overflow
from snapline.sql.expressions.values import Bools, numbers, of_arrays, valid, with_nulls
from snapline.sql.plans.trees import Expression

_WRAPPING = {"Add": pc.add, "Subtract": pc.subtract, "Multiply": pc.multiply}
_CHECKED = {"Add": pc.add_checked, "Subtract": pc.subtract_checked, "Multiply": pc.multiply_checked}
_SYMBOLS = {"Add": "+", "Subtract": "-", "Multiply": "*"}

Numbers = npt.NDArray[Any]


def eval_mode(expression: Expression) -> str:
    """`ANSI`, `LEGACY` or `TRY`."""
    mode = expression.arguments.get("evalMode")
    if mode is None:
        mode = "ANSI" if expression.arguments.get("failOnError") else "LEGACY"
    return str(mode)


@kernel("Add", "Subtract", "Multiply")
def _sum_or_product(expression: Expression) -> Kernel:
    type = expression.type
    mode = eval_mode(expression)
    if pa.types.is_decimal(type):
        return decimals.arithmetic(expression.kind, expression, mode)
    if type == pa.month_day_nano_interval():
        return of_arrays(lambda left, right: _calendar_intervals(expression.kind, left, right, mode))
    wrapping = _WRAPPING[expression.kind]
    is_interval = is_exact_interval(expression)
    if pa.types.is_floating(type) or (mode == "LEGACY" and not is_interval):
        return lambda values, _rows: wrapping(*values)
    checked = _CHECKED[expression.kind]
    if mode == "TRY":
        return of_arrays(lambda left, right: _or_null(checked, wrapping, left, right))

    def compute(values: Sequence[Value], _rows: int) -> Value:
        try:
            return checked(*values)
        except pa.ArrowInvalid:
            if is_interval:
                raise_interval_overflow(suggestion=True)
            raise_overflow(type, _SYMBOLS[expression.kind])

    return compute


def is_exact_interval(expression: Expression) -> bool:
    """Whether its values are intervals of months or of microseconds, which never wrap."""
    return bool(expression.sql_type) or pa.types.is_duration(expression.type)


def _or_null(checked: Callable[..., Any], wrapping: Callable[..., Any], left: pa.Array, right: pa.Array) -> pa.Array:
    """The result of a checked function, null where it overflows."""
    try:
        return checked(left, right)
    except pa.ArrowInvalid:
        result = wrapping(left, right)
        fits = np.ones(len(result), np.bool_)
        for row in np.flatnonzero(valid(left, right)):
            try:
                checked(left[row], right[row])
            except pa.ArrowInvalid:
                fits[row] = False
        return pc.if_else(pa.array(fits), result, pa.scalar(None, result.type))


def _calendar_intervals(kind: str, left: pa.Array, right: pa.Array, mode: str) -> pa.Array:
    sign = 1 if kind == "Add" else -1
    results: list[Any] = []
    for first, second in zip(left.to_pylist(), right.to_pylist(), strict=True):
        if first is None or second is None:
            results.append(None)
            continue
        parts = [a + sign * b for a, b in zip(first, second, strict=True)]
        if mode != "LEGACY" and any(abs(part) > 2**31 - 1 for part in parts[:2]):
            if mode == "ANSI":
                raise_overflow(pa.duration("us"), _SYMBOLS[kind])
            results.append(None)
        else:
            results.append(pa.MonthDayNano(parts))
    return pa.array(results, pa.month_day_nano_interval())


Division = Callable[[Numbers, Numbers], Numbers]


def _remainder(left: Numbers, right: Numbers) -> Numbers:
    return np.asarray(np.fmod(left, right))


def _positive_remainder(left: Numbers, right: Numbers) -> Numbers:
    wide = left.dtype.itemsize < 4 and left.dtype.kind == "i"
    if wide:
        left, right = left.astype(np.int32), right.astype(np.int32)
    rest = np.fmod(left, right)
    return np.asarray(np.where(rest < 0, np.fmod(rest + right, right), rest))


def _true_quotient(left: Numbers, right: Numbers) -> Numbers:
    return np.asarray(left / right)


def _integral_quotient(left: Numbers, right: Numbers) -> Numbers:
    quotient = left // right
    # numpy rounds down, Java towards zero.
    away = (quotient < 0) & (quotient * right != left)
    return np.asarray(quotient + away)


_DIVISIONS: dict[str, Division] = {
    "Divide": _true_quotient,
    "IntegralDivide": _integral_quotient,
    "Remainder": _remainder,
    "Pmod": _positive_remainder,
}


def _is_divisor(expression: Expression, divisors: pa.Array) -> pa.Array:
    if eval_mode(expression) == "ANSI":
        return divisors.is_valid()
    return pc.fill_null(pc.not_equal(divisors, pa.scalar(0, divisors.type)), False)


@kernel("Divide", "IntegralDivide", "Remainder", "Pmod", order=(1, 0), goes_on=_is_divisor)
def _division(expression: Expression) -> Kernel:
    mode = eval_mode(expression)
    operand = expression.children[0].type
    if pa.types.is_decimal(operand):
        return decimals.division(expression.kind, expression, mode)
    divide = _DIVISIONS[expression.kind]
    lowest = np.iinfo(np.int64).min

    def compute(left: pa.Array, right: pa.Array) -> pa.Array:
        there = valid(left, right)
        dividends, divisors = numbers(left), numbers(right, 1)
        zero = there & (divisors == 0)
        if zero.any():
            if mode == "ANSI":
                raise_division_by_zero(expression.kind)
            there &= ~zero
            divisors = np.where(zero, divisors.dtype.type(1), divisors)
        if expression.kind == "IntegralDivide":
            dividends, divisors = dividends.astype(np.int64), divisors.astype(np.int64)
            overflow = there & (dividends == lowest) & (divisors == -1)
            there = _without_overflow(overflow, there, mode)
        with np.errstate(all="ignore"):
            return with_nulls(divide(dividends, divisors).astype(_numpy(expression.type)), there, expression.type)

    return of_arrays(compute)


def _without_overflow(overflow: Bools, there: Bools, mode: str) -> Bools:
    if mode == "LEGACY" or not overflow.any():
        return there
    if mode == "ANSI":
        raise SparkError("ARITHMETIC_OVERFLOW", "Overflow in integral divide.")
    return there & ~overflow


def _numpy(type: pa.DataType) -> Any:
    if pa.types.is_duration(type):
        return np.int64
    return type.to_pandas_dtype()


@kernel("UnaryPositive")
def _itself(_expression: Expression) -> Kernel:
    return lambda values, _rows: values[0]


@kernel("UnaryMinus", "Abs")
def _negation_or_magnitude(expression: Expression) -> Kernel:
    type = expression.type
    mode = eval_mode(expression)
    negates = expression.kind == "UnaryMinus"
    wrapping = pc.negate if negates else pc.abs
    checked = pc.negate_checked if negates else pc.abs_checked
    if type == pa.month_day_nano_interval():
        zero = pa.scalar(pa.MonthDayNano([0, 0, 0]))
        return of_arrays(lambda array: _calendar_intervals("Subtract", pa.repeat(zero, len(array)), array, mode))
    if pa.types.is_decimal(type):
        return of_arrays(decimals.negated if negates else _decimal_magnitudes)
    is_interval = is_exact_interval(expression)
    if pa.types.is_floating(type) or (mode == "LEGACY" and not is_interval):
        return lambda values, _rows: wrapping(values[0])
    symbol = "-" if negates else "abs"

    def compute(values: Sequence[Value], _rows: int) -> Value:
        try:
            if pa.types.is_duration(type):
                return checked(values[0].cast(pa.int64())).cast(type)
            return checked(values[0])
        except pa.ArrowInvalid:
            if is_interval and negates:
                raise_interval_overflow(suggestion=False)
            if is_interval:
                raise_overflow(pa.int64(), symbol)
            raise_overflow(pa.int32() if type in (pa.int8(), pa.int16()) else type, symbol)

    return compute


def _decimal_magnitudes(array: pa.Array) -> pa.Array:
    negative = pc.less(array, pa.scalar(0, array.type))
    if not pc.any(negative).as_py():
        return array
    opposites = decimals.negated(pc.if_else(negative, array, pa.scalar(None, array.type)))
    return pc.if_else(negative, opposites, array)
