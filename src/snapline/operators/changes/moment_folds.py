"""Covariances, correlations, regressions and higher moments, and bits, as folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.operators.changes.accumulator import REAL, WHOLE, Parts, or_null
from snapline.operators.changes.folds import Fold
from snapline.state.arrays import Bools

_Floats = npt.NDArray[np.float64]


def _floats(values: pa.Array) -> _Floats:
    numbers: _Floats = values.cast(REAL, safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _nothing(numbers: _Floats) -> _Floats:
    """The distance of numbers from themselves: 0, but NaN for those that are not finite."""
    with np.errstate(invalid="ignore"):
        return numbers * 0.0


def _chosen(left: Parts, right: Parts, both: Parts) -> Parts:
    """What was merged, and the one side where the other is empty: infinities and rounding stay out of it."""
    is_left, is_right = right[0] == 0, left[0] == 0
    return [
        np.where(is_left, mine, np.where(is_right, its, merged))
        for mine, its, merged in zip(left, right, both, strict=True)
    ]


class PairMoments(Fold):
    """An aggregate of pairs of numbers, given as structs of two fields without nulls."""

    parts = (WHOLE, REAL, REAL, REAL, REAL, REAL)
    """Number of pairs, both means, the sums of squared distances from them, and of products of distances."""
    result = REAL

    def __init__(self, name: str) -> None:
        self._name = name

    def pieces(self, values: pa.Array | None, count: int) -> Parts:
        assert values is not None
        first, second = map(_floats, values.flatten())
        nothing, none = _nothing(first), _nothing(second)
        return [np.ones(count, dtype=np.int64), first, second, nothing, none, nothing + none]

    def merged(self, left: Parts, right: Parts) -> Parts:
        total = left[0] + right[0]
        divisor = np.maximum(total, 1)
        with np.errstate(all="ignore"):
            first, second = right[1] - left[1], right[2] - left[2]
            weight = left[0] * (right[0] / divisor)
            both = [
                total,
                left[1] + first * right[0] / divisor,
                left[2] + second * right[0] / divisor,
                left[3] + right[3] + first * first * weight,
                left[4] + right[4] + second * second * weight,
                left[5] + right[5] + first * second * weight,
            ]
        return _chosen(left, right, both)

    def results(self, parts: Parts) -> pa.Array:
        with np.errstate(all="ignore"):
            values, is_null = PAIR_FORMULAS[self._name](_Pairs(*parts))
        return or_null(pa.array(np.where(is_null, 0.0, values)), is_null)


class _Pairs(NamedTuple):
    """The parts of `PairMoments`; `x` is the first number of a pair."""

    n: Any
    x: Any
    y: Any
    xx: Any
    yy: Any
    xy: Any


def _covar_pop(of: _Pairs) -> tuple[_Floats, Bools]:
    return of.xy / of.n, of.n == 0


def _covar_samp(of: _Pairs) -> tuple[_Floats, Bools]:
    return of.xy / (of.n - 1), of.n <= 1


def _corr(of: _Pairs) -> tuple[_Floats, Bools]:
    spread = np.sqrt(of.xx * of.yy)
    return of.xy / spread, (of.n == 0) | (spread == 0)


def _sum_of_products(of: _Pairs) -> tuple[_Floats, Bools]:
    return of.xy, of.n == 0


def _slope(of: _Pairs) -> tuple[_Floats, Bools]:
    return of.xy / of.yy, of.yy == 0


def _intercept(of: _Pairs) -> tuple[_Floats, Bools]:
    return of.x - of.xy / of.yy * of.y, of.yy == 0


def _r_squared(of: _Pairs) -> tuple[_Floats, Bools]:
    corr = of.xy / np.sqrt(of.xx * of.yy)
    return np.where(of.xx == 0, 1.0, corr * corr), of.yy == 0


PAIR_FORMULAS: Final[Mapping[str, Callable[[_Pairs], tuple[_Floats, Bools]]]] = {
    "covar_pop": _covar_pop,
    "covar_samp": _covar_samp,
    "corr": _corr,
    "regr_sxy": _sum_of_products,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r_squared,
}
"""From the parts of pairs of a dependent and an independent number to results, and which of them are null."""


class HigherMoments(Fold):
    """Skewness, kurtosis, or the sum of squared distances from the mean."""

    parts = (WHOLE, REAL, REAL, REAL, REAL)
    """Number of values, mean, and the sums of the second, third and fourth powers of distances from it."""
    result = REAL

    def __init__(self, name: str) -> None:
        self._name = name

    def pieces(self, values: pa.Array | None, count: int) -> Parts:
        assert values is not None
        numbers = _floats(values)
        nothing = _nothing(numbers)
        return [np.ones(count, dtype=np.int64), numbers, nothing, nothing, nothing]

    def merged(self, left: Parts, right: Parts) -> Parts:
        n, m = left[0].astype(np.float64), right[0].astype(np.float64)
        total = np.maximum(n + m, 1)
        with np.errstate(all="ignore"):
            step = right[1] - left[1]
            share = step / total
            second = left[2] + right[2] + step * share * n * m
            third = left[3] + right[3] + step * share * share * n * m * (n - m)
            third = third + 3 * share * (n * right[2] - m * left[2])
            fourth = left[4] + right[4] + step * share**3 * n * m * (n * n - n * m + m * m)
            fourth = fourth + 6 * share * share * (n * n * right[2] + m * m * left[2])
            fourth = fourth + 4 * share * (n * right[3] - m * left[3])
            both = [left[0] + right[0], left[1] + share * m, second, third, fourth]
        return _chosen(left, right, both)

    def results(self, parts: Parts) -> pa.Array:
        counts, _, second, third, fourth = parts
        is_null: Bools = counts == 0
        with np.errstate(all="ignore"):
            if self._name == "regr_sxx":
                values = second
            elif self._name == "skewness":
                values, is_null = np.sqrt(counts) * third / np.sqrt(second**3), is_null | (second == 0)
            else:
                values, is_null = counts * fourth / (second * second) - 3.0, is_null | (second == 0)
        return or_null(pa.array(np.where(is_null, 0.0, values)), is_null)


class Bits(Fold):
    """Whole numbers whose bits are combined by and, or, or exclusive or; null without values."""

    parts = (WHOLE, WHOLE)
    """Number of values, and the combination."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self._name = name
        self.result = kind

    def pieces(self, values: pa.Array | None, count: int) -> Parts:
        assert values is not None
        return [np.ones(count, dtype=np.int64), values.cast(WHOLE).to_numpy()]

    def merged(self, left: Parts, right: Parts) -> Parts:
        combine = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}[self._name]
        return _chosen(left, right, [left[0] + right[0], combine(left[1], right[1])])

    def results(self, parts: Parts) -> pa.Array:
        return or_null(pa.array(parts[1]).cast(self.result), parts[0] == 0)
