"""Which entries calls mean: those of the keys of a batch, or of the key in process, in a namespace."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.batch_keys import KeyTypes, Rows, Single
from snapline.state.stable_hash import EncodedKeys

Keys: TypeAlias = Any
"""What `KeyedBackend.keys` gives, or takes: an array, a list of values, for composite keys a list of arrays."""

_OWNER = object()
"""The label of a single row without more columns."""


class Current(Protocol):
    """Which key, and which namespace, the calls for one key mean."""

    def rows(self, keys: Keys) -> Rows: ...

    def current(self) -> tuple[Rows, int, Any]:
        """The keys of the batch in process, the row in process, and the namespace."""
        ...


class Scope:
    """Finds what a state, or a set of timers, with or without a `namespace` is asked for."""

    def __init__(self, current: Current, namespace: KeyTypes | None) -> None:
        self._current = current
        self._namespace = namespace
        self._type = None if namespace is None else str(namespace.kind)

    def rows(self, keys: Keys, namespace: Any) -> Rows:
        """The rows of a batch. A namespace is given as one for each row, or as one for all."""
        rows = self._current.rows(keys)
        if self._namespace is None:
            if namespace is not None:
                raise UserCodeError("there is no namespace here; declare it with one, or leave `namespace` out")
            return rows
        if isinstance(namespace, pa.Array) and len(namespace) == len(rows):
            return rows.within(self._namespace, namespace)
        return rows.inside(self._namespaces(len(rows), namespace))

    def one(self) -> tuple[Rows, int]:
        """The rows to look in, and which of them is the one in process."""
        rows, row, namespace = self._current.current()
        if self._namespace is None:
            return rows, row
        types = self._namespace
        # Equal values of different types, 1 and 1.0 say, are different namespaces.
        label = (self._type, _label(self._given(namespace)))
        return rows.one(row, lambda: types.encode([namespace]), label), 0

    def owner(self) -> Rows:
        """The row in process alone."""
        rows, row = self.one()
        return rows if len(rows) == 1 else rows.one(row, list, _OWNER)

    def single(self) -> Single:
        """The entry in process alone, ready to be looked up without numpy."""
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


def _label(namespace: Any) -> Any:
    return tuple(sorted(namespace.items())) if isinstance(namespace, dict) else namespace
