"""Sums and means of values that are added and taken back."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.operators.changes import exact_sums
from snapline.operators.changes.accumulator import REAL, WHOLE, ChangeAccumulator, Overflow, Parts, or_null
from snapline.operators.changes.group_changes import GroupChanges
from snapline.state.batch_keys import Rows

_DIGITS = Context(prec=76, rounding=ROUND_HALF_UP)


class ExactSum(ChangeAccumulator):
    """The sum of whole numbers or decimals, exact however many there are; null without values.

    `overflow` decides about sums that do not fit the type `result`.
    """

    def __init__(
        self, column: str, kind: pa.DataType, result: pa.DataType, where: str | None, overflow: Overflow
    ) -> None:
        self.column = column
        self.where = where
        self.result = result
        self._overflow = overflow
        self.parts = (*(WHOLE for _ in range(exact_sums.limb_count(kind))), WHOLE)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        return [*exact_sums.added(parts[:-1], values, changes), parts[-1] + changes.totals]

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        results, overflows = exact_sums.sums(parts[:-1], self.result)
        if overflows.any():
            results = self._overflow(results, overflows)
        return or_null(results, parts[-1] == 0)


class ExactMean(ExactSum):
    """The mean of whole numbers or decimals, from their exact sum: a float, or a decimal rounded half up."""

    def __init__(
        self, column: str, kind: pa.DataType, result: pa.DataType, where: str | None, overflow: Overflow
    ) -> None:
        super().__init__(column, kind, result, where, overflow)
        self._scale = kind.scale if pa.types.is_decimal(kind) else 0

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        limbs, counts = parts[:-1], parts[-1]
        if pa.types.is_decimal(self.result):
            return self._decimals(limbs, counts)
        means = exact_sums.floats(limbs, self._scale) / np.where(counts == 0, 1, counts)
        return or_null(pa.array(means), counts == 0)

    def _decimals(self, limbs: Parts, counts: npt.NDArray[Any]) -> pa.Array:
        """Quotients digit by digit, which no vectorised kernel has."""
        totals = [0] * len(counts)
        for limb in reversed(limbs):
            totals = [(total << 32) + part for total, part in zip(totals, limb.tolist(), strict=True)]
        unit, limit = Decimal(1).scaleb(-self.result.scale), 10**self.result.precision
        means: list[Decimal | None] = []
        overflows = np.zeros(len(counts), dtype=np.bool_)
        for row, (total, count) in enumerate(zip(totals, counts.tolist(), strict=True)):
            if not count:
                means.append(None)
                continue
            mean = _DIGITS.divide(Decimal(total).scaleb(-self._scale, _DIGITS), Decimal(count))
            mean = mean.quantize(unit, context=_DIGITS)
            overflows[row] = abs(int(mean.scaleb(self.result.scale, _DIGITS))) >= limit
            means.append(None if overflows[row] else mean)
        results = pa.array(means, self.result)
        return self._overflow(results, overflows) if overflows.any() else results


class FloatSum(ChangeAccumulator):
    """The sum of floats; null without values. What is added and taken back later leaves no trace but rounding.

    Over changes the sum is kept with twice the digits, and infinities and NaN are counted apart, because they cannot
    be subtracted.
    """

    def __init__(self, column: str, result: pa.DataType, where: str | None, *, changing: bool) -> None:
        self.column = column
        self.where = where
        self.result = result
        self._changing = changing
        self.parts = (WHOLE, REAL, REAL, WHOLE, WHOLE, WHOLE) if changing else (WHOLE, REAL)

    def add_values(self, parts: Parts, values: pa.Array | None, changes: GroupChanges) -> Parts:
        assert values is not None
        floats = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        counts = parts[0] + changes.totals
        if not self._changing:
            # One after the other, so that the rounding does not depend on where a batch ends.
            total = parts[1].copy()
            np.add.at(total, changes.groups, floats)
            return [counts, total]
        odd = [np.isnan(floats), floats == np.inf, floats == -np.inf]
        is_finite = np.isfinite(floats)
        if is_finite.all():
            odd_counts = list(parts[3:])
        else:
            odd_counts = [
                part + changes.weighted(flags.astype(np.int64)) for part, flags in zip(parts[3:], odd, strict=True)
            ]
            floats = np.where(is_finite, floats, 0.0)
        high, low = _two_sum(parts[1], changes.float_sums(floats))
        high, low = _two_sum(high, low + parts[2])
        is_empty = counts == sum(odd_counts)
        if is_empty.any():
            high, low = np.where(is_empty, 0.0, high), np.where(is_empty, 0.0, low)
        return [counts, high, low, *odd_counts]

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        return or_null(pa.array(self._sums(parts)).cast(self.result, safe=False), parts[0] == 0)

    def _sums(self, parts: Parts) -> npt.NDArray[np.float64]:
        sums: npt.NDArray[np.float64] = parts[1]
        if not self._changing:
            return sums
        nans, highs, lows = (part > 0 for part in parts[3:])
        if highs.any() or lows.any() or nans.any():
            sums = np.where(highs, np.inf, np.where(lows, -np.inf, sums))
            sums = np.where(nans | (highs & lows), np.nan, sums)
        return sums


class FloatMean(FloatSum):
    """The mean of floats; null without values."""

    def take(self, parts: Parts, keys: Rows) -> pa.Array:
        counts = parts[0]
        means = self._sums(parts) / np.where(counts == 0, 1, counts)
        return or_null(pa.array(means).cast(self.result, safe=False), counts == 0)


def _two_sum(
    left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """A sum, and what its rounding has lost."""
    total = left + right
    part = total - left
    return total, (left - (total - part)) + (right - part)
