"""Columns of any Python objects: a snapshot does not see later changes, and copies nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from snapline.state.object_column import ObjectColumn
from snapline.state.pickles import pickled, unpickled


def test_objects_come_back() -> None:
    column = ObjectColumn()
    column.grow(3_000)
    slots = np.array([0, 2_999])
    column.scatter(slots, [{"a": 1}, None])
    assert column.gather(slots) == [{"a": 1}, None]
    assert column.gather(slots, np.array([True, False])) == [None, None]
    column.keep(np.array([2_999, 0][::-1]))
    assert column.gather(np.array([0, 1])) == [{"a": 1}, None]


def test_changes_in_place_are_not_in_the_snapshot() -> None:
    column = ObjectColumn()
    column.unseal()
    given = [1]
    column.set(0, given)
    assert column.get(0) is given
    frozen = column.freeze()
    mine = column.get(0)
    assert mine is not given
    assert column.get(0) is mine, "copied once"
    mine.append(2)
    column.set(1, [3])
    stored = frozen.encode(np.array([0, 1])).to_pylist()
    assert [unpickled(data) for data in stored] == [[1], None]
    frozen.release()
    assert column.get(0) == [1, 2]
    assert column.decode(frozen.encode(np.array([0]))) == [[1]]


def test_each_of_two_snapshots_has_its_own_moment() -> None:
    column = ObjectColumn()
    column.unseal()
    column.set(0, [1])
    first = column.freeze()
    column.get(0).append(2)
    second = column.freeze()
    first.release()
    column.get(0).append(3)
    assert column.decode(second.encode(np.array([0]))) == [[1, 2]]
    assert column.decode(first.encode(np.array([0]))) == [[1]]
    second.release()
    assert column.get(0) == [1, 2, 3]


class Trap:
    """Its pickle runs code."""

    sprung = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return spring, ()


def spring() -> str:
    Trap.sprung += 1
    return "sprung"


def test_a_pickle_stays_closed_until_the_state_is_declared() -> None:
    sprung, column, slots = Trap.sprung, ObjectColumn(), np.array([0, 5])
    pickles = pa.array([pickled(Trap()), pickled([1])], pa.binary())
    column.scatter(slots, column.decode(pickles))
    frozen = column.freeze()
    assert frozen.encode(slots).equals(pickles), "what nobody declares is stored as it was"
    assert Trap.sprung == sprung
    column.unseal()
    assert column.gather(slots) == ["sprung", [1]]
    assert column.decode(pickles) == ["sprung", [1]], "what is restored later is opened at once"
    assert Trap.sprung == sprung + 2
    assert frozen.encode(slots).equals(pickles), "the snapshot is of the moment it was taken at"
