"""A cache of value states for functions of rows: states are read and written once per batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.operators.row_batches import array_of, values_of
from snapline.state.arrays import Ints, Values
from snapline.state.batch_keys import Rows
from snapline.state.groups import Groups
from snapline.state.key_scope import Keys
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.value_states import ValueState

_LEAST_ROWS = 64
"""In smaller batches it is faster to access the state for each row."""

_EXACT: tuple[tuple[pa.DataType, type], ...] = (
    (pa.int64(), int),
    (pa.float64(), float),
    (pa.string(), str),
    (pa.bool_(), bool),
)
"""The types whose values come back from state unchanged, and their Python types."""


class BatchValueCache:
    """The keys of the current batch, and the `states` to write when it ends.

    `group` is the number of the current row's key among the distinct keys.
    """

    def __init__(self, keyed: KeyedBackend) -> None:
        self.is_open = False
        self.group = 0
        self.groups: list[int] = []
        self._keyed = keyed
        self._keys: Rows | None = None
        self._last_rows: Ints = np.empty(0, dtype=np.int64)
        self.states: list[CachedValueState] = []

    def value_state(self, state: ValueState, kind: pa.DataType | None) -> ValueState:
        """`state` with the values of a batch's keys cached; `kind` is their Arrow type, None for any object.

        States of a type that may come back as another value are returned as they are.
        """
        exact = next((python for arrow, python in _EXACT if arrow == kind), None)
        return state if kind is None or exact is None else CachedValueState(state, kind, exact, self)

    def begin(self, keys: Rows) -> bool:
        """Start a batch; the caller then sets `group` for every row. False if the batch or its use is too small."""
        if not self.states or len(keys) < _LEAST_ROWS:
            return False
        self._keys = keys
        self._last_rows, groups = self._keyed.distinct(keys)
        self.groups = groups.tolist()
        self.is_open = True
        return True

    def end(self) -> None:
        """Write the changed values of the batch."""
        if self.is_open:
            for state in self.states:
                state.write()
            self.is_open = False

    def distinct(self, groups: list[int] | None = None) -> Rows:
        """The distinct keys, or some of them."""
        assert self._keys is not None
        return self._keys.take(self._last_rows if groups is None else self._last_rows[np.array(groups)])


class CachedValueState(ValueState):
    """A value state that caches the values of a batch's keys while its rows are processed."""

    def __init__(self, state: ValueState, kind: pa.DataType, exact: type, batch: BatchValueCache) -> None:
        super().__init__(state._scope, state._table, state._default)
        self._kind = kind
        self._exact = exact
        self._batch = batch
        self._values: list[Any] | None = None
        self._changed: set[int] = set()
        batch.states.append(self)

    def get(self) -> Any:
        values = self._values
        if values is None:
            if not self._batch.is_open:
                return super().get()
            values = self._load()
        value = values[self._batch.group]
        if value is None and self._default is not None:
            return super().get() if type(self._default) is not self._exact else self._default
        return value

    def set(self, value: Any) -> None:
        if not self._batch.is_open:
            super().set(value)
        elif value is not None and type(value) is not self._exact:
            # It may come back as another value, or be refused.
            self.write()
            super().set(value)
        else:
            values = self._load() if self._values is None else self._values
            values[self._batch.group] = value
            self._changed.add(self._batch.group)

    def take(self, keys: Keys, namespace: Any = None) -> Values:
        self.write()
        return super().take(keys, namespace)

    def put(self, keys: Keys, values: Values, namespace: Any = None) -> None:
        self.write()
        super().put(keys, values, namespace)

    def update(self, keys: Keys, function: Callable[[Values, Groups], Values], namespace: Any = None) -> None:
        self.write()
        super().update(keys, function, namespace)

    def delete(self, keys: Keys, namespace: Any = None) -> None:
        self.write()
        super().delete(keys, namespace)

    def write(self) -> None:
        """Write changed values and drop the cache: the next call reads them again."""
        values, changed = self._values, sorted(self._changed)
        self._values, self._changed = None, set()
        if values is not None and changed:
            super().put(self._batch.distinct(changed), array_of([values[group] for group in changed], self._kind))

    def _load(self) -> list[Any]:
        values = self._values = values_of(super().take(self._batch.distinct()))
        return values
