"""Rows of a batch by key: what a vectorised update computes with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.state.hashing import Ints


class Groups:
    """The rows of a batch that have the same key. Groups are numbered from 0 to `count` - 1.

    `indices` has the number of the group of each row; none if no key comes twice: then row i is group i. The methods
    give one value for each group, from one for each row; nulls among the values are left out.
    """

    def __init__(self, count: int, indices: Ints | None) -> None:
        self.count = count
        self.indices = indices

    def counts(self) -> pa.Array:
        """How many rows each group has."""
        if self.indices is None:
            return pa.array(np.ones(self.count, dtype=np.int64))
        return pa.array(np.bincount(self.indices, minlength=self.count))

    def sum(self, values: Any) -> pa.Array:
        """Of whole numbers or floats; 0 for a group of nulls only."""
        values = _array(values)
        if values.null_count:
            values = pc.fill_null(values, pa.scalar(0, values.type))
        if self.indices is None:
            return values
        numbers = values.to_numpy(zero_copy_only=False)
        if numbers.dtype == np.float64:
            return pa.array(np.bincount(self.indices, weights=numbers, minlength=self.count))
        result = np.zeros(self.count, dtype=numbers.dtype)
        np.add.at(result, self.indices, numbers)
        return pa.array(result)

    def min(self, values: Any) -> pa.Array:
        return self._extreme(_array(values), "ascending")

    def max(self, values: Any) -> pa.Array:
        return self._extreme(_array(values), "descending")

    def first(self, values: Any) -> pa.Array:
        return self._pick(_array(values), -1)

    def last(self, values: Any) -> pa.Array:
        return self._pick(_array(values), 1)

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
