"""The lists of keys in the current batch, as Python lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.state.arrays import Ints, objects
from snapline.state.batch_keys import Rows
from snapline.state.collection_cells import CollectionCells
from snapline.state.key_scope import Scope
from snapline.state.map_tables import MapTable
from snapline.state.selection import Owner


class ListCell:
    """The list of one key: the elements that are `stored`, None if not fetched yet, and those `added` since.

    If it `is_cleared`, what the tables hold goes. If it `is_long`, it is fetched alone.
    """

    __slots__ = ("added", "is_cleared", "is_long", "stored")

    def __init__(self) -> None:
        self.stored: list[Any] | None = None
        self.added: list[Any] = []
        self.is_cleared = False
        self.is_long = False

    def clear(self) -> None:
        self.stored, self.added, self.is_cleared = [], [], True


class ListCells(CollectionCells[ListCell]):
    """The lists of a list state. `sequence(count)` reserves positions for new elements, and returns the first."""

    def __init__(self, scope: Scope, table: MapTable, sequence: Callable[[int], int]) -> None:
        super().__init__(scope, table, ListCell)
        self._sequence = sequence

    def elements(self) -> list[Any]:
        """The elements of the current key, oldest first, not copied."""
        cell = self.cell()
        if cell.stored is None and not cell.is_long and self._may_prefetch():
            self._fetch()
        if cell.stored is None:
            table = self.table
            entries = table.walk_one(*self.cursor.current())
            order = np.argsort(self.positions(entries), kind="stable")
            values = table.values.read(entries[order])
            self.prefetch.fetched(getattr(values, "nbytes", 0))
            cell.stored = objects(values)
        return cell.stored + cell.added

    def length(self) -> int:
        """The number of elements of the current key. Does not count as reading them."""
        if self.cell().stored is not None or not self.table.values.refresh_on_read:
            return len(self.elements())
        self.settle()
        return len(self.table.walk_one(*self.cursor.current()))

    def positions(self, entries: Ints) -> Ints:
        return self.table.values.space.last_words(entries).view(np.int64)

    def _fetch(self) -> None:
        """Fetch the list of the current key and of others after it, all those that are short."""
        cells, table = self._cells, self.table
        owners = self.prefetch.owners(self.cursor, self.cursor.owner, self._fetched)
        self._fetched.update(owners)
        found, entries, is_long = table.walk_short(self.cursor.rows(owners))
        order = np.lexsort((self.positions(entries), found))
        values = table.values.read(entries[order])
        self.prefetch.fetched(getattr(values, "nbytes", 0))
        elements = objects(values)
        ends = np.cumsum(np.bincount(found, minlength=len(owners))).tolist()
        start = 0
        for owner, end, long in zip(owners, ends, is_long.tolist(), strict=True):
            cell = cells.get(owner)
            if cell is None:
                cell = cells[owner] = ListCell()
            if long:
                cell.is_long = True
            elif cell.stored is None:
                cell.stored = elements[start:end]
            start = end

    def appended(self, owners: Rows) -> Ints:
        """The slots of one new element for each of these keys."""
        start, inner = self._sequence(len(owners)), self.table.values.layout.inner
        assert inner is not None
        positions = inner.encode(pa.array(np.arange(start, start + len(owners))))
        return self.table.append(owners, owners.inside(positions))

    def settle(self) -> None:
        table = self.table
        cleared: list[Owner] = []
        owners: list[Owner] = []
        values: list[Any] = []
        for owner, cell in self._cells.items():
            if cell.is_cleared:
                cleared.append(owner)
            if cell.added:
                owners += [owner] * len(cell.added)
                values += cell.added
        if cleared:
            table.clear(self.cursor.rows(cleared))
        if owners:
            slots = self.appended(self.cursor.rows(owners))
            table.values.write(slots, self.python.column(values), is_checked=True, at_ms=self._at_ms)
        self.discard()
