"""Intervals: made from parts, taken apart, multiplied and divided."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.sql.expressions.calendar_days import DAY_US, Integers, truncated_division
from snapline.sql.expressions.calendar_intervals import from_parts, interval_parts
from snapline.sql.expressions.integers import Computed, from_integers, integers, strict
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.spark_errors import raise_interval_overflow, raise_overflow
from snapline.sql.expressions.timestamps import SECOND_US, decimal_seconds
from snapline.sql.expressions.unscaled import digits
from snapline.sql.expressions.values import Bools, of_arrays, valid
from snapline.sql.plans.trees import Expression

HOUR_US = 3600 * SECOND_US
MINUTE_US = 60 * SECOND_US
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_EXACT = Context(prec=80)


def microseconds(seconds: pa.Array) -> Integers:
    """Seconds as decimals with six places, in microseconds; 0 for nulls."""
    return np.asarray(digits(seconds.cast(pa.decimal128(38, 6))), np.int64)


@kernel("MakeInterval", "TryMakeInterval")
def _make_interval(expression: Expression) -> Kernel:
    fails = expression.kind == "MakeInterval" and bool(expression.arguments.get("failOnError"))

    def compute(*arrays: pa.Array) -> pa.Array:
        there = valid(*arrays)
        years, months, weeks, days, hours, minutes = (integers(array) for array in arrays[:6])
        months = years * 12 + months
        days = weeks * 7 + days
        # Whole hours and minutes of 32 bits cannot overflow 64 bits, but with the seconds they may.
        micros = (hours * 60 + minutes).astype(object) * MINUTE_US + microseconds(arrays[6])
        fits = (np.abs(months) <= _INT_MAX) & (np.abs(days) <= _INT_MAX)
        fits &= np.array([abs(value) <= _LONG_MAX for value in micros], np.bool_)
        if fails and not fits[there].all():
            raise SparkError("ARITHMETIC_OVERFLOW", "integer overflow.")
        there = there & fits
        months, days, micros = (np.where(there, part, 0).astype(np.int64) for part in (months, days, micros))
        return from_parts(months, days, micros, there)

    return of_arrays(compute)


@kernel("MakeDTInterval")
def _make_day_time_interval(expression: Expression) -> Kernel:
    def compute(*arrays: pa.Array) -> pa.Array:
        there = valid(*arrays)
        days, hours, minutes = (integers(array).astype(np.float64) for array in arrays[:3])
        seconds = microseconds(arrays[3])
        rough = days * DAY_US + hours * HOUR_US + minutes * MINUTE_US + seconds
        if (there & (np.abs(rough) >= 2.0**63)).any():
            raise_overflow(pa.duration("us"), "+")
        whole = [integers(array) for array in arrays[:3]]
        micros = whole[0] * DAY_US + whole[1] * HOUR_US + whole[2] * MINUTE_US + seconds
        return from_integers(micros, there, expression.type)

    return of_arrays(compute)


@kernel("MakeYMInterval")
def _make_year_month_interval(expression: Expression) -> Kernel:
    def compute(years: Integers, months: Integers) -> Computed:
        total = years * 12 + months
        if (np.abs(total) > _INT_MAX).any():
            raise_overflow(pa.duration("us"), "+")
        return total

    return strict(compute, expression.type)


def _truncated(divisor: int) -> Callable[[Integers], Integers]:
    return lambda values: np.asarray(truncated_division(values, divisor))


def _rest(divisor: int) -> Callable[[Integers], Integers]:
    return lambda values: np.asarray(np.fmod(values, divisor))


_PARTS: dict[str, tuple[int, Callable[[Integers], Integers]]] = {
    "Years": (0, _truncated(12)),
    "Months": (0, _rest(12)),
    "Days": (2, _truncated(DAY_US)),
    "Hours": (2, lambda micros: _truncated(HOUR_US)(_rest(DAY_US)(micros))),
    "Minutes": (2, lambda micros: _truncated(MINUTE_US)(_rest(HOUR_US)(micros))),
    "Seconds": (2, _rest(MINUTE_US)),
}
"""For each part of an interval: the one of months, days and microseconds that it is in, and how to get it."""


@kernel(*(f"ExtractANSIInterval{part}" for part in _PARTS))
def _part(expression: Expression) -> Kernel:
    get = _PARTS[expression.kind.removeprefix("ExtractANSIInterval")][1]
    if pa.types.is_decimal(expression.type):
        micros = strict(get, pa.int64())
        return lambda values, rows: decimal_seconds(micros(values, rows), expression.type)
    return strict(get, expression.type)


@kernel(*(f"ExtractInterval{part}" for part in _PARTS))
def _calendar_part(expression: Expression) -> Kernel:
    name = expression.kind.removeprefix("ExtractInterval")
    source, get = _PARTS[name]

    def compute(array: pa.Array) -> pa.Array:
        parts = interval_parts(array)
        data = get(parts[source])
        if name == "Days":
            data = data + parts[1]
        if pa.types.is_decimal(expression.type):
            return decimal_seconds(from_integers(data, valid(array), pa.int64()), expression.type)
        return from_integers(data, valid(array), expression.type)

    return of_arrays(compute)


@kernel("MultiplyYMInterval", "MultiplyDTInterval", "DivideYMInterval", "DivideDTInterval")
def _scaled(expression: Expression) -> Kernel:
    divides = expression.kind.startswith("Divide")
    limit = _INT_MAX if "YM" in expression.kind else _LONG_MAX
    factor = expression.children[1].type
    scale = _scale_exactly if pa.types.is_integer(factor) or pa.types.is_decimal(factor) else _scale_floats

    def compute(intervals: pa.Array, factors: pa.Array) -> pa.Array:
        there = valid(intervals, factors)
        given = factors.filter(pa.array(there))
        if divides:
            _check_divisors(given)
        amounts = integers(intervals)[there]
        data = np.zeros(len(there), np.int64)
        data[there] = scale(amounts, given, divides, limit)
        return from_integers(data, there, expression.type)

    return of_arrays(compute)


def _check_divisors(factors: pa.Array) -> None:
    if any(value == 0 for value in factors.unique().to_pylist()):
        raise SparkError("INTERVAL_DIVIDED_BY_ZERO", "Division by zero. Use `try_divide` to get NULL instead.")


def _scale_exactly(amounts: Integers, factors: pa.Array, divides: bool, limit: int) -> Integers:
    whole = pa.types.is_integer(factors.type)
    if whole and not divides and limit == _INT_MAX and factors.type.bit_width <= 32:
        products = amounts * integers(factors)
        if ((products > limit) | (products < -limit - 1)).any():
            _raise_arithmetic(limit)
        return products
    if whole and divides and ((amounts == -limit - 1) & (integers(factors) == -1)).any():
        raise_interval_overflow(suggestion=True)
    results = []
    for amount, factor in zip(amounts.tolist(), factors.to_pylist(), strict=True):
        exact = _EXACT.divide(Decimal(amount), Decimal(factor)) if divides else _EXACT.multiply(amount, Decimal(factor))
        rounded = int(exact.to_integral_value(ROUND_HALF_UP))
        if not -limit - 1 <= rounded <= limit:
            _raise_arithmetic(limit)
        results.append(rounded)
    return np.array(results, np.int64)


def _scale_floats(amounts: Integers, factors: pa.Array, divides: bool, limit: int) -> Integers:
    numbers = np.asarray(factors.cast(pa.float64()))
    with np.errstate(all="ignore"):
        exact = amounts / numbers if divides else amounts * numbers
    if not np.isfinite(exact).all():
        raise SparkError("ArithmeticException", "input is infinite or NaN")
    rounded = np.trunc(exact + np.copysign(np.where(np.abs(exact) < 2.0**52, 0.5, 0.0), exact))
    if ((rounded >= limit + 1.0) | (rounded < -limit - 1.0)).any():
        raise SparkError("ArithmeticException", "rounded value is out of range")
    return np.asarray(rounded.astype(np.int64))


def _raise_arithmetic(limit: int) -> None:
    raise SparkError("ArithmeticException", "integer overflow" if limit == _INT_MAX else "long overflow")


@kernel("MultiplyInterval", "DivideInterval")
def _scaled_calendar(expression: Expression) -> Kernel:
    divides = expression.kind == "DivideInterval"
    fails = bool(expression.arguments.get("failOnError"))

    def compute(intervals: pa.Array, factors: pa.Array) -> pa.Array:
        there = valid(intervals, factors)
        numbers = np.asarray(factors.cast(pa.float64()).fill_null(1.0))
        zero = there & (numbers == 0) & np.bool_(divides)
        if zero.any():
            if fails:
                raise SparkError("INTERVAL_DIVIDED_BY_ZERO", "Division by zero. Use `try_divide` instead.")
            there = there & ~zero
        parts = interval_parts(intervals)
        with np.errstate(all="ignore"):
            products = ((part / numbers if divides else part * numbers) for part in parts)
            months, days, micros = (np.where(np.isnan(product), 0.0, product) for product in products)
            # What is left of a day goes to the time, what is left of a month is dropped.
            time = np.floor(micros + (days - np.trunc(days)) * DAY_US + 0.5)
        there = _fitting(there, (months, days, time), fails)
        whole_months, whole_days, whole_micros = (
            np.where(there, np.trunc(part), 0).astype(np.int64) for part in (months, days, time)
        )
        return from_parts(whole_months, whole_days, whole_micros, there)

    return of_arrays(compute)


def _fitting(there: Bools, parts: tuple[npt.NDArray[Any], ...], fails: bool) -> Bools:
    months, days, time = parts
    fits = (np.abs(months) <= _INT_MAX) & (np.abs(days) <= _INT_MAX) & (np.abs(time) < 2.0**63 / 1000)
    if fails and not fits[there].all():
        raise_overflow(pa.duration("us"), "*")
    return np.asarray(there & fits)
