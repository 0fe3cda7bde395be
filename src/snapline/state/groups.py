"""Rows of a batch by key: what a vectorised update computes with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import UserCodeError
from snapline.state.exact_cast import converted

_MAX_INT64 = (1 << 63) - 1
_DECIMAL_DIGITS = 57
"""Of sums of decimals: those of the longest decimal, and enough for any number of them."""


class Groups:
    """The rows of a batch that have the same key. Groups are numbered from 0 to `count` - 1.

    `indices` has the number of the group of each row; none if no key comes twice: then row i is group i. The methods
    give one value for each group, from one for each row; nulls among the values are left out.
    """

    def __init__(self, count: int, indices: npt.NDArray[np.int32] | None) -> None:
        self.count = count
        self.indices = indices

    def counts(self) -> pa.Array:
        """How many rows each group has."""
        if self.indices is None:
            return pa.array(np.ones(self.count, dtype=np.int64))
        return pa.array(np.bincount(self.indices, minlength=self.count))

    def sum(self, values: Any, onto: pa.Array | None = None) -> pa.Array:
        """Of whole numbers or floats, beginning with 0, or with the values `onto` for each group, null being 0.

        Narrow numbers are added up as wide ones. `UserCodeError` if a sum is too large even for those.
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
        if numbers.dtype.kind in "iu" and _largest(result) + len(numbers) * _largest(numbers) > _MAX_INT64:
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
        values = _array(values)
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


def _array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values if isinstance(values, pa.Array) else pa.array(values)


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a type are added up."""
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.decimal256(_DECIMAL_DIGITS, kind.scale) if pa.types.is_decimal128(kind) else kind


def _largest(numbers: npt.NDArray[Any]) -> int:
    return max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))


def _filled(values: pa.Array) -> pa.Array:
    return pc.fill_null(values, pa.scalar(0, values.type)) if values.null_count else values
