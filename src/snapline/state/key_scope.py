"""Which entries a call refers to: those of the keys of a batch, or of the current key, in a namespace."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.batch_keys import KeyTypes, Rows, Single
from snapline.state.stable_hash import EncodedKeys

Keys: TypeAlias = Any
"""The result of `KeyedBackend.keys`, or its argument: an array, a list of values, a list of arrays (composite keys)."""

_OWNER = object()
"""Label of a single row without further columns."""


class Current(Protocol):
    """Knows the current key and namespace, which calls for one key refer to."""

    def rows(self, keys: Keys) -> Rows: ...

    def current(self) -> tuple[Rows, int, Any]:
        """The keys of the current batch, the current row, and the namespace."""
        ...


class Scope:
    """Finds the rows that calls of a state, or of timers, refer to. `namespace` is None if there is none."""

    def __init__(self, current: Current, namespace: KeyTypes | None) -> None:
        self._current = current
        self._namespace = namespace
        self._type = None if namespace is None else str(namespace.kind)

    def rows(self, keys: Keys, namespace: Any) -> Rows:
        """The rows of a batch. `namespace` is one value for each row, or one for all."""
        rows = self._current.rows(keys)
        if self._namespace is None:
            if namespace is not None:
                raise UserCodeError("there is no namespace here; declare it with one, or leave `namespace` out")
            return rows
        if isinstance(namespace, pa.Array) and len(namespace) == len(rows):
            return rows.within(self._namespace, namespace)
        return rows.inside(self._namespaces(len(rows), namespace))

    def one(self) -> tuple[Rows, int]:
        """The rows to look in, and which of them is the current one."""
        rows, row, namespace = self._current.current()
        if self._namespace is None:
            return rows, row
        types, label = self._namespace, self._given(namespace)
        if isinstance(label, dict):
            label = tuple(sorted(label.items()))
        # Equal values of different types, 1 and 1.0 say, are different namespaces.
        label = (self._type, label)
        return rows.one(row, lambda: types.encode([namespace]), label), 0

    def owner(self) -> Rows:
        """The current row alone."""
        rows, row = self.one()
        return rows if len(rows) == 1 else rows.one(row, list, _OWNER)

    def single(self) -> Single:
        """The current entry, for lookups without numpy."""
        rows, row = self.one()
        return rows.single(row)

    def _namespaces(self, count: int, namespace: Any) -> list[EncodedKeys]:
        assert self._namespace is not None
        namespace = self._given(namespace)
        if isinstance(namespace, pa.Array | pa.ChunkedArray | list):
            if len(namespace) != count:
                raise UserCodeError(f"{len(namespace)} namespaces for {count} keys; give one for each, or one for all")
            return self._namespace.encode(namespace)
        nowhere = np.zeros(count, dtype=np.int64)
        return [column.take(nowhere) for column in self._namespace.encode([namespace])]

    @staticmethod
    def _given(namespace: Any) -> Any:
        if namespace is None:
            raise UserCodeError("this state has a namespace; select one, or give it with the keys")
        return namespace
