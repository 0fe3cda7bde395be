"""Keys of a batch, the slots they share, and single keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.errors import UserCodeError
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Attached, KeyTypes, Rows, Single, Space
from snapline.state.stable_hash import encode, hash_word, word_of

TEXT = pa.string()


class Numbers(Attached):
    """A number for each slot."""

    def __init__(self, space: Space) -> None:
        self.numbers: Ints = np.zeros(0, dtype=np.int64)
        self.renumbered = 0
        space.attach(self)

    def grow(self, capacity: int) -> None:
        self.numbers = np.concatenate([self.numbers, np.zeros(capacity - len(self.numbers), dtype=np.int64)])

    def is_used(self, size: int) -> Bools:
        return np.asarray(self.numbers[:size] != 0)

    def keep(self, slots: Ints) -> None:
        self.renumbered += 1
        self.numbers = self.numbers[slots]


def rows_of(keys: Sequence[Any], kind: pa.DataType = TEXT) -> Rows:
    return Rows.of(KeyTypes(kind).encode(pa.array(keys, kind)))


def test_a_space_grows_what_is_attached() -> None:
    space = Space([TEXT])
    numbers = Numbers(space)
    for start in range(0, 10_000, 999):
        keys = [f"key {number}" for number in range(start, start + 999)]
        slots = rows_of(keys).slots(space, add=True)
        numbers.numbers[slots] = np.arange(start, start + 999) + 1
    assert numbers.renumbered == 0
    assert numbers.numbers[rows_of(["key 0", "key 5000"]).slots(space, add=False)].tolist() == [1, 5001]


def test_a_space_makes_room_by_forgetting_unused_keys() -> None:
    space = Space([TEXT])
    numbers = Numbers(space)
    for start in range(0, 20_000, 500):
        slots = rows_of([f"key {number}" for number in range(start, start + 500)]).slots(space, add=True)
        numbers.numbers[slots[::50]] = np.arange(start, start + 500)[::50] + 1
    assert numbers.renumbered > 0
    kept = rows_of([f"key {number}" for number in range(0, 20_000, 50)]).slots(space, add=False)
    assert numbers.numbers[kept].tolist() == [number + 1 for number in range(0, 20_000, 50)]
    assert space.size < 2_000
    assert rows_of(["key 1"]).slots(space, add=False).tolist() == [-1]


def test_key_hashes_go_with_their_slots() -> None:
    space = Space([TEXT, pa.int64()])
    numbers = Numbers(space)
    rows = rows_of([f"key {number}" for number in range(1_500)]).inside([encode(pa.array(range(1_500)))])
    slots = rows.slots(space, add=True)
    numbers.numbers[slots[::3]] = 1
    space.keep(np.flatnonzero(numbers.numbers))
    assert space.key_hashes().tolist() == rows.key_hashes[::3].tolist()


def test_rows_forget_slots_that_were_renumbered() -> None:
    space = Space([TEXT])
    rows = rows_of(["a", "b", "c"])
    assert rows.slots(space, add=True).tolist() == [0, 1, 2]
    space.keep(np.array([1]))
    assert rows.slots(space, add=False).tolist() == [-1, 0, -1]
    assert rows.slots(space, add=True).tolist() == [1, 0, 2]


def test_rows_see_keys_that_came_by_other_rows() -> None:
    space = Space([TEXT])
    rows = rows_of(["a", "b"])
    assert rows.slots(space, add=False).tolist() == [-1, -1]
    rows_of(["b"]).slots(space, add=True)
    assert rows.slots(space, add=False).tolist() == [-1, 0]


@given(st.lists(st.integers(0, 6), max_size=30))
def test_distinct_slots(numbers: list[int]) -> None:
    space = Space([pa.int64()])
    slots = rows_of(numbers, pa.int64()).slots(space, add=True)
    distinct, indices = space.distinct(slots)
    assert sorted(distinct.tolist()) == sorted(set(slots.tolist()))
    if indices is None:
        assert distinct.tolist() == slots.tolist()
    else:
        assert distinct[indices].tolist() == slots.tolist()


def test_columns_behind_the_keys_are_as_many_as_they() -> None:
    with pytest.raises(UserCodeError, match="1 values to go with 2 keys"):
        rows_of(["a", "b"]).inside([encode(pa.array([1]))])


# --- key columns -----------------------------------------------------------------------------------------------------

PAIR = pa.struct([("a", TEXT), ("b", pa.int64())])


@pytest.mark.parametrize(
    "given",
    [
        [("x", 1), ("y", 2)],
        [{"a": "x", "b": 1}, {"a": "y", "b": 2}],
        [pa.array(["x", "y"]), pa.array([1, 2])],
        [pa.chunked_array([["x"], ["y"]]), pa.array([1, 2], pa.int8())],
        pa.table({"a": ["x", "y"], "b": [1, 2]}),
        pa.record_batch({"a": ["x", "y"], "b": [1, 2]}),
        pa.array([{"a": "x", "b": 1}, {"a": "y", "b": 2}], PAIR),
        pa.array([None, {"a": "x", "b": 1}, {"a": "y", "b": 2}], PAIR).slice(1),
    ],
    ids=["tuples", "dicts", "arrays", "chunked", "table", "batch", "structs", "slice"],
)
def test_composite_keys_in_every_form(given: Any) -> None:
    assert [column.to_pylist() for column in KeyTypes(PAIR).columns(given)] == [["x", "y"], [1, 2]]


@pytest.mark.parametrize(
    "given", [[1, 2], pa.array([1, 2]), [pa.array([1, 2])], pa.table({"n": [1, 2]}), pa.chunked_array([[1], [2]])]
)
def test_single_keys_in_every_form(given: Any) -> None:
    assert [column.to_pylist() for column in KeyTypes(pa.int64()).columns(given)] == [[1, 2]]


def test_key_columns_that_do_not_fit_together() -> None:
    with pytest.raises(UserCodeError, match="different numbers of rows"):
        KeyTypes(PAIR).columns([pa.array(["x", "y"]), pa.array([1])])
    with pytest.raises(UserCodeError, match="1 columns"):
        KeyTypes(PAIR).columns([pa.array(["x", "y"])])
    with pytest.raises(UserCodeError, match="2 columns"):
        KeyTypes(pa.int64()).columns([pa.array([1]), pa.array([2])])


SINGLE: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 0, 127]),
    (pa.int64(), [-(2**63), -1, 7, 2**63 - 1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.string(), ["", "a", "12345678", "123456789", "日本", "a\0"]),
    (pa.large_string(), ["x" * 100]),
    (pa.binary(), [b"", b"\0", b"\0" * 9]),
    (pa.bool_(), [True, False]),
]


@pytest.mark.parametrize(("kind", "values"), SINGLE, ids=[str(kind) for kind, _ in SINGLE])
def test_a_single_key_is_the_same_as_one_of_a_column(kind: pa.DataType, values: list[Any]) -> None:
    column = encode(pa.array(values, kind))
    words = [word_of(value, kind) for value in values]
    assert words == [column.word(row) for row in range(len(values))]
    assert [hash_word(word) for word in words if word is not None] == column.hashes().tolist()
    outer = Rows.of([encode(pa.array(["outer"] * len(values)))])
    rows, space = outer.inside([column]), Space([pa.string(), kind])
    singles = [outer.single(row).inside([column.word(row)]) for row in range(len(values))]
    assert singles == [rows.single(row) for row in range(len(values))]
    slots = [space.ensure_one(single) for single in singles]
    assert slots == list(range(len(values)))
    assert space.find(rows).tolist() == slots
    assert [space.find_one(rows.single(row)) for row in range(len(values))] == slots
    assert space.find_one(Single((b"other", 1), 5, 5)) == -1
    assert space.key_hashes().tolist() == rows.key_hashes.tolist()


class _Everything(Attached):
    """Needs every slot."""

    def is_used(self, size: int) -> Bools:
        return np.ones(size, dtype=np.bool_)


def test_many_single_keys() -> None:
    """Single keys and columns of keys find the same slots, also after growth."""
    space = Space([pa.string()])
    space.attach(_Everything())
    names = [f"key {number}" for number in range(5_000)]
    rows = Rows.of([encode(pa.array(names))])
    for row in range(0, 5_000, 2):
        assert space.ensure_one(rows.single(row)) == row // 2
    slots = space.ensure(rows)
    assert sorted(slots.tolist()) == list(range(5_000))
    assert [space.find_one(rows.single(row)) for row in range(5_000)] == slots.tolist()
    assert space.columns()[0].take(slots).to_arrow().to_pylist() == names
