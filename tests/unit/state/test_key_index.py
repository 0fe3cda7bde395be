"""The index of keys: slots, growth, collisions, renumbering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.state.arrays import MIN_CAPACITY, Words
from snapline.state.key_index import KeyIndex
from snapline.state.stable_hash import EncodedKeys, encode, hash_columns

TEXT = pa.string()


def hashes_of(columns: Sequence[pa.Array]) -> Words:
    return hash_columns(columns)


def constant(columns: Sequence[pa.Array]) -> Words:
    """The worst of all hashes."""
    return np.full(len(columns[0]), 2**64 - 1, dtype=np.uint64)


def few(columns: Sequence[pa.Array]) -> Words:
    """Three hashes for all keys, two of which start in the same bucket."""
    choices = np.array([5, 5 + (1 << 40), 77], dtype=np.uint64)
    hashes: Words = choices[hash_columns(columns) % np.uint64(3)]
    return hashes


HASHES: dict[str, Callable[[Sequence[pa.Array]], Words]] = {"good": hashes_of, "three": few, "one": constant}


class Indexed:
    """A `KeyIndex`, and a dict of its expected contents."""

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
        self.index = self.index.with_only(np.array(slots, dtype=np.int64))
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
    """All start in one bucket, so most are found only by probing."""
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
