"""From keys to slots: a hash table that looks up whole batches at once.

Every distinct key gets a slot, a number from 0 on, in the order of arrival. State lives in columns indexed by slot. A
slot never changes its key, so what a snapshot refers to stays valid while the table grows: new keys are appended, and
larger arrays are copies. Keys are removed only by building a new index without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.state.arrays import MIN_CAPACITY, Bools, Ints, Octets, Words, grown
from snapline.state.stable_hash import DAY_MS, BytesKeys, EncodedKeys, FixedKeys, Word, bytes_of, is_bytes, is_text

_LOAD = 4
"""Least number of buckets per slot."""


class FixedKeyColumn:
    """Keys of one word each, by slot."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.words: Words = np.zeros(MIN_CAPACITY, dtype=np.uint64)

    def append(self, size: int, keys: FixedKeys) -> None:
        end = size + len(keys)
        if end > len(self.words):
            self.words = grown(self.words, max(end, 2 * len(self.words)))
        self.words[size:end] = keys.words

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def append_one(self, size: int, word: Word) -> None:
        if size >= len(self.words):
            self.words = grown(self.words, 2 * len(self.words))
        self.words[size] = word

    def equals(self, slots: Ints, keys: FixedKeys) -> Bools:
        return np.asarray(self.words[slots] == keys.words)

    def equals_one(self, slot: int, word: Word) -> bool:
        return bool(self.words[slot] == word)

    def frozen(self, size: int) -> FrozenFixedKeys:
        return FrozenFixedKeys(self.kind, self.words[:size])


class BytesKeyColumn:
    """Strings or bytes, by slot, concatenated."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._data: Octets = np.zeros(8 * MIN_CAPACITY, dtype=np.uint8)
        self._offsets: Ints = np.zeros(MIN_CAPACITY + 1, dtype=np.int64)
        self._size = 0
        self._stored: pa.Array | None = None

    def append(self, size: int, keys: BytesKeys) -> None:
        offsets, data = bytes_of(keys.array)
        self._append(size, offsets[1:], data)

    @property
    def nbytes(self) -> int:
        return self._data.nbytes + self._offsets.nbytes

    def append_one(self, size: int, word: Word) -> None:
        assert isinstance(word, bytes)
        self._append(size, np.array([len(word)]), np.frombuffer(word, dtype=np.uint8))

    def _append(self, size: int, ends: Ints, data: Octets) -> None:
        end, first = size + len(ends), int(self._offsets[size])
        last = first + len(data)
        if end >= len(self._offsets):
            self._offsets = grown(self._offsets, max(end + 1, 2 * len(self._offsets)))
        if last > len(self._data):
            self._data = grown(self._data, max(last, 2 * len(self._data)))
        self._offsets[size + 1 : end + 1] = ends + first
        self._data[first:last] = data
        self._size, self._stored = end, None

    def equals(self, slots: Ints, keys: BytesKeys) -> Bools:
        if not self._size:
            return np.zeros(len(slots), dtype=np.bool_)
        stored = self._array().take(pa.array(np.maximum(slots, 0)))
        result: Bools = pc.equal(stored, keys.array).to_numpy(zero_copy_only=False)
        return result.copy()

    def equals_one(self, slot: int, word: Word) -> bool:
        return self._data[self._offsets[slot] : self._offsets[slot + 1]].tobytes() == word

    def frozen(self, size: int) -> FrozenBytesKeys:
        return FrozenBytesKeys(self.kind, self._array().slice(0, size))

    def _array(self) -> pa.Array:
        if self._stored is None:
            buffers = [None, pa.py_buffer(self._offsets[: self._size + 1]), pa.py_buffer(self._data)]
            self._stored = pa.Array.from_buffers(pa.large_binary(), self._size, buffers)
        return self._stored


@dataclass(frozen=True, slots=True)
class FrozenFixedKeys:
    """The words of the first slots; they never change."""

    kind: pa.DataType
    words: Words

    def encoded(self, slots: Ints) -> FixedKeys:
        """Keys for another index, whose hashes are known: those of the result may be wrong."""
        words = self.words[slots]
        return FixedKeys(words, words)

    def take(self, slots: Ints) -> FrozenFixedKeys:
        return FrozenFixedKeys(self.kind, self.words[slots])

    def to_arrow(self) -> pa.Array:
        kind = self.kind
        if pa.types.is_unsigned_integer(kind):
            return pa.array(self.words).cast(kind)
        if pa.types.is_boolean(kind):
            return pa.array(self.words.astype(np.bool_))
        if pa.types.is_floating(kind):
            return pa.array(self.words.view(np.float64)).cast(kind, safe=False)
        numbers = self.words.view(np.int64)
        if pa.types.is_date32(kind):
            return pa.array(numbers.astype(np.int32)).view(kind)
        if pa.types.is_date64(kind):
            return pa.array(numbers * DAY_MS).view(kind)
        if pa.types.is_timestamp(kind):
            return pa.array(numbers).view(kind)
        return pa.array(numbers).cast(kind)


@dataclass(frozen=True, slots=True)
class FrozenBytesKeys:
    """The strings or bytes of the first slots, as a large binary array; they never change."""

    kind: pa.DataType
    array: pa.Array

    def encoded(self, slots: Ints) -> BytesKeys:
        return BytesKeys(self.take(slots).array)

    def take(self, slots: Ints) -> FrozenBytesKeys:
        return FrozenBytesKeys(self.kind, self.array.take(pa.array(slots)))

    def to_arrow(self) -> pa.Array:
        return (self.array.view(pa.large_string()) if is_text(self.kind) else self.array).cast(self.kind)


FrozenKeys: TypeAlias = FrozenFixedKeys | FrozenBytesKeys


def _firsts(hashes: Words) -> Ints:
    """The first row of each hash, ascending."""
    rows = np.arange(len(hashes))
    found, shift = [], 0
    while rows.size:
        # Each row claims a place by some bits of its hash; the first one to claim a place gets it.
        size = 1 << (4 * len(rows)).bit_length()
        left = hashes[rows]
        places = ((left >> np.uint64(shift)) & np.uint64(size - 1)).view(np.int64)
        claims = np.empty(size, dtype=np.int64)
        claims[places[::-1]] = rows[::-1]
        winners = claims.take(places)
        found.append(rows[winners == rows])
        # Rows that lost to another hash claim again, by other bits.
        rows = rows[hashes[winners] != left]
        shift = (shift + 13) % 40
    return np.sort(np.concatenate(found)) if len(found) > 1 else found[0]


class KeyIndex:
    """The slots of keys of one or more columns. For one thread only; frozen keys may be read by any."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.size = 0
        self._columns = [
            BytesKeyColumn(kind) if is_text(kind) or is_bytes(kind) else FixedKeyColumn(kind) for kind in kinds
        ]
        self._hashes: Words = np.zeros(MIN_CAPACITY, dtype=np.uint64)
        self._buckets: npt.NDArray[np.int32] = np.full(_LOAD * MIN_CAPACITY, -1, dtype=np.int32)

    @property
    def capacity(self) -> int:
        """How many slots fit before arrays have to grow."""
        return len(self._buckets) // _LOAD

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._hashes.nbytes + self._buckets.nbytes + sum(column.nbytes for column in self._columns)

    def find(self, keys: Sequence[EncodedKeys], hashes: Words) -> Ints:
        """The slot of each row, -1 for unknown keys."""
        slots = self._probe(hashes)
        if len(keys) == 1 and keys[0].is_hash_exact:
            return slots
        # Different keys with the same hash are very rare, but possible.
        for row in np.flatnonzero(~self._equals(slots, keys) & (slots >= 0)).tolist():
            slots[row] = self.find_one([column.word(row) for column in keys], int(hashes[row]))
        return slots

    def _probe(self, hashes: Words) -> Ints:
        """The first slot with the hash of each row, or -1."""
        buckets, mask = self._buckets, len(self._buckets) - 1
        positions = (hashes & np.uint64(mask)).view(np.int64)
        slots = buckets.take(positions).astype(np.int64)
        rows = np.flatnonzero((self._hashes.take(slots) != hashes) & (slots >= 0))
        positions, hashes = positions[rows], hashes[rows]
        step = 0
        while rows.size:
            step += 1
            positions = (positions + step) & mask
            found = buckets.take(positions).astype(np.int64)
            slots[rows] = found
            is_open = (self._hashes.take(found) != hashes) & (found >= 0)
            rows, positions, hashes = rows[is_open], positions[is_open], hashes[is_open]
        return slots

    def add_missing(self, keys: Sequence[EncodedKeys], hashes: Words, slots: Ints) -> Ints:
        """Give slots to rows that have -1 in `slots`. Returns the rows with new keys, ordered by slot."""
        missing = np.flatnonzero(slots < 0)
        added = []
        while missing.size:
            firsts = _firsts(hashes[missing])
            new, missing = missing[firsts], np.delete(missing, firsts)
            start = self.size
            self.append([column.take(new) for column in keys], hashes[new])
            slots[new] = np.arange(start, self.size)
            added.append(new)
            if missing.size:
                slots[missing] = self.find([column.take(missing) for column in keys], hashes[missing])
                missing = missing[slots[missing] < 0]
        return added[0] if len(added) == 1 else np.concatenate([*added, missing])

    def append(self, keys: Sequence[EncodedKeys], hashes: Words) -> None:
        """Give the next slots to unknown keys, all different."""
        start, end = self.size, self.size + len(hashes)
        for column, encoded in zip(self._columns, keys, strict=True):
            column.append(start, encoded)  # type: ignore[arg-type]
        if end > len(self._hashes):
            self._hashes = grown(self._hashes, max(end, 2 * len(self._hashes)))
        self._hashes[start:end] = hashes
        self.size = end
        self._file(start, end)

    def find_one(self, words: Sequence[Word], hash_: int) -> int:
        """The slot of a single key, -1 if unknown."""
        buckets, hashes, mask = self._buckets, self._hashes, len(self._buckets) - 1
        position, step = hash_ & mask, 0
        while (slot := int(buckets[position])) >= 0:
            if int(hashes[slot]) == hash_ and all(
                column.equals_one(slot, word) for column, word in zip(self._columns, words, strict=True)
            ):
                break
            step += 1
            position = (position + step) & mask
        return slot

    def add_one(self, words: Sequence[Word], hash_: int) -> int:
        """Give the next slot to an unknown key."""
        slot = self.size
        for column, word in zip(self._columns, words, strict=True):
            column.append_one(slot, word)
        if slot >= len(self._hashes):
            self._hashes = grown(self._hashes, 2 * len(self._hashes))
        self._hashes[slot] = hash_
        self.size = slot + 1
        self._file(slot, slot + 1)
        return slot

    def last_words(self, slots: Ints) -> Words:
        """The last column at slots. It must be of fixed width."""
        column = self._columns[-1]
        assert isinstance(column, FixedKeyColumn)
        return column.words.take(slots)

    def frozen_keys(self) -> list[FrozenKeys]:
        return [column.frozen(self.size) for column in self._columns]

    def with_only(self, kept: Ints) -> KeyIndex:
        """A new index in which the slots `kept`, ascending, become 0, 1, 2..."""
        result = KeyIndex([column.kind for column in self._columns])
        result.append([keys.encoded(kept) for keys in self.frozen_keys()], self._hashes[kept])
        return result

    def _file(self, start: int, end: int) -> None:
        """Put the newest slots into buckets; add buckets if needed."""
        if end > self.capacity:
            buckets = len(self._buckets)
            while end * _LOAD > buckets:
                buckets *= 2
            self._buckets = np.full(buckets, -1, dtype=np.int32)
            self._place(0, end)
        else:
            self._place(start, end)

    def _place(self, start: int, end: int) -> None:
        mask = len(self._buckets) - 1
        if end == start + 1:
            position, step = int(self._hashes[start]) & mask, 0
            while self._buckets[position] >= 0:
                step += 1
                position = (position + step) & mask
            self._buckets[position] = start
            return
        slots = np.arange(start, end, dtype=np.int32)
        positions = (self._hashes[start:end] & np.uint64(mask)).view(np.int64)
        step = 0
        while slots.size:
            is_free = self._buckets[positions] < 0
            self._buckets[positions[is_free]] = slots[is_free]
            is_left = self._buckets[positions] != slots
            step += 1
            slots, positions = slots[is_left], (positions[is_left] + step) & mask

    def _equals(self, slots: Ints, keys: Sequence[EncodedKeys]) -> Bools:
        """Whether the key of each row is that of its slot. Undefined for rows without a slot."""
        result: Bools = np.ones(len(slots), dtype=np.bool_)
        for column, encoded in zip(self._columns, keys, strict=True):
            result &= column.equals(slots, encoded)  # type: ignore[arg-type]
        return result
