"""Aggregates as pieces that are merged: of a batch, of a group, or of any range of ordered rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.operators.changes import exact_sums
from snapline.operators.changes.accumulator import ChangeAccumulator, Count, Parts
from snapline.operators.changes.change_moments import Variance, merged_moments
from snapline.operators.changes.change_sums import ExactSum, FloatSum
from snapline.operators.changes.group_changes import GroupChanges
from snapline.state.arrays import Ints

Merge = Callable[[Parts, Parts], Parts]


class Fold(ABC):
    """An aggregate whose partial results are numbers that can be merged. Pickled with the job.

    `parts` are the types of the numbers. A piece of zeros is that of no values. Pieces are merged in any grouping, but
    always in the order of their values.
    """

    parts: tuple[pa.DataType, ...]
    result: pa.DataType

    @abstractmethod
    def pieces(self, values: pa.Array | None, count: int) -> Parts:
        """The piece of each of `count` values, none of them null; None for an aggregate without column."""

    @abstractmethod
    def merged(self, left: Parts, right: Parts) -> Parts:
        """The pieces of the values of both."""

    @abstractmethod
    def results(self, parts: Parts) -> pa.Array:
        """The result of each piece. Equal pieces have equal results, to the bit."""


def folded(merge: Merge, pieces: Parts, starts: Ints, ends: Ints) -> Parts:
    """The piece of each range of values, zeros for an empty one; in n log n steps however long the ranges are.

    The result of a range depends on its own values alone, to the bit.
    """
    lengths = np.maximum(ends - starts, 0)
    result = [np.zeros(len(starts), dtype=part.dtype) for part in pieces]
    places = starts.astype(np.int64, copy=True)
    longest = int(lengths.max(initial=0))
    width, level = 1, pieces
    with np.errstate(all="ignore"):  # neighbours of different partitions may be anything
        while width <= longest:
            rows = np.flatnonzero(lengths & width)
            if rows.size:
                at = places[rows]
                both = merge([part[rows] for part in result], [part[at] for part in level])
                for part, new in zip(result, both, strict=True):
                    part[rows] = new
                places[rows] += width
            if 2 * width <= longest:
                level = merge([part[:-width] for part in level], [part[width:] for part in level])
            width *= 2
    return result


def folded_groups(fold: Fold, pieces: Parts, groups: Ints, count: int) -> Parts:
    """The piece of each group; groups are ascending."""
    return folded(
        fold.merged,
        pieces,
        np.searchsorted(groups, np.arange(count)),
        np.searchsorted(groups, np.arange(count), side="right"),
    )


def fold_of(accumulator: ChangeAccumulator) -> Fold | None:
    """The fold that an accumulator over rows that are only added stands for; None if it is none."""
    if isinstance(accumulator, Count):
        return _AccumulatorFold(accumulator, _added)
    if isinstance(accumulator, ExactSum):
        return _AccumulatorFold(accumulator, _added_exactly)
    if isinstance(accumulator, FloatSum):
        return _AccumulatorFold(accumulator, _added)
    if isinstance(accumulator, Variance):
        return _AccumulatorFold(accumulator, _merged_variances)
    return None


class _AccumulatorFold(Fold):
    """An accumulator of which each value is a group by itself."""

    def __init__(self, accumulator: ChangeAccumulator, merge: Merge) -> None:
        self._accumulator = accumulator
        self._merge = merge
        self.parts = accumulator.parts
        self.result = accumulator.result

    def pieces(self, values: pa.Array | None, count: int) -> Parts:
        numbers: Any = np.arange(count)  # such accumulators have no state of their own, so keys are only counted
        zeros = [np.zeros(count, dtype=kind.to_pandas_dtype()) for kind in self.parts]
        return self._accumulator.add_values(zeros, values, GroupChanges(numbers, numbers, None))

    def merged(self, left: Parts, right: Parts) -> Parts:
        return self._merge(left, right)

    def results(self, parts: Parts) -> pa.Array:
        return self._accumulator.take(parts, np.zeros(0))  # type: ignore[arg-type]  # no keys are looked up


def _added(left: Parts, right: Parts) -> Parts:
    return [mine + its for mine, its in zip(left, right, strict=True)]


def _added_exactly(left: Parts, right: Parts) -> Parts:
    return [*exact_sums.merged(left[:-1], right[:-1]), left[-1] + right[-1]]


def _merged_variances(left: Parts, right: Parts) -> Parts:
    return [*merged_moments(*left[:3], *right[:3]), left[3] + right[3]]
