"""Keys of a batch of rows: encoded and hashed once, looked up once in every space of slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.arrays import Bools, Ints, Words, grown
from snapline.state.exact_cast import exact_array, exact_cast
from snapline.state.key_index import FrozenKeys, KeyIndex
from snapline.state.stable_hash import (
    EncodedKeys,
    NullKeyError,
    Word,
    combine,
    encode,
    fold,
    hash_inside,
    hash_word,
    mix,
    word_of,
)
from snapline.state.state_types import StateType
from snapline.text import shortened


class KeyTypes:
    """The columns of a key or namespace. A struct has a column for each of its fields."""

    def __init__(self, kind: pa.DataType, what: str = "key") -> None:
        self.kind = kind
        self._is_struct = pa.types.is_struct(kind)
        if self._is_struct:
            fields = [kind.field(index) for index in range(kind.num_fields)]
            if not fields:
                raise ConfigurationError(f"a {what} needs at least one column")
            self.names = tuple(field.name for field in fields)
            self.kinds = tuple(field.type for field in fields)
        else:
            self.names, self.kinds = (what,), (kind,)
        for name, column in zip(self.names, self.kinds, strict=True):
            encode(pa.array([], column), name)

    def columns(self, values: Any) -> list[pa.Array]:
        """The columns of keys, given as an Arrow array, a list of values, or a list of arrays (several columns)."""
        if isinstance(values, pa.RecordBatch | pa.Table):
            values = values.columns
        if isinstance(values, list | tuple) and values and isinstance(values[0], pa.Array | pa.ChunkedArray):
            columns = list(values)
        else:
            array = values if isinstance(values, pa.Array | pa.ChunkedArray) else self._array(values)
            columns = array.flatten() if self._is_struct else [array]
        if len(columns) != len(self.kinds):
            raise UserCodeError(f"keys have {len(columns)} columns, but the state is keyed by {', '.join(self.names)}")
        if len({len(column) for column in columns}) > 1:
            raise UserCodeError(f"the key columns {', '.join(self.names)} have different numbers of rows")
        return [
            self._cast(column, kind, name) for column, kind, name in zip(columns, self.kinds, self.names, strict=True)
        ]

    def words(self, value: Any) -> list[Word] | None:
        """Encode a single key. Returns None if only `encode` can."""
        if not self._is_struct:
            word = word_of(value, self.kinds[0])
            return None if word is None else [word]
        if isinstance(value, dict):
            value = tuple(value.get(name) for name in self.names) if value.keys() == set(self.names) else ()
        if not isinstance(value, tuple | list) or len(value) != len(self.kinds):
            return None
        words = [word_of(part, kind) for part, kind in zip(value, self.kinds, strict=True)]
        found = [word for word in words if word is not None]
        return found if len(found) == len(words) else None

    def encode(self, values: Any) -> list[EncodedKeys]:
        return [encode(column, name) for column, name in zip(self.columns(values), self.names, strict=True)]

    def decode(self, columns: Sequence[FrozenKeys]) -> pa.Array:
        """Keys as one Arrow array of `kind`."""
        return self.together([column.to_arrow() for column in columns])

    def together(self, arrays: Sequence[pa.Array]) -> pa.Array:
        if not self._is_struct:
            return arrays[0]
        return pa.StructArray.from_arrays(arrays, fields=[self.kind.field(index) for index in range(len(arrays))])

    def _array(self, values: Any) -> pa.Array:
        try:
            values = list(values)
        except TypeError as error:
            raise UserCodeError(f"{shortened(values)} is not a column of keys; give an array or a list") from error
        if self._is_struct:
            values = [
                dict(zip(self.names, value, strict=True)) if isinstance(value, tuple | list) else value
                for value in values
            ]
        return exact_array(values, self.kind)

    @staticmethod
    def _cast(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if column.null_count:
            raise NullKeyError(name)
        try:
            return exact_cast(column, kind, may_round=False)
        except UserCodeError as error:
            raise UserCodeError(
                f"the key column {name!r} is {column.type}, and not all of it is {kind}: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class Single:
    """The key of a single entry: one row of `Rows`."""

    words: tuple[Word, ...]
    hash: int
    key_hash: int

    def inside(self, words: Sequence[Word]) -> Single:
        """This key with more columns."""
        hash_ = self.hash
        for word in words:
            hash_ = hash_inside(hash_, hash_word(word))
        return Single((*self.words, *words), hash_, self.key_hash)


class Rows:
    """The keys of entries of a batch: the key itself, then perhaps a namespace and a key inside the state.

    `hashes` cover all columns, `key_hashes` the key alone, which decides the key group.
    """

    __slots__ = ("_singles", "_slots", "_within", "encoded", "hashes", "key_hashes")

    def __init__(self, encoded: Sequence[EncodedKeys], key_hashes: Words, hashes: Words | None = None) -> None:
        self.encoded = encoded
        self.key_hashes = key_hashes
        self.hashes = key_hashes if hashes is None else hashes
        self._slots: dict[int, _Lookup] = {}
        self._singles: dict[int, Single] = {}
        self._within: tuple[pa.DataType, pa.Array, Rows] | None = None

    @classmethod
    def of(cls, encoded: Sequence[EncodedKeys]) -> Rows:
        return cls(encoded, combine([column.hashes() for column in encoded]))

    def __len__(self) -> int:
        return len(self.key_hashes)

    def inside(self, columns: Sequence[EncodedKeys]) -> Rows:
        """These rows with more columns."""
        hashes = self.hashes
        for column in columns:
            if len(column) != len(self):
                raise UserCodeError(f"{len(column)} values to go with {len(self)} keys; give one for each")
            # Mixed once more, so that a key and a column behind it that are equal do not cancel each other out.
            hashes = fold(mix(hashes.copy()), column.hashes())
        return Rows([*self.encoded, *columns], self.key_hashes, hashes)

    def within(self, types: KeyTypes, values: pa.Array) -> Rows:
        """These rows in a namespace. The last result is cached, for several states with the same array."""
        known = self._within
        if known is None or known[1] is not values or known[0] != types.kind:
            known = self._within = types.kind, values, self.inside(types.encode(values))
        return known[2]

    def take(self, rows: Ints) -> Rows:
        hashes = None if self.hashes is self.key_hashes else self.hashes[rows]
        taken = Rows([column.take(rows) for column in self.encoded], self.key_hashes[rows], hashes)
        # Their slots are known already.
        taken._slots = {number: lookup.take(rows) for number, lookup in self._slots.items()}
        return taken

    def single(self, row: int) -> Single:
        """One of the rows, for lookups without numpy."""
        found = self._singles.get(row)
        if found is None:
            words = tuple(column.word(row) for column in self.encoded)
            found = self._singles[row] = Single(words, int(self.hashes[row]), int(self.key_hashes[row]))
        return found

    def slots(self, space: Space, *, add: bool) -> Ints:
        """The slot of each row. Without `add`, unknown keys have -1; with it they get a slot."""
        known = self._slots.get(id(space))
        if known is None or not known.holds(space, add=add):
            slots = space.ensure(self) if add else space.find(self)
            has_missing = bool(slots.min(initial=0) < 0)
            known = self._slots[id(space)] = _Lookup(space, slots, space.version, space.size, has_missing)
        return known.slots


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The slots of rows, and the state of the space when they were looked up."""

    space: Space
    slots: Ints
    version: int
    size: int
    has_missing: bool

    def holds(self, space: Space, *, add: bool) -> bool:
        if self.space is not space or self.version != space.version:
            return False
        # A key that had no slot may have got one from other rows.
        return not self.has_missing or (not add and self.size == space.size)

    def take(self, rows: Ints) -> _Lookup:
        slots = self.slots[rows]
        return _Lookup(self.space, slots, self.version, self.size, self.has_missing and bool(slots.min(initial=0) < 0))


class Attached:
    """Has arrays indexed by the slots of a space. `owner` is the table it belongs to, if that is another object."""

    owner: object = None

    def grow(self, capacity: int) -> None:
        """Make room for slots below `capacity`."""

    def is_used(self, size: int) -> Bools:
        """Whether each of the first `size` slots is needed; by default none is."""
        return np.zeros(size, dtype=np.bool_)

    def keep(self, slots: Ints) -> None:
        """Drop all but these slots, which become 0, 1, 2..."""

    @property
    def nbytes(self) -> int:
        """The memory that its arrays take."""
        return 0


class Space:
    """The slots shared by states with the same columns of keys.

    `version` changes whenever slots are renumbered; earlier lookups are invalid then.
    """

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.version = 0
        self._index = KeyIndex(kinds)
        self._key_hashes: Words = np.zeros(self._index.capacity, dtype=np.uint64)
        self._attached: list[Attached] = []
        self._capacity = self._index.capacity
        self._scratch = np.zeros(self._capacity, dtype=np.int32)

    @property
    def size(self) -> int:
        return self._index.size

    @property
    def capacity(self) -> int:
        """How many slots there may be before all arrays grow."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """The memory that the slots take, with all that is attached to them."""
        own = self._index.nbytes + self._key_hashes.nbytes + self._scratch.nbytes
        return own + sum(attached.nbytes for attached in self._attached)

    def attach(self, attached: Attached) -> None:
        attached.grow(self._capacity)
        self._attached.append(attached)

    def detach(self, owner: object) -> None:
        """Drop what belongs to a table that was replaced."""
        self._attached = [attached for attached in self._attached if owner not in (attached, attached.owner)]

    def find(self, rows: Rows) -> Ints:
        return self._index.find(rows.encoded, rows.hashes)

    def ensure(self, rows: Rows) -> Ints:
        """The slot of each row; unknown keys get one. May renumber slots to make room."""
        slots = self.find(rows)
        missing = int((slots < 0).sum())
        if not missing:
            return slots
        if self.size + missing > self._capacity and self._reclaim(missing):
            slots = self.find(rows)
        start = self.size
        new = self._index.add_missing(rows.encoded, rows.hashes, slots)
        self._make_room(self.size)
        self._key_hashes[start : self.size] = rows.key_hashes[new]
        return slots

    def append(self, rows: Rows) -> Ints:
        """Give slots to unknown rows, all different, without looking them up. May renumber slots to make room."""
        if self.size + len(rows) > self._capacity:
            self._reclaim(len(rows))
        start = self.size
        self._index.append(rows.encoded, rows.hashes)
        self._make_room(self.size)
        self._key_hashes[start : self.size] = rows.key_hashes
        return np.arange(start, self.size)

    def find_one(self, single: Single) -> int:
        """The slot of a single entry, -1 if it has none."""
        return self._index.find_one(single.words, single.hash)

    def ensure_one(self, single: Single) -> int:
        """The slot of a single entry; an unknown one gets a slot. May renumber slots to make room."""
        slot = self._index.find_one(single.words, single.hash)
        if slot < 0:
            if self.size >= self._capacity:
                self._reclaim(1)
            slot = self._index.add_one(single.words, single.hash)
            self._make_room(self.size)
            self._key_hashes[slot] = single.key_hash
        return slot

    def distinct(self, slots: Ints) -> tuple[Ints, npt.NDArray[np.int32] | None]:
        """Each slot once, and for each row the index of its slot, or None if all rows differ."""
        scratch, count = self._scratch, len(slots)
        order = np.arange(count, dtype=np.int32)
        np.put(scratch, slots, order)
        winners = scratch.take(slots)
        is_last = winners == order
        if is_last.all():
            return slots, None
        numbers = np.cumsum(is_last, dtype=np.int32)
        numbers -= 1
        return slots[is_last], numbers.take(winners)

    def key_hashes(self) -> Words:
        """The hash of the key, by slot. Stays valid while the space grows."""
        return self._key_hashes[: self.size]

    def last_words(self, slots: Ints) -> Words:
        return self._index.last_words(slots)

    def columns(self) -> list[FrozenKeys]:
        """The columns by slot. They stay valid while the space grows."""
        return self._index.frozen_keys()

    def keep(self, slots: Ints) -> None:
        """Drop all but these slots, ascending, which become 0, 1, 2..."""
        self.version += 1
        self._index = self._index.with_only(slots)
        self._capacity = max(self._index.capacity, len(slots))
        self._key_hashes = grown(self._key_hashes[slots], self._capacity)
        self._scratch = np.zeros(self._capacity, dtype=np.int32)
        for attached in self._attached:
            attached.keep(slots)
            attached.grow(self._capacity)

    def _reclaim(self, wanted: int) -> bool:
        """Drop keys without state, if that frees enough room. Returns whether it did."""
        used = np.zeros(self.size, dtype=np.bool_)
        for attached in self._attached:
            used |= attached.is_used(self.size)
        kept = np.flatnonzero(used)
        if 2 * (len(kept) + wanted) >= self._capacity:
            return False
        self.keep(kept)
        return True

    def _make_room(self, size: int) -> None:
        if size <= self._capacity:
            return
        while self._capacity < size:
            self._capacity *= 2
        self._key_hashes = grown(self._key_hashes, self._capacity)
        self._scratch = np.zeros(self._capacity, dtype=np.int32)
        for attached in self._attached:
            attached.grow(self._capacity)


def key_types(declared: StateType, what: str) -> KeyTypes:
    if declared.arrow is None:
        raise ConfigurationError(f"a {what} cannot be any Python object; declare its type, for example 'string'")
    return KeyTypes(declared.arrow, what)
