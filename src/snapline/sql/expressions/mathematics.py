"""Functions of doubles. As in Java, results may differ in the last digit from one processor to another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.values import numbers, of_arrays, valid, with_nulls
from snapline.sql.plans.trees import Expression

Doubles = npt.NDArray[np.float64]


def _signum(values: Doubles) -> Doubles:
    return np.where(values == 0, values, np.sign(values))


def _cube_root(values: Doubles) -> Doubles:
    roots = np.cbrt(values)
    whole = np.rint(roots)
    return np.where(whole * whole * whole == values, whole, roots)


def _atanh(values: Doubles) -> Doubles:
    return np.asarray(0.5 * (np.log1p(values) - np.log1p(-values)))


_FUNCTIONS: dict[str, Callable[[Doubles], Any]] = {
    "Sqrt": np.sqrt,
    "Cbrt": _cube_root,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Cot": lambda values: 1 / np.tan(values),
    "Sec": lambda values: 1 / np.cos(values),
    "Csc": lambda values: 1 / np.sin(values),
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": _atanh,
    "ToDegrees": lambda values: values * (180.0 / math.pi),
    "ToRadians": lambda values: values * (math.pi / 180.0),
    "Signum": _signum,
    "Rint": np.rint,
}

_LOGARITHMS: dict[str, tuple[Callable[[Doubles], Any], float]] = {
    "Log": (np.log, 0.0),
    "Log10": (np.log10, 0.0),
    "Log2": (lambda values: np.log(values) / math.log(2.0), 0.0),
    "Log1p": (np.log1p, -1.0),
}


@kernel(*_FUNCTIONS)
def _function(expression: Expression) -> Kernel:
    function = _FUNCTIONS[expression.kind]

    def compute(array: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            return with_nulls(function(numbers(array, 0.0).astype(np.float64)), valid(array), pa.float64())

    return of_arrays(compute)


@kernel(*_LOGARITHMS)
def _logarithm(expression: Expression) -> Kernel:
    function, lowest = _LOGARITHMS[expression.kind]

    def compute(array: pa.Array) -> pa.Array:
        values = numbers(array, 1.0)
        with np.errstate(all="ignore"):
            return with_nulls(function(values), valid(array) & ~(values <= lowest), pa.float64())

    return of_arrays(compute)


@kernel("Logarithm")
def _logarithm_to_base(_expression: Expression) -> Kernel:
    def compute(bases: pa.Array, array: pa.Array) -> pa.Array:
        base, values = numbers(bases, 1.0), numbers(array, 1.0)
        there = valid(bases, array) & ~(base <= 0) & ~(values <= 0)
        with np.errstate(all="ignore"):
            return with_nulls(np.log(values) / np.log(base), there, pa.float64())

    return of_arrays(compute)


def _power(base: Doubles, exponent: Doubles) -> Doubles:
    # C says 1 where Java says NaN.
    undefined = (np.isnan(exponent) | (np.isinf(exponent) & (np.abs(base) == 1))) & (exponent != 0)
    return np.where(undefined, np.nan, np.power(base, exponent))


def _angle(ordinate: Doubles, abscissa: Doubles) -> Doubles:
    return np.asarray(np.arctan2(ordinate + 0.0, abscissa + 0.0))


_PAIRS: dict[str, Callable[[Doubles, Doubles], Any]] = {"Pow": _power, "Atan2": _angle, "Hypot": np.hypot}


@kernel(*_PAIRS)
def _function_of_two(expression: Expression) -> Kernel:
    function = _PAIRS[expression.kind]

    def compute(left: pa.Array, right: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            return with_nulls(function(numbers(left, 0.0), numbers(right, 0.0)), valid(left, right), pa.float64())

    return of_arrays(compute)


@kernel("Factorial")
def _factorial(_expression: Expression) -> Kernel:
    known = np.array([math.factorial(number) for number in range(21)])

    def compute(array: pa.Array) -> pa.Array:
        values = numbers(array)
        inside = (values >= 0) & (values <= 20)
        return with_nulls(known[np.where(inside, values, 0)], valid(array) & inside, pa.int64())

    return of_arrays(compute)


@kernel("WidthBucket")
def _width_bucket(expression: Expression) -> Kernel:
    def compute(array: pa.Array, low: pa.Array, high: pa.Array, count: pa.Array) -> pa.Array:
        kinds = [
            column.view(pa.int64()) if pa.types.is_duration(column.type) else column for column in (array, low, high)
        ]
        value, first, last = (numbers(column).astype(np.float64) for column in kinds)
        buckets = numbers(count)
        there = valid(array, low, high, count) & (buckets > 0) & (buckets < 2**63 - 1) & ~np.isnan(value)
        there &= np.isfinite(first) & np.isfinite(last) & (first != last)
        lower, upper = np.minimum(first, last), np.maximum(first, last)
        rising = first < last
        with np.errstate(all="ignore"):
            away = np.where(rising, value - lower, upper - value)
            inside = (buckets * away / (upper - lower)).astype(np.int64) + 1
            before = np.where(rising, value < lower, value > upper)
            after = np.where(rising, value >= upper, value <= lower)
        return with_nulls(np.where(before, 0, np.where(after, buckets + 1, inside)), there, expression.type)

    return of_arrays(compute)
