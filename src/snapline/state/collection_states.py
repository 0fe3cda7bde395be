"""State handles with many entries per key: maps and lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.arrays import Ints, Values, objects
from snapline.state.batch_keys import Rows
from snapline.state.exact_cast import converted
from snapline.state.key_scope import Keys, Scope
from snapline.state.map_tables import MapTable


class MapState:
    """A map for each key. A value of None is no entry: putting it removes the entry."""

    def __init__(self, scope: Scope, table: MapTable) -> None:
        inner = table.values.layout.inner
        assert inner is not None
        self._scope = scope
        self._table = table
        self._inner = inner

    # For the current key.

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._table.values.get(self._find(key))
        return default if value is None else value

    def put(self, key: Any, value: Any) -> None:
        rows, row = self._scope.one()
        words = self._inner.words(key)
        if words is not None:
            slot = self._table.ensure_one(rows, row, rows.single(row).inside(words))
        else:
            owner, entry = self._one(key)
            slot = int(self._table.ensure(owner, entry)[0])
        self._table.values.set(slot, value)

    def remove(self, key: Any) -> None:
        self._table.values.erase(np.array([self._find(key)]))

    def __contains__(self, key: Any) -> bool:
        return self._table.values.get(self._find(key)) is not None

    def __len__(self) -> int:
        return len(self._entries())

    def keys(self) -> list[Any]:
        """The keys of the map, in no particular order."""
        return objects(self._table.inner_keys(self._entries()))

    def values(self) -> list[Any]:
        return objects(self._table.values.read(self._entries()))

    def items(self) -> list[tuple[Any, Any]]:
        entries = self._entries()
        pairs = zip(objects(self._table.inner_keys(entries)), objects(self._table.values.read(entries)), strict=True)
        return list(pairs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def clear(self) -> None:
        self._table.clear(self._scope.owner())

    # For all keys of a batch.

    def take(self, keys: Keys, map_keys: Any, namespace: Any = None) -> Values:
        """The value of each pair of key and map key, or null."""
        entries = self._scope.rows(keys, namespace).inside(self._inner.encode(map_keys))
        values = self._table.values
        return values.read(entries.slots(values.space, add=values.is_cache))

    def put_all(self, keys: Keys, map_keys: Any, values: Values, namespace: Any = None) -> None:
        """Set the value of each pair of key and map key. Nulls remove."""
        owners = self._scope.rows(keys, namespace)
        slots = self._table.ensure(owners, owners.inside(self._inner.encode(map_keys)))
        self._table.values.write(slots, values)

    def entries(self, keys: Keys, namespace: Any = None) -> tuple[Ints, pa.Array, Values]:
        """All entries of keys, ordered by row: the row, map key and value of each."""
        rows, entries = self._table.walk(self._scope.rows(keys, namespace))
        return rows, self._table.inner_keys(entries), self._table.values.read(entries)

    def delete(self, keys: Keys, namespace: Any = None) -> None:
        """Remove all entries of keys."""
        self._table.clear(self._scope.rows(keys, namespace))

    def _one(self, key: Any) -> tuple[Rows, Rows]:
        owner = self._scope.owner()
        return owner, owner.inside(self._inner.encode([key]))

    def _find(self, key: Any) -> int:
        values = self._table.values
        words = self._inner.words(key)
        if words is not None:
            rows, row = self._scope.one()
            single = rows.single(row).inside(words)
            return values.space.ensure_one(single) if values.is_cache else values.space.find_one(single)
        return int(self._one(key)[1].slots(values.space, add=values.is_cache)[0])

    def _entries(self) -> Ints:
        return self._table.walk_one(*self._scope.one())


@dataclass(frozen=True, slots=True)
class Spans:
    """Elements of lists, grouped by key and oldest first.

    For each row of the batch, its `counts` elements begin at its `starts` in `values`. For each element, `rows` is one
    of the rows that have its key.
    """

    starts: Ints
    counts: Ints
    rows: Ints
    values: Values


class ListState:
    """A list for each key. Its elements are never None."""

    def __init__(self, scope: Scope, table: MapTable, sequence: Callable[[int], int]) -> None:
        self._scope = scope
        self._table = table
        self._sequence = sequence

    # For the current key.

    def get(self) -> list[Any]:
        return objects(self._table.values.read(self._sorted(self._table.walk_one(*self._scope.one()))))

    def add(self, value: Any) -> None:
        if value is None:
            raise _null_element()
        rows, row = self._scope.one()
        slot = self._table.ensure_one(rows, row, rows.single(row).inside([self._sequence(1)]))
        self._table.values.set(slot, value)

    def extend(self, values: Iterable[Any]) -> None:
        self._extend(self._checked(list(values)))

    def set(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        values = self._checked(list(values))
        self.clear()
        self._extend(values)

    def clear(self) -> None:
        self._table.clear(self._scope.owner())

    def __len__(self) -> int:
        return len(self._table.walk_one(*self._scope.one()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    # For all keys of a batch.

    def append(self, keys: Keys, values: Values, namespace: Any = None) -> None:
        """Add one element for each row to the list of its key."""
        self._append(self._scope.rows(keys, namespace), self._checked(values))

    def elements(self, keys: Keys, namespace: Any = None) -> tuple[Ints, Values]:
        """All elements of keys, ordered by row and oldest first: the row and value of each."""
        return self._elements(self._scope.rows(keys, namespace))

    def take(self, keys: Keys, namespace: Any = None) -> Values:
        """The list of each key, perhaps empty."""
        rows = self._scope.rows(keys, namespace)
        owners, values = self._elements(rows)
        ends = np.searchsorted(owners, np.arange(len(rows) + 1))
        if isinstance(values, pa.Array):
            return pa.LargeListArray.from_arrays(pa.array(ends), values)
        return [values[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]

    def spans(self, keys: Keys, namespace: Any = None) -> Spans:
        """The elements of the distinct keys, each only once however many rows have its key."""
        owners, space = self._scope.rows(keys, namespace), self._table.owners
        slots = owners.slots(space, add=self._table.values.is_cache)
        rows = np.flatnonzero(slots >= 0)
        starts, counts = np.zeros(len(owners), dtype=np.int64), np.zeros(len(owners), dtype=np.int64)
        distinct, groups = space.distinct(slots[rows])
        row_of = rows
        if groups is not None:
            row_of = np.empty(len(distinct), dtype=np.int64)
            row_of[groups] = rows
        found, values = self._elements(owners if len(row_of) == len(owners) else owners.take(row_of))
        lengths = np.bincount(found, minlength=len(row_of))
        begins = np.cumsum(lengths) - lengths
        starts[rows] = begins if groups is None else begins[groups]
        counts[rows] = lengths if groups is None else lengths[groups]
        return Spans(starts, counts, row_of[found], values)

    def delete(self, keys: Keys, namespace: Any = None) -> None:
        """Remove the lists of keys."""
        self._table.clear(self._scope.rows(keys, namespace))

    def _elements(self, owners: Rows) -> tuple[Ints, Values]:
        rows, entries = self._table.walk(owners)
        positions = self._positions(entries)
        if not ((rows[1:] != rows[:-1]) | (positions[1:] > positions[:-1])).all():
            order = np.lexsort((positions, rows))
            rows, entries = rows[order], entries[order]
        return rows, self._table.values.read(entries)

    def _checked(self, values: Values) -> Values:
        """The elements in the type of the state. Raises `UserCodeError` for nulls."""
        kind = self._table.values.kind.arrow
        values = objects(values) if kind is None else converted(values, kind)
        has_null = any(value is None for value in values) if kind is None else values.null_count > 0
        if has_null:
            raise _null_element()
        return values

    def _extend(self, values: Values) -> None:
        self._append(self._scope.owner().take(np.zeros(len(values), dtype=np.int64)), values)

    def _append(self, owners: Rows, values: Values) -> None:
        if len(values) != len(owners):
            raise UserCodeError(f"{len(values)} values for {len(owners)} keys; give one for each")
        if not len(values):
            return
        start = self._sequence(len(values))
        inner = self._table.values.layout.inner
        assert inner is not None
        positions = inner.encode(pa.array(np.arange(start, start + len(values))))
        self._table.values.write(self._table.append(owners, owners.inside(positions)), values)

    def _positions(self, entries: Ints) -> Ints:
        return self._table.values.space.last_words(entries).view(np.int64)

    def _sorted(self, entries: Ints) -> Ints:
        return entries[np.argsort(self._positions(entries), kind="stable")]


def _null_element() -> UserCodeError:
    return UserCodeError("an element of a list state cannot be null; leave it out")
