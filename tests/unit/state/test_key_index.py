"""The index of keys and the spaces made of it: slots, growth, collisions, renumbering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.errors import UserCodeError
from snapline.state.arrays import MIN_CAPACITY, Bools, Ints, Words
from snapline.state.batch_keys import Attached, KeyTypes, Rows, Single, Space
from snapline.state.key_index import KeyIndex
from snapline.state.stable_hash import EncodedKeys, encode, hash_columns, hash_word, word_of

TEXT = pa.string()


def hashes_of(columns: Sequence[pa.Array]) -> Words:
    return hash_columns(columns)


def constant(columns: Sequence[pa.Array]) -> Words:
    """The worst of all hashes."""
    return np.full(len(columns[0]), 2**64 - 1, dtype=np.uint64)


def few(columns: Sequence[pa.Array]) -> Words:
    """Three hashes for all keys, two of which begin in the same bucket."""
    choices = np.array([5, 5 + (1 << 40), 77], dtype=np.uint64)
    hashes: Words = choices[hash_columns(columns) % np.uint64(3)]
    return hashes


HASHES: dict[str, Callable[[Sequence[pa.Array]], Words]] = {"good": hashes_of, "three": few, "one": constant}


class Indexed:
    """A `KeyIndex`, and next to it a dict of what it should say."""

    def __init__(self, kinds: Sequence[pa.DataType], hashes: Callable[[Sequence[pa.Array]], Words]) -> None:
        self.kinds = kinds
        self.index = KeyIndex(kinds)
        self.slots: dict[tuple[Any, ...], int] = {}
        self._hashes = hashes

    def _encoded(self, keys: Sequence[tuple[Any, ...]]) -> tuple[list[EncodedKeys], Words]:
        columns = [pa.array([key[at] for key in keys], kind) for at, kind in enumerate(self.kinds)]
        return [encode(column) for column in columns], self._hashes(columns)

    def find(self, keys: Sequence[tuple[Any, ...]]) -> list[int]:
        found: list[int] = self.index.find(*self._encoded(keys)).tolist()
        return found

    def add(self, keys: Sequence[tuple[Any, ...]]) -> None:
        encoded, hashes = self._encoded(keys)
        slots = self.index.find(encoded, hashes)
        assert slots.tolist() == [self.slots.get(key, -1) for key in keys]
        before = self.index.size
        new = self.index.add_missing(encoded, hashes, slots)
        assert [slots[row] for row in new.tolist()] == list(range(before, self.index.size)), "rows in order of slots"
        for row in new.tolist():
            assert keys[row] not in self.slots
            self.slots[keys[row]] = int(slots[row])
        assert slots.tolist() == [self.slots[key] for key in keys]
        assert self.index.size == len(self.slots)

    def check(self) -> None:
        keys = list(self.slots)
        assert self.find(keys) == list(self.slots.values())
        columns = [column.to_arrow().to_pylist() for column in self.index.frozen_keys()]
        assert list(zip(*columns, strict=True)) == sorted(keys, key=self.slots.__getitem__)

    def keep(self, slots: list[int]) -> None:
        self.index = self.index.without(np.array(slots, dtype=np.int64))
        kept = {slot: number for number, slot in enumerate(slots)}
        self.slots = {key: kept[slot] for key, slot in self.slots.items() if slot in kept}


texts = st.sampled_from(["", "a", "a\0", "a\0\0", "\0", "b", "aaaaaaaa", "aaaaaaab", "aaaaaaaaa", "é", "x" * 40])
pairs = st.tuples(texts, st.integers(-2, 2))


@settings(max_examples=30)
@given(st.sampled_from(list(HASHES)), st.lists(st.lists(pairs, max_size=12), max_size=6), st.data())
def test_whatever_the_hashes_every_key_has_its_own_slot(
    hashes: str, batches: list[list[tuple[str, int]]], data: st.DataObject
) -> None:
    indexed = Indexed([TEXT, pa.int64()], HASHES[hashes])
    for batch in batches:
        indexed.add(batch)
        indexed.check()
        if data.draw(st.booleans()) and indexed.slots:
            indexed.keep(data.draw(st.lists(st.sampled_from(sorted(indexed.slots.values())), unique=True).map(sorted)))
            indexed.check()
    assert indexed.find([("never", 0), ("", 99)]) == [-1, -1]


@pytest.mark.parametrize("hashes", HASHES)
def test_strings_that_differ_in_one_byte(hashes: str) -> None:
    indexed = Indexed([TEXT], HASHES[hashes])
    stems = ["", *("k" * length for length in range(1, 40))]
    keys = [(stem + last,) for stem in stems for last in ("", "a", "\0")][:: 1 if hashes == "good" else 2]
    for start in range(0, len(keys), 23):
        indexed.add(keys[start : start + 23])
    indexed.check()
    assert indexed.find([("k" * 45,), ("ka\0",), ("kk\0\0",)]) == [-1, -1, -1]


@pytest.mark.parametrize("count", [MIN_CAPACITY - 1, MIN_CAPACITY, MIN_CAPACITY + 1, 3 * MIN_CAPACITY + 7])
@pytest.mark.parametrize("batch", [1024, 5000])
def test_growth(count: int, batch: int) -> None:
    indexed = Indexed([pa.int64(), TEXT], hashes_of)
    keys = [(number % 50, f"key {number}") for number in range(count)]
    for start in range(0, count, batch):
        indexed.add(keys[start : start + batch])
    assert indexed.index.capacity >= count
    indexed.check()


def test_growth_with_collisions() -> None:
    indexed = Indexed([TEXT], lambda columns: hash_columns(columns) % np.uint64(400))
    indexed.add([(f"key {number}",) for number in range(1_500)])
    indexed.check()


def test_numbers_with_the_same_low_bits() -> None:
    """They all begin in one bucket, so most are found only by probing."""
    index, count = KeyIndex([pa.int64()]), 500
    keys = [encode(pa.array(range(count)))]
    hashes = np.arange(count, dtype=np.uint64) << np.uint64(40)
    slots = index.find(keys, hashes)
    index.add_missing(keys, hashes, slots)
    assert slots.tolist() == index.find(keys, hashes).tolist() == list(range(count))
    others = np.arange(count, 2 * count, dtype=np.uint64) << np.uint64(40)
    assert set(index.find([encode(pa.array(range(count, 2 * count)))], others).tolist()) == {-1}


def test_many_duplicates_in_a_batch() -> None:
    indexed = Indexed([TEXT], hashes_of)
    keys = [(f"key {number * number % 7}",) for number in range(3_000)]
    indexed.add(keys)
    assert indexed.index.size == len(set(keys))
    indexed.check()


def test_nothing_is_found_in_nothing() -> None:
    indexed = Indexed([TEXT, TEXT], hashes_of)
    assert indexed.find([("", "")]) == [-1]
    assert indexed.find([]) == []
    indexed.add([])
    indexed.keep([])
    assert indexed.index.size == 0


def test_what_is_frozen_stays_as_it_was() -> None:
    indexed = Indexed([TEXT, pa.int64()], hashes_of)
    keys = [(f"key {number}", number) for number in range(5_000)]
    indexed.add(keys[:900])
    frozen = indexed.index.frozen_keys()
    indexed.add(keys[900:1_000])
    indexed.add(keys[1_000:])
    indexed.keep(list(range(4_000, 5_000)))
    indexed.add(keys[:500])
    assert [column.to_arrow().to_pylist() for column in frozen] == [
        list(column) for column in zip(*keys[:900], strict=True)
    ]


# --- spaces ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (128, pa.int8()),
        (-1, pa.uint8()),
        (True, pa.int64()),
        (1, pa.bool_()),
        ("x", pa.binary()),
        (1.0, pa.float64()),
        ("\ud800", pa.string()),
        (None, pa.int64()),
    ],
)
def test_what_only_a_column_can_tell(value: Any, kind: pa.DataType) -> None:
    assert word_of(value, kind) is None


class _Everything(Attached):
    """Needs every slot."""

    def is_used(self, size: int) -> Bools:
        return np.ones(size, dtype=np.bool_)


def test_many_single_keys() -> None:
    """One by one and together, through growth, single keys get the slots that columns of them find."""
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
