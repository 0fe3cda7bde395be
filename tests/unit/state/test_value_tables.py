"""Tables of values: by slot, with a time to live, and as a cache."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.state.arrays import Ints, Values
from snapline.state.batch_keys import KeyTypes, Rows, Space
from snapline.state.state_types import OBJECT, StateType
from snapline.state.value_tables import Layout, ValueTable
from snapline.testing import ManualClock

LAYOUT = Layout(KeyTypes(pa.int64()))
LONG = StateType(pa.int64())


def slots(space: Space, *keys: int) -> Ints:
    return Rows.of(LAYOUT.key.encode(list(keys))).slots(space, add=True)


class Below:
    """A store with one value for each even key; notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def load(self, space: Space, slots: Ints) -> tuple[Ints, Values, Ints | None]:
        keys = space.columns()[0].take(slots).to_arrow().to_numpy()
        self.asked.append(sorted(keys.tolist()))
        found = keys % 2 == 0
        return slots[found], pa.array(keys[found] * 10), None


def test_values_are_written_merged_and_removed() -> None:
    space = LAYOUT.space()
    table = ValueTable(LAYOUT, space, LONG, ttl_ms=None, clock=lambda: 0)
    at = slots(space, 1, 2, 3)
    table.write(at[:2], pa.array([10, None]))
    assert table.read(at).to_pylist() == [10, None, None]
    assert table.merge("sum", slots(space, 1, 3, 1), pa.array([1, 5, 1]))
    assert table.read_if_present(at[[0, 2]])[1]
    assert table.read(at).to_pylist() == [12, None, 5]
    table.erase(np.array([at[0], -1]))
    assert [table.get(int(slot)) for slot in (*at, -1)] == [None, None, 5, None]


def test_what_cannot_be_merged_in_place_is_left_alone() -> None:
    space = LAYOUT.space()
    table = ValueTable(LAYOUT, space, LONG, ttl_ms=None, clock=lambda: 0)
    at = slots(space, 1)
    table.write(at, pa.array([(1 << 63) - 1]))
    assert not table.merge("sum", at, pa.array([1])), "it would overflow"
    assert not table.merge("first", at, pa.array([1]))
    assert not table.merge("sum", at, pa.array([None], pa.int64()))
    assert table.read(at).to_pylist() == [(1 << 63) - 1]


def test_a_number_of_values_that_does_not_fit() -> None:
    space = LAYOUT.space()
    table = ValueTable(LAYOUT, space, OBJECT, ttl_ms=None, clock=lambda: 0)
    with pytest.raises(UserCodeError, match="1 values for 2 keys"):
        table.write(slots(space, 1, 2), ["x"])
    with pytest.raises(UserCodeError, match="5 is not a column of values"):
        table.write(slots(space, 1), 5)


def test_entries_expire_unless_they_are_read() -> None:
    clock = ManualClock(0)
    space = LAYOUT.space()
    table = ValueTable(LAYOUT, space, LONG, ttl_ms=100, clock=clock)
    at = slots(space, 1, 2)
    table.write(at, pa.array([10, 20]))
    table.refresh_on_read = True
    clock.advance("99ms")
    assert table.get(int(at[0])) == 10
    clock.advance("99ms")
    assert table.read(at).to_pylist() == [10, None]
    assert table.is_used(2).tolist() == [True, False]
    frozen = table.freeze()
    assert frozen.rows(8).slice(0, 2).column("value").to_pylist() == [10]
    frozen.release()


def test_a_cache_asks_once_for_what_it_does_not_know() -> None:
    below, space = Below(), LAYOUT.space()
    table = ValueTable(LAYOUT, space, LONG, ttl_ms=None, clock=lambda: 0, backing=below)
    at = slots(space, 1, 2, 3, 4)
    table.set(int(at[3]), 7)
    assert table.read(at).to_pylist() == [None, 20, None, 7]
    assert table.read(at).to_pylist() == [None, 20, None, 7]
    assert below.asked == [[1, 2, 3]]


def test_changes_of_a_cache_are_frozen_once() -> None:
    space = LAYOUT.space()
    table = ValueTable(LAYOUT, space, LONG, ttl_ms=None, clock=lambda: 0, backing=Below())
    at = slots(space, 1, 2, 3)
    table.write(at[:2], pa.array([5, None]))
    changes = table.freeze_changes()
    assert np.flatnonzero(changes.dirty).tolist() == at[:2].tolist()
    assert changes.present[at[:2]].tolist() == [True, False]
    assert not table.freeze_changes().dirty.any()
