"""The maps of keys in the current batch, as Python dicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.state.arrays import objects
from snapline.state.batch_keys import KeyTypes
from snapline.state.collection_cells import CollectionCells
from snapline.state.key_scope import Scope
from snapline.state.map_tables import MapTable
from snapline.state.python_values import exact_converter
from snapline.state.selection import Owner
from snapline.state.state_types import StateType


class MapCell:
    """The map of one key: the `entries` that are known, and the keys of those that were `changed`, removed ones too.

    If it `is_complete`, there are no other entries. If it `is_long`, entries are looked up one by one; those known not
    to exist are None. If it `is_cleared`, all stored entries go.
    """

    __slots__ = ("changed", "entries", "is_cleared", "is_complete", "is_long")

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.changed: dict[Any, None] = {}
        self.is_complete = self.is_long = self.is_cleared = False

    def learn(self, stored: dict[Any, Any]) -> None:
        """Add the stored entries, which are all there are, to those that were changed."""
        for label in self.changed:
            value = self.entries.get(label)
            if value is None:
                stored.pop(label, None)
            else:
                stored[label] = value
        self.entries = stored

    def clear(self) -> None:
        self.entries, self.changed = {}, {}
        self.is_complete = self.is_cleared = True


class MapKeys:
    """The keys of maps as hashable labels, equal exactly if the keys are: numbers and text themselves, else words."""

    def __init__(self, inner: KeyTypes) -> None:
        self._inner = inner
        self._is_plain = pa.types.is_integer(inner.kind) or pa.types.is_string(inner.kind)
        self.label: Callable[[Any], Any] = self._words
        """The label of a key. Raises `UserCodeError` for a key of another type."""
        if self._is_plain:
            self.label = exact_converter(StateType(inner.kind), self._stored)
        self._given: dict[Any, Any] = {}

    def _stored(self, key: Any) -> Any:
        """A key as a restore would return it."""
        (stored,) = objects(self._inner.together(self._inner.columns([key])))
        return stored

    def _words(self, key: Any) -> Any:
        words = self._inner.words(key)
        if words is None:
            words = [column.word(0) for column in self._inner.encode([key])]
        label = tuple(words)
        self._given.setdefault(label, key)
        return label

    def labels(self, keys: pa.Array) -> list[Any]:
        """The labels of stored keys."""
        if self._is_plain:
            return objects(keys)
        columns = self._inner.encode(keys)
        labels = [tuple(column.word(row) for column in columns) for row in range(len(keys))]
        self._given.update(zip(labels, objects(keys), strict=True))
        return labels

    def keys(self, labels: Iterable[Any]) -> list[Any]:
        """The keys that have labels, which were made since the last `clear`."""
        return list(labels) if self._is_plain else [self._stored(self._given[label]) for label in labels]

    def column(self, labels: list[Any]) -> Any:
        """Labels as a column of keys."""
        return pa.array(labels, self._inner.kind) if self._is_plain else [self._given[label] for label in labels]

    def clear(self) -> None:
        self._given.clear()


class MapCells(CollectionCells[MapCell]):
    """The maps of a map state."""

    def __init__(self, scope: Scope, table: MapTable) -> None:
        super().__init__(scope, table, MapCell)
        inner = table.values.layout.inner
        assert inner is not None
        self.keys = MapKeys(inner)
        self.inner = inner

    def value(self, key: Any) -> Any:
        """The value of an entry of the current key, not copied, or None."""
        if self.expire:
            self.renew()
        cell = self._cells.get(self.cursor.owner) or self.cell()
        label = self.keys.label(key)
        value = cell.entries.get(label)
        if value is not None or cell.is_complete or label in cell.changed:
            return value
        if not cell.is_long and self._may_prefetch():
            self._fetch()
            value = cell.entries.get(label)
        if value is None and not cell.is_complete and label not in cell.entries:
            value = cell.entries[label] = self._looked_up(key)
        return value

    def complete(self) -> MapCell:
        """The map of the current key with all its entries."""
        cell = self.cell()
        if not cell.is_complete and not cell.is_long and self._may_prefetch():
            self._fetch()
        if not cell.is_complete:
            table = self.table
            entries = table.walk_one(*self.cursor.current())
            values = table.values.read(entries)
            self.prefetch.fetched(getattr(values, "nbytes", 0))
            cell.learn(dict(zip(self.keys.labels(table.inner_keys(entries)), objects(values), strict=True)))
            cell.is_complete = True
        return cell

    def labels(self) -> Collection[Any]:
        """The labels of all entries of the current key. Does not count as reading them."""
        if self.cell().is_complete or not self.table.values.refresh_on_read:
            return self.complete().entries
        self.settle()
        entries = self.table.walk_one(*self.cursor.current())
        return self.keys.labels(self.table.inner_keys(entries))

    def _fetch(self) -> None:
        """Fetch the map of the current key and of others after it, all those that are short."""
        cells, table = self._cells, self.table
        owners = self.prefetch.owners(self.cursor, self.cursor.owner, self._fetched)
        self._fetched.update(owners)
        found, entries, is_long = table.walk_short(self.cursor.rows(owners))
        values = table.values.read(entries)
        self.prefetch.fetched(getattr(values, "nbytes", 0))
        labels, elements = self.keys.labels(table.inner_keys(entries)), objects(values)
        ends = np.cumsum(np.bincount(found, minlength=len(owners))).tolist()
        start = 0
        for owner, end, long in zip(owners, ends, is_long.tolist(), strict=True):
            cell = cells.get(owner)
            stored = {} if start == end else dict(zip(labels[start:end], elements[start:end], strict=True))
            start = end
            if cell is None:
                cell = cells[owner] = MapCell()
                cell.entries = stored
            elif not cell.is_complete:
                cell.learn(stored)
            if long:
                cell.is_long = True
            else:
                cell.is_complete = True

    def _looked_up(self, key: Any) -> Any:
        values = self.table.values
        rows, row = self.cursor.current()
        words = self.inner.words(key)
        if words is not None:
            single = rows.single(row).inside(words)
            slot = values.space.ensure_one(single) if values.is_cache else values.space.find_one(single)
        else:
            entry = rows.take(np.array([row])).inside(self.inner.encode([key]))
            slot = int(entry.slots(values.space, add=values.is_cache)[0])
        return values.get(slot)

    def settle(self) -> None:
        table = self.table
        cleared: list[Owner] = []
        owners: list[Owner] = []
        labels: list[Any] = []
        values: list[Any] = []
        for owner, cell in self._cells.items():
            changed = cell.changed
            if cell.is_cleared:
                cleared.append(owner)
            if len(changed) == 1:
                (label,) = changed
                owners.append(owner)
                labels.append(label)
                values.append(cell.entries.get(label))
            elif changed:
                owners += [owner] * len(changed)
                labels += changed
                values += map(cell.entries.get, changed)
        if cleared:
            table.clear(self.cursor.rows(cleared))
        if owners:
            rows = self.cursor.rows(owners)
            slots = table.ensure(rows, rows.inside(self.inner.encode(self.keys.column(labels))))
            table.values.write(slots, self.python.column(values), is_checked=True, at_ms=self._at_ms)
        self.discard()

    def discard(self) -> None:
        super().discard()
        self.keys.clear()
