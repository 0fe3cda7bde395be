"""From keys to slots: a hash table that looks up whole batches at once.

Every distinct key gets a slot, a number from 0 on, in the order of arrival. State lives in columns indexed by slot. A
slot never moves or changes its key, so what a snapshot holds on to stays valid while the table grows: new keys go
behind, and larger arrays are copies. Keys leave only when the whole index is made anew without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.state.hashing import BytesKeys, EncodedKeys, FixedKeys, Ints, Words, words_at

MIN_CAPACITY = 1024
_LOAD = 2
"""Buckets for each slot, at least."""

_DAY_MS = 86_400_000
Bools: TypeAlias = npt.NDArray[np.bool_]


def grown(array: npt.NDArray[Any], capacity: int, fill: Any = 0) -> npt.NDArray[Any]:
    """A longer copy of an array."""
    result = np.full(capacity, fill, dtype=array.dtype) if fill else np.zeros(capacity, dtype=array.dtype)
    result[: len(array)] = array
    return result


class FixedKeyColumn:
    """Keys of one word each, by slot."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._words: Words = np.zeros(MIN_CAPACITY, dtype=np.uint64)

    def append(self, size: int, keys: FixedKeys) -> None:
        end = size + len(keys)
        if end > len(self._words):
            self._words = grown(self._words, max(end, 2 * len(self._words)))
        self._words[size:end] = keys.words

    def equals(self, slots: Ints, keys: FixedKeys) -> Bools:
        return np.asarray(self._words[slots] == keys.words)

    def frozen(self, size: int) -> FrozenFixedKeys:
        return FrozenFixedKeys(self.kind, self._words[:size])


class BytesKeyColumn:
    """Strings or bytes, by slot, one behind the other."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._data: npt.NDArray[np.uint8] = np.zeros(8 * MIN_CAPACITY, dtype=np.uint8)
        self._offsets: Ints = np.zeros(MIN_CAPACITY + 1, dtype=np.int64)

    def append(self, size: int, keys: BytesKeys) -> None:
        end, first = size + len(keys), int(self._offsets[size])
        if end >= len(self._offsets):
            self._offsets = grown(self._offsets, max(end + 1, 2 * len(self._offsets)))
        offsets = self._offsets[size : end + 1]
        np.cumsum(keys.lengths, out=offsets[1:])
        offsets[1:] += first
        last = int(offsets[-1])
        if last + 8 > len(self._data):
            self._data = grown(self._data, max(last + 8, 2 * len(self._data)))
        positions = np.repeat(keys.starts - (offsets[:-1] - first), keys.lengths) + np.arange(last - first)
        self._data[first:last] = keys.data[positions]

    def equals(self, slots: Ints, keys: BytesKeys) -> Bools:
        starts = self._offsets[slots]
        result: Bools = self._offsets[slots + 1] - starts == keys.lengths
        limit = len(self._data) - 8
        for number, column in enumerate(keys.words()):
            rows = column.rows
            positions = np.minimum((starts if rows is None else starts[rows]) + 8 * number, limit)
            is_same = words_at(self._data, positions) & column.masks == column.words
            if rows is None:
                result &= is_same
            else:
                result[rows] &= is_same
        return result

    def frozen(self, size: int) -> FrozenBytesKeys:
        return FrozenBytesKeys(self.kind, self._offsets[: size + 1], self._data)


@dataclass(frozen=True, slots=True)
class FrozenFixedKeys:
    """The words of the first slots; they never change."""

    kind: pa.DataType
    words: Words

    def encoded(self, slots: Ints) -> FixedKeys:
        """Keys to be filed anew; they are not to be hashed again."""
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
            return pa.array(numbers * _DAY_MS).view(kind)
        if pa.types.is_timestamp(kind):
            return pa.array(numbers).view(kind)
        return pa.array(numbers).cast(kind)


@dataclass(frozen=True, slots=True)
class FrozenBytesKeys:
    """The strings or bytes of the first slots; they never change."""

    kind: pa.DataType
    offsets: Ints
    data: npt.NDArray[np.uint8]

    def encoded(self, slots: Ints) -> BytesKeys:
        starts = self.offsets[slots]
        return BytesKeys(self.data, starts, self.offsets[slots + 1] - starts)

    def take(self, slots: Ints) -> FrozenBytesKeys:
        column = BytesKeyColumn(self.kind)
        column.append(0, self.encoded(slots))
        return column.frozen(len(slots))

    def to_arrow(self) -> pa.Array:
        is_text = pa.types.is_string(self.kind) or pa.types.is_large_string(self.kind)
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        kind = pa.large_string() if is_text or pa.types.is_string_view(self.kind) else pa.large_binary()
        return pa.Array.from_buffers(kind, len(self.offsets) - 1, buffers).cast(self.kind)


FrozenKeys: TypeAlias = FrozenFixedKeys | FrozenBytesKeys


def key_column(kind: pa.DataType) -> FixedKeyColumn | BytesKeyColumn:
    """An empty column for keys of a type."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return BytesKeyColumn(kind) if text or binary else FixedKeyColumn(kind)


class KeyIndex:
    """The slots of keys of one or more columns. Only one thread may use it; what is frozen is for any."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.size = 0
        self._columns = [key_column(kind) for kind in kinds]
        self._hashes: Words = np.zeros(MIN_CAPACITY, dtype=np.uint64)
        self._buckets: npt.NDArray[np.int32] = np.full(_LOAD * MIN_CAPACITY, -1, dtype=np.int32)

    @property
    def capacity(self) -> int:
        """How many slots there can be before arrays have to grow."""
        return len(self._buckets) // _LOAD

    def find(self, keys: Sequence[EncodedKeys], hashes: Words) -> Ints:
        """The slot of each row, -1 where the key is not there."""
        slots, positions, steps = self._probe(hashes, (hashes & self._mask).view(np.int64), 0)
        if len(keys) == 1 and keys[0].is_hash_exact:
            return slots
        # Different keys with the same hash are as rare as can be, but they are possible.
        wrong = np.flatnonzero(~self._equals(slots, keys) & (slots >= 0))
        for row in wrong.tolist():
            slots[row] = self._find_behind(keys, hashes, row, int(positions[row]), int(steps[row]))
        return slots

    def _probe(self, hashes: Words, positions: Ints, start: int) -> tuple[Ints, Ints, Ints]:
        """The first slot with the hash of each row, or -1; where it was found, and after how many steps."""
        mask = len(self._buckets) - 1
        slots = self._buckets[positions].astype(np.int64)
        steps = np.full(len(hashes), start, dtype=np.int64)
        rows = np.flatnonzero((self._hashes[slots] != hashes) & (slots >= 0))
        while rows.size:
            steps[rows] += 1
            moved = (positions[rows] + steps[rows]) & mask
            found = self._buckets[moved].astype(np.int64)
            positions[rows], slots[rows] = moved, found
            rows = rows[(self._hashes[found] != hashes[rows]) & (found >= 0)]
        return slots, positions, steps

    def _find_behind(self, keys: Sequence[EncodedKeys], hashes: Words, row: int, position: int, step: int) -> int:
        """Go on from a slot with the hash of `row`, but another key."""
        mask, rows = len(self._buckets) - 1, np.array([row])
        encoded, hashes = [column.take(rows) for column in keys], hashes[rows]
        while True:
            step += 1
            slots, positions, steps = self._probe(hashes, np.array([(position + step) & mask]), step)
            if slots[0] < 0 or self._equals(slots, encoded)[0]:
                return int(slots[0])
            position, step = int(positions[0]), int(steps[0])

    @property
    def _mask(self) -> np.uint64:
        return np.uint64(len(self._buckets) - 1)

    def add_missing(self, keys: Sequence[EncodedKeys], hashes: Words, slots: Ints) -> Ints:
        """Give slots to rows that have none in `slots`; told are the rows with new keys, by their slots."""
        missing = np.flatnonzero(slots < 0)
        added = []
        while missing.size:
            # One row for each new hash. Rows of another key with the same hash, if there are any, are left for the
            # next round.
            _, firsts = np.unique(hashes[missing], return_index=True)
            new = missing[np.sort(firsts)]
            self._add([column.take(new) for column in keys], hashes[new])
            added.append(new)
            slots[missing] = self.find([column.take(missing) for column in keys], hashes[missing])
            missing = missing[slots[missing] < 0]
        return added[0] if len(added) == 1 else np.concatenate([*added, missing])

    def frozen_keys(self) -> list[FrozenKeys]:
        """The key columns of all slots so far."""
        return [column.frozen(self.size) for column in self._columns]

    def frozen_hashes(self) -> Words:
        return self._hashes[: self.size]

    def without(self, kept: Ints) -> KeyIndex:
        """A new index in which the slots of `kept`, ascending, have become 0, 1, 2..."""
        result = KeyIndex([column.kind for column in self._columns])
        result._add([keys.encoded(kept) for keys in self.frozen_keys()], self._hashes[kept])
        return result

    def _add(self, keys: Sequence[EncodedKeys], hashes: Words) -> None:
        """Give the next slots to keys that are not there yet, all different."""
        start, end = self.size, self.size + len(hashes)
        for column, encoded in zip(self._columns, keys, strict=True):
            column.append(start, encoded)  # type: ignore[arg-type]
        if end > len(self._hashes):
            self._hashes = grown(self._hashes, max(end, 2 * len(self._hashes)))
        self._hashes[start:end] = hashes
        self.size = end
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
        """Whether the key of each row is that of its slot; nothing is said of rows without one."""
        result: Bools = np.ones(len(slots), dtype=np.bool_)
        for column, encoded in zip(self._columns, keys, strict=True):
            result &= column.equals(slots, encoded)  # type: ignore[arg-type]
        return result
