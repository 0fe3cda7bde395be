"""Rows of a batch grouped by key, for vectorised updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import UserCodeError
from snapline.state.arrays import MAX_INT64, largest_absolute
from snapline.state.exact_cast import converted

_DECIMAL_DIGITS = 57
"""Digits of sums of decimals: enough for any number of the longest decimals."""


class Groups:
    """The rows of a batch grouped by key. Groups are numbered from 0 to `count` - 1.

    `indices` holds the group of each row, or None if no key comes twice: then row i is group i. The methods take one
    value per row and return one per group; they ignore nulls.
    """

    def __init__(self, count: int, indices: npt.NDArray[np.int32] | None) -> None:
        self.count = count
        self.indices = indices

    def counts(self) -> pa.Array:
        """The number of rows of each group."""
        if self.indices is None:
            return pa.array(np.ones(self.count, dtype=np.int64))
        return pa.array(np.bincount(self.indices, minlength=self.count))

    def sum(self, values: Any, onto: pa.Array | None = None) -> pa.Array:
        """Sum numbers, starting from 0, or from the value of each group in `onto` (null counts as 0).

        Narrow numbers are added as wide ones. Raises `UserCodeError` if a sum is too large even for those.
        """
        values = self._of_rows(values)
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int64())
        values = _filled(converted(values, _wide(values.type if onto is None else onto.type)))
        if onto is not None:
            onto = _filled(onto.cast(values.type))
        try:
            if self.indices is None:
                return values if onto is None else pc.add_checked(onto, values)
            return self._added_up(values, onto, self.indices)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise UserCodeError(f"a sum is too large for the type {values.type}: {error}") from error

    def _added_up(self, values: pa.Array, onto: pa.Array | None, indices: npt.NDArray[np.int32]) -> pa.Array:
        numbers = values.to_numpy(zero_copy_only=False)
        if onto is None:
            result = np.zeros(self.count, dtype=numbers.dtype)
        else:
            result = onto.to_numpy(zero_copy_only=False).copy()
        if numbers.dtype.kind in "iu":
            bound = largest_absolute(result) + len(numbers) * largest_absolute(numbers)
            if bound > MAX_INT64:
                result, numbers = result.astype(object), numbers.astype(object)
        np.add.at(result, indices, numbers)
        return pa.array(result, values.type)

    def min(self, values: Any) -> pa.Array:
        return self._extreme(self._of_rows(values), "ascending")

    def max(self, values: Any) -> pa.Array:
        return self._extreme(self._of_rows(values), "descending")

    def first(self, values: Any) -> pa.Array:
        return self._pick(self._of_rows(values), -1)

    def last(self, values: Any) -> pa.Array:
        return self._pick(self._of_rows(values), 1)

    def _of_rows(self, values: Any) -> pa.Array:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        elif not isinstance(values, pa.Array):
            values = pa.array(values)
        rows = self.count if self.indices is None else len(self.indices)
        if len(values) != rows:
            raise UserCodeError(f"{len(values)} values for {rows} keys; give one for each")
        return values

    def _pick(self, values: pa.Array, step: int) -> pa.Array:
        if self.indices is None and not values.null_count:
            return values
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))[::step]
        indices = rows if self.indices is None else self.indices[rows]
        chosen = np.full(self.count, -1, dtype=np.int64)
        chosen[indices] = rows
        return values.take(pa.array(chosen, mask=chosen < 0))

    def _extreme(self, values: pa.Array, order: str) -> pa.Array:
        if self.indices is None:
            return values
        rows = pc.array_sort_indices(values, order=order).to_numpy()
        if values.null_count:
            rows = rows[: len(values) - values.null_count]
        chosen = np.full(self.count, -1, dtype=np.int64)
        chosen[self.indices[rows[::-1]]] = rows[::-1]
        return values.take(pa.array(chosen, mask=chosen < 0))


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a type are added."""
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.decimal256(_DECIMAL_DIGITS, kind.scale) if pa.types.is_decimal128(kind) else kind


def _filled(values: pa.Array) -> pa.Array:
    return pc.fill_null(values, pa.scalar(0, values.type)) if values.null_count else values
