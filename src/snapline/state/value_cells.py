"""The values of keys in the current batch, as Python objects."""

from __future__ import annotations

from typing import Any, Final

from snapline.state.arrays import objects
from snapline.state.key_scope import Scope
from snapline.state.python_values import PythonValues
from snapline.state.selection import Cells, Owner, Prefetch
from snapline.state.value_tables import ValueTable

UNKNOWN: Final = object()
"""In place of a value that was not fetched yet."""

_FEW = 8
"""Up to this many are written one by one, which is faster then."""

_SLACK = 1000
"""Expiry is exact to this part of the time to live; for the time between, what was fetched stays."""


class TableCells(Cells):
    """Base of the cells of one state. `values` is the table of its values, or of those of its entries.

    If entries `expire`, call `renew` before every use.
    """

    def __init__(self, scope: Scope, values: ValueTable) -> None:
        self.scope = scope
        self.cursor = scope.cursor
        self.python = PythonValues(values.kind, must_pickle=values.is_cache)
        self.expire = values.ttl_ms is not None
        self.prefetch = Prefetch()
        self._values_table = values
        self._slack_ms = 0 if values.ttl_ms is None else values.ttl_ms // _SLACK
        self._since_ms = 0
        scope.attach(self)

    def renew(self) -> None:
        """Write and forget what is too old to tell what has expired since."""
        now_ms = self._values_table.now_ms()
        if not 0 <= now_ms - self._since_ms <= self._slack_ms:
            self.settle()
            self._since_ms = now_ms

    @property
    def _at_ms(self) -> int | None:
        """The time of the changes."""
        return self._since_ms if self.expire else None

    def _may_prefetch(self) -> bool:
        """Whether more may be fetched than was asked for: reading must not refresh what nobody reads."""
        return self.cursor.count > 1 and not self._values_table.refresh_on_read


class ValueCells(TableCells):
    """The values of a state with one value per key; None is no value."""

    def __init__(self, scope: Scope, table: ValueTable) -> None:
        super().__init__(scope, table)
        self.values: dict[Owner, Any] = {}
        self.changed: dict[Owner, None] = {}
        self.table = table

    def fetch(self, owner: Owner | None) -> Any:
        """The value of the current key, which is not among `values` yet."""
        if owner is None:
            self.cursor.refuse()
        if self.prefetch.is_full:
            self.settle()
        table = self.table
        if not self._may_prefetch():
            rows, row = self.cursor.current()
            value = self.values[owner] = table.get(int(rows.slots(table.space, add=table.is_cache)[row]))
            return value
        values = self.values
        owners = self.prefetch.owners(self.cursor, owner, values)
        column = table.read(self.cursor.rows(owners).slots(table.space, add=table.is_cache))
        self.prefetch.fetched(getattr(column, "nbytes", 0))
        values.update(zip(owners, objects(column), strict=True))
        return values[owner]

    def settle(self) -> None:
        table, changed = self.table, list(self.changed)
        if changed:
            values = [self.values[owner] for owner in changed]
            slots = self.cursor.rows(changed).slots(table.space, add=True)
            if len(changed) <= _FEW:
                for slot, value in zip(slots.tolist(), values, strict=True):
                    table.set(slot, value, at_ms=self._at_ms)
            else:
                table.write(slots, self.python.column(values), is_checked=True, at_ms=self._at_ms)
        self.discard()

    def discard(self) -> None:
        self.values.clear()
        self.changed.clear()
        self.prefetch.clear()
        self.cursor.forget()
