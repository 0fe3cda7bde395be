"""The collections of keys in the current batch: what maps and lists have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from snapline.state.key_scope import Scope
from snapline.state.map_tables import MapTable
from snapline.state.selection import Owner
from snapline.state.value_cells import TableCells

C = TypeVar("C")


class CollectionCells(TableCells, Generic[C]):
    """The collections of a state; `make` returns the cell of a key of which nothing is known yet."""

    def __init__(self, scope: Scope, table: MapTable, make: Callable[[], C]) -> None:
        super().__init__(scope, table.values)
        self.table = table
        self._make = make
        self._cells: dict[Owner, C] = {}
        self._fetched: set[int] = set()

    def cell(self) -> C:
        """The cell of the current key, perhaps not fetched yet."""
        if self.expire:
            self.renew()
        owner = self.cursor.owner
        found = self._cells.get(owner)
        if found is None:
            if owner is None:
                self.cursor.refuse()
            if self.prefetch.is_full:
                self.settle()
                owner = self.cursor.owner
            found = self._cells[owner] = self._make()
        return found

    def discard(self) -> None:
        self._cells.clear()
        self._fetched.clear()
        self.prefetch.clear()
        self.cursor.forget()
