"""Which keys the calls of a state refer to: those of a batch, or the current key, in a namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.batch_keys import KeyTypes, Rows
from snapline.state.selection import Cells, Cursor, NamespaceCursor, Selection, given_namespace
from snapline.state.stable_hash import EncodedKeys

Keys: TypeAlias = Any
"""The result of `KeyedBackend.keys`, or its argument: an array, a list of values, a list of arrays (composite keys)."""


class Scope:
    """Finds the rows that calls of a state, or of timers, refer to. `namespace` is None if there is none.

    `rows` makes the keys of a batch. `cursor` knows the current key.
    """

    def __init__(self, rows: Callable[[Keys], Rows], selection: Selection, namespace: KeyTypes | None) -> None:
        self.cursor: Cursor = selection if namespace is None else NamespaceCursor(selection, namespace)
        self._rows = rows
        self._selection = selection
        self._namespace = namespace
        self._cells: Cells | None = None

    def attach(self, cells: Cells) -> None:
        """Keep what calls for single keys have read and changed here."""
        self._cells = cells
        self._selection.attach(cells)

    def detach(self) -> None:
        if self._cells is not None:
            self._selection.detach(self._cells)

    def settle(self) -> None:
        """Write what calls for single keys have changed: the tables are about to be used."""
        if self._cells is not None and self._selection.keys is not None:
            self._cells.settle()

    def rows(self, keys: Keys, namespace: Any) -> Rows:
        """The rows of a batch. `namespace` is one value for each row, or one for all."""
        self.settle()
        rows = self._rows(keys)
        if self._namespace is None:
            if namespace is not None:
                raise UserCodeError("there is no namespace here; declare it with one, or leave `namespace` out")
            return rows
        if isinstance(namespace, pa.Array) and len(namespace) == len(rows):
            return rows.within(self._namespace, namespace)
        return rows.inside(self._namespaces(len(rows), namespace))

    def _namespaces(self, count: int, namespace: Any) -> list[EncodedKeys]:
        assert self._namespace is not None
        namespace = given_namespace(namespace)
        if isinstance(namespace, pa.Array | pa.ChunkedArray | list):
            if len(namespace) != count:
                raise UserCodeError(f"{len(namespace)} namespaces for {count} keys; give one for each, or one for all")
            return self._namespace.encode(namespace)
        nowhere = np.zeros(count, dtype=np.int64)
        return [column.take(nowhere) for column in self._namespace.encode([namespace])]
