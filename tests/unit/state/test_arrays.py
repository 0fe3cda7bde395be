"""Array helpers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from snapline.state.arrays import MAX_INT64, grown, largest_absolute, objects


@pytest.mark.parametrize("fill", [0, -1])
def test_a_grown_array_is_a_filled_copy(fill: int) -> None:
    small = np.array([1, 2], dtype=np.int64)
    large = grown(small, 4, fill)
    assert large.tolist() == [1, 2, fill, fill]
    large[0] = 9
    assert small.tolist() == [1, 2]


def test_the_largest_absolute_value() -> None:
    assert largest_absolute(np.array([], dtype=np.int64)) == 0
    assert largest_absolute(np.array([3, -5])) == 5
    assert largest_absolute(np.array([-MAX_INT64 - 1])) == MAX_INT64 + 1, "has no int64 of its own"


def test_values_become_python_objects() -> None:
    assert objects([1, "x"]) == [1, "x"]
    assert objects(pa.array([1, None])) == [1, None]
    assert objects(pa.chunked_array([["a"], ["b"]])) == ["a", "b"]
    assert objects(pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))) == [{"k": 1}]
