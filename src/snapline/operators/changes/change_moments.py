"""Variances and standard deviations of values that are added and taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.operators.changes.accumulator import REAL, WHOLE, ChangeAccumulator, Parts, or_null
from snapline.operators.changes.group_changes import GroupChanges
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows

_Floats = npt.NDArray[np.float64]


class Variance(ChangeAccumulator):
    """The variance of numbers, or its square root; of the population, or of a sample.

    Null without values; for a sample also with only one. NaN if a value is not finite.
    """

    parts = (WHOLE, REAL, REAL, WHOLE)
    """Number of finite values, their mean, the sum of squares of their distances from it, number of others."""
    result = REAL

    def __init__(self, column: str, where: str | None, *, sample: bool, root: bool) -> None:
        self.column = column
        self.where = where
        self._sample = sample
        self._root = root

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        numbers = values.cast(REAL, safe=False).to_numpy(zero_copy_only=False)
        is_finite = np.isfinite(numbers)
        others: Ints = parts[3]
        if not is_finite.all():
            others = others + changes.weighted((~is_finite).astype(np.int64))
            rows = np.flatnonzero(is_finite)
            numbers, changes = numbers[rows], changes.take(rows)
        state = parts[0], parts[1], parts[2]
        if changes.weights is None:
            return [*merged_moments(*state, *_moments(numbers, changes)), others]
        for sign, merge in ((1, merged_moments), (-1, _without)):
            rows = np.flatnonzero(changes.weights == sign)
            if rows.size:
                state = merge(*state, *_moments(numbers[rows], changes.take(rows)))
        return [*state, others]

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        counts, _, squares, others = parts
        degrees = counts + others - int(self._sample)
        is_null: Bools = (counts + others == 0) | (degrees <= 0)
        results = squares / np.where(is_null, 1, degrees)
        if self._root:
            results = np.sqrt(results)
        return or_null(pa.array(np.where(others > 0, np.nan, results)), is_null)


def _moments(numbers: _Floats, changes: GroupChanges) -> tuple[Ints, _Floats, _Floats]:
    """Count, mean and sum of squared distances of each group, all rows added."""
    groups, count = changes.groups, changes.count
    counts = np.bincount(groups, minlength=count)
    means = np.bincount(groups, weights=numbers, minlength=count) / np.maximum(counts, 1)
    squares = np.bincount(groups, weights=(numbers - means[groups]) ** 2, minlength=count)
    return counts, means, squares.astype(np.float64, copy=False)


def merged_moments(counts: Any, means: Any, squares: Any, added: Ints, mean: _Floats, square: _Floats) -> Any:
    """Count, mean and sum of squared distances of the values of both sides."""
    total = counts + added
    divisor = np.maximum(total, 1)
    distance = mean - means
    new_squares = squares + square + distance * distance * counts * added / divisor
    # The mean itself where there was nothing before, free of rounding.
    new_means = np.where(counts == 0, mean, means + distance * added / divisor)
    return total, np.where(total == 0, 0.0, new_means), new_squares


def _without(counts: Any, means: Any, squares: Any, removed: Ints, mean: _Floats, square: _Floats) -> Any:
    total = counts - removed
    divisor = np.where(total == 0, 1, total)
    new_means = np.where(removed == 0, means, (counts * means - removed * mean) / divisor)
    distance = mean - new_means
    new_squares = squares - square - distance * distance * total * removed / np.where(counts == 0, 1, counts)
    # One value has no distance from its mean, and rounding must not make a sum of squares negative.
    new_squares = np.where(total <= 1, 0.0, np.maximum(new_squares, 0.0))
    return total, np.where(total <= 0, 0.0, new_means), new_squares
