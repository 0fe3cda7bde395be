"""User-defined aggregates: objects with four methods, called for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.operators.aggregates.accumulators import Accumulator, Inputs
from snapline.operators.keyed_batches import chosen
from snapline.state.batch_keys import Rows
from snapline.state.exact_cast import exact_array
from snapline.state.groups import Groups
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.value_states import AggregateFunction
from snapline.text import error_text, shortened


class MergeableFunction(AggregateFunction[Any], Protocol):
    """An aggregate function that can merge accumulators, which may be anything that can be pickled."""

    def merge(self, accumulator: Any, other: Any) -> Any:
        """The accumulator with another one merged into it; it may be the same object."""
        ...


class Custom(Accumulator):
    """A user-defined aggregate. With several columns it adds tuples of their values."""

    def __init__(
        self, function: MergeableFunction, columns: Sequence[str], result: pa.DataType, where: int | None
    ) -> None:
        self._function = function
        self._columns = tuple(columns)
        self.result = result
        self.where = where

    def open(self, backend: KeyedBackend, name: str, namespace: pa.DataType | None) -> None:
        self._name = name
        self._state = backend.value_state(name, object, namespace=namespace)

    def add(self, keys: Rows, inputs: Inputs, namespace: pa.Array | None) -> None:
        columns = [inputs.column(column) for column in self._columns]
        rows = inputs.rows(self.where, *(columns if len(columns) == 1 else []))
        lists = [(column if rows is None else column.take(pa.array(rows))).to_pylist() for column in columns]
        values = lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
        keys, namespace = chosen(keys, namespace, rows)
        self._update(keys, values, self._function.add, namespace)

    def _update(
        self, keys: Rows, values: Sequence[Any], bring_in: Callable[[Any, Any], Any], namespace: pa.Array | None
    ) -> None:
        def updated(old: list[Any], groups: Groups) -> list[Any]:
            result = list(old)
            indices = range(groups.count) if groups.indices is None else groups.indices.tolist()
            for group, value in zip(indices, values, strict=True):
                known = result[group]
                result[group] = self._call(
                    bring_in, self._call(self._function.create) if known is None else known, value
                )
            return result

        if len(values):
            self._state.update(keys, updated, namespace)

    def take(self, keys: Rows, namespace: pa.Array | None) -> pa.Array:
        return self._results(self._state.take(keys, namespace))

    def take_together(self, keys: Rows, groups: Groups, namespace: pa.Array) -> pa.Array:
        result: list[Any] = [None] * groups.count
        indices = range(groups.count) if groups.indices is None else groups.indices.tolist()
        for group, item in zip(indices, self._state.take(keys, namespace), strict=True):
            if item is not None:
                known = self._call(self._function.create) if result[group] is None else result[group]
                # A copy: other windows need the accumulator in state unchanged.
                result[group] = self._call(self._function.merge, known, deepcopy(item))
        return self._results(result)

    def move(self, keys: Rows, sources: pa.Array, targets: pa.Array) -> None:
        found = self._state.take(keys, sources)
        self._state.delete(keys, sources)
        rows = np.array([row for row, item in enumerate(found) if item is not None], dtype=np.int64)
        keys, moved = chosen(keys, targets, rows)
        self._update(keys, [found[row] for row in rows.tolist()], self._function.merge, moved)

    def delete(self, keys: Rows, namespace: pa.Array | None) -> None:
        self._state.delete(keys, namespace)

    def _results(self, accumulators: Sequence[Any]) -> pa.Array:
        values = [None if item is None else self._call(self._function.result, item) for item in accumulators]
        try:
            return exact_array(values, self.result)
        except UserCodeError as error:
            raise UserCodeError(
                f"the result of the aggregate {self._name!r} does not fit its type: {error}; give another type="
            ) from error

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            columns = ", ".join(map(repr, self._columns))
            given = f", for {shortened(arguments[-1])} of the columns {columns}" if arguments else ""
            raise UserCodeError(f"the aggregate {self._name!r} raised {error_text(error)}{given}") from error
