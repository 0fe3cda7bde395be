"""State handles with many entries per key: maps and lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.arrays import Ints, Values, objects
from snapline.state.batch_keys import Rows
from snapline.state.exact_cast import converted
from snapline.state.key_scope import Keys
from snapline.state.list_cells import ListCells
from snapline.state.map_cells import MapCells


class MapState:
    """A map for each key. A value of None is no entry: putting it removes the entry."""

    def __init__(self, cells: MapCells) -> None:
        self._scope = cells.scope
        self._table = cells.table
        self._inner = cells.inner
        self._cells = cells
        self._label = cells.keys.label
        self._convert = cells.python.convert
        self._copy = cells.python.copy

    # For the current key.

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._cells.value(key)
        if value is None:
            return default
        return value if self._copy is None else self._copy(value)

    def put(self, key: Any, value: Any) -> None:
        if value is None:
            self.remove(key)
            return
        cell = self._cells.cell()
        label = self._label(key)
        cell.entries[label] = self._convert(value)
        cell.changed[label] = None

    def remove(self, key: Any) -> None:
        cell = self._cells.cell()
        label = self._label(key)
        cell.entries.pop(label, None)
        cell.changed[label] = None

    def __contains__(self, key: Any) -> bool:
        return self._cells.value(key) is not None

    def __len__(self) -> int:
        return len(self._cells.labels())

    def keys(self) -> list[Any]:
        """The keys of the map, in no particular order."""
        return self._cells.keys.keys(self._cells.labels())

    def values(self) -> list[Any]:
        values = self._cells.complete().entries.values()
        return list(values) if self._copy is None else list(map(self._copy, values))

    def items(self) -> list[tuple[Any, Any]]:
        entries = self._cells.complete().entries
        values = entries.values() if self._copy is None else map(self._copy, entries.values())
        return list(zip(self._cells.keys.keys(entries), values, strict=True))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def clear(self) -> None:
        self._cells.cell().clear()

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

    def __init__(self, cells: ListCells) -> None:
        self._scope = cells.scope
        self._table = cells.table
        self._cells = cells
        self._convert = cells.python.convert
        self._copy = cells.python.copy

    # For the current key.

    def get(self) -> list[Any]:
        elements = self._cells.elements()
        return elements if self._copy is None else list(map(self._copy, elements))

    def add(self, value: Any) -> None:
        cell = self._cells.cell()
        cell.added.append(self._element(value))

    def extend(self, values: Iterable[Any]) -> None:
        cell = self._cells.cell()
        cell.added += list(map(self._element, values))

    def set(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        cell = self._cells.cell()
        elements = list(map(self._element, values))
        cell.clear()
        cell.added = elements

    def clear(self) -> None:
        self._cells.cell().clear()

    def __len__(self) -> int:
        return self._cells.length()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def _element(self, value: Any) -> Any:
        if value is None:
            raise _null_element()
        return self._convert(value)

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
        positions = self._cells.positions(entries)
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

    def _append(self, owners: Rows, values: Values) -> None:
        if len(values) != len(owners):
            raise UserCodeError(f"{len(values)} values for {len(owners)} keys; give one for each")
        if not len(values):
            return
        self._table.values.write(self._cells.appended(owners), values)


def _null_element() -> UserCodeError:
    return UserCodeError("an element of a list state cannot be null; leave it out")
