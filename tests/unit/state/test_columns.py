"""Arrays by slot, and copies before changes."""

from __future__ import annotations

import numpy as np
import pytest

from snapline.state.arrays import MIN_CAPACITY
from snapline.state.columns import CopyOnWrite, SlotArray


@pytest.mark.parametrize("make", [SlotArray, CopyOnWrite])
def test_arrays_grow_and_keep(make: type[SlotArray]) -> None:
    array = make(np.int64, fill=-1)
    array.array[:3] = [10, 20, 30]
    array.grow(MIN_CAPACITY + 1)
    assert len(array.array) == MIN_CAPACITY + 1
    array.grow(1)
    assert len(array.array) == MIN_CAPACITY + 1
    array.keep(np.array([0, 2]))
    assert array.array[:3].tolist() == [10, 30, -1]


def test_a_frozen_array_is_copied_once() -> None:
    array = CopyOnWrite(np.int64)
    assert array.own() is array.array
    frozen = array.freeze()
    array.own()[0] = 5
    assert frozen[0] == 0
    assert array.own() is array.array
    assert array.array is not frozen


def test_a_grown_array_needs_no_further_copy() -> None:
    array = CopyOnWrite(np.int64)
    frozen = array.freeze()
    array.grow(2 * MIN_CAPACITY)
    grown = array.array
    assert array.own() is grown
    assert len(frozen) == MIN_CAPACITY
