"""Helpers of operators with keyed state: the state itself, key columns, and choosing rows of a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.errors import EngineError
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend


def keyed_state(context: OperatorContext, operator: str) -> KeyedBackend:
    """The keyed state of an operator that cannot work without; `operator` is what messages call it."""
    if context.states.keyed is None:
        raise EngineError(f"{operator} {context.uid!r} was opened without keyed state")
    return context.states.keyed


def decoded(column: pa.Array) -> pa.Array:
    """The column with dictionaries decoded."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def chosen(keys: Rows, namespace: pa.Array | None, rows: Ints | None) -> tuple[Rows, pa.Array | None]:
    """Keys and namespaces of some rows of a batch, ascending; None chooses all rows."""
    if rows is None or len(rows) == len(keys):
        return keys, namespace
    return keys.take(rows), None if namespace is None else namespace.take(pa.array(rows))


def first_rows(backend: KeyedBackend, keys: Rows) -> Ints:
    """The first row of each distinct key, in row order."""
    last_rows, groups = backend.distinct(keys)
    first = np.empty(len(last_rows), dtype=np.int64)
    first[groups[::-1]] = np.arange(len(keys) - 1, -1, -1)
    first.sort()
    return first
