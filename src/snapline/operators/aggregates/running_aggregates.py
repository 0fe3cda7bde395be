"""Running aggregates per key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import OperatorContext
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.interval_flush import IntervalFlush
from snapline.operators.keyed_batches import chosen, decoded, first_rows, keyed_state
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend

CHANGED = "changed/keys"
"""Name of the state that marks the keys changed since they were last emitted; it is empty in every checkpoint."""


class ChangedKeys:
    """The keys, or keys and windows, that have changed since they were last taken.

    Keeps the key columns of rows whose keys the state does not mark as changed yet. The owner calls `take` ahead of
    each barrier.
    """

    def __init__(self, backend: KeyedBackend, namespace: pa.DataType | None = None) -> None:
        self._state = backend.value_state(CHANGED, pa.int32(), namespace=namespace)
        self._backend = backend
        self._pieces: list[tuple[list[pa.Array], pa.Array | None]] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, keys: Rows, columns: list[pa.Array], namespace: pa.Array | None = None) -> None:
        """Note the keys of a batch as changed; `columns` are its key columns."""
        known = self._state.take(keys, namespace)
        if not known.null_count:
            return
        rows = np.flatnonzero(known.is_null().to_numpy(zero_copy_only=False))
        keys, namespace = chosen(keys, namespace, rows)
        # Of several rows of a key the one whose number is in the state afterwards wins.
        numbers = pa.array(np.arange(len(rows), dtype=np.int32))
        self._state.put(keys, numbers, namespace)
        winners = np.flatnonzero(pc.equal(self._state.take(keys, namespace), numbers).to_numpy(zero_copy_only=False))
        _, namespace = chosen(keys, namespace, winners)
        self._pieces.append(([column.take(pa.array(rows[winners])) for column in columns], namespace))

    def take(self) -> tuple[Rows, list[pa.Array], pa.Array | None]:
        """Remove and return the changed keys, each once, with their columns and namespaces."""
        columns = [pa.concat_arrays(list(parts)) for parts in zip(*(piece[0] for piece in self._pieces), strict=True)]
        namespaces = [piece[1] for piece in self._pieces if piece[1] is not None]
        self._pieces.clear()
        namespace = pa.concat_arrays(namespaces) if namespaces else None
        keys = self._backend.keys(columns)
        self._state.delete(keys, namespace)
        return keys, columns, namespace


class RunningAggregates(IntervalFlush):
    """Keeps aggregates per key, and after each batch emits those of its keys.

    With `emit_every_ms` it emits the changed ones at that interval of processing time and ahead of barriers.
    """

    def __init__(self, accumulators: Accumulators, schema: pa.Schema, emit_every_ms: int | None = None) -> None:
        self._accumulators = accumulators
        self._schema = schema
        self._emit_every_ms = emit_every_ms

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "aggregate")
        self._accumulators.open(self._keyed)
        if self._emit_every_ms is not None:
            self._changed = ChangedKeys(self._keyed)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        columns = [decoded(batch.column(name)) for name in self.context.key_columns]
        keys = self._keyed.keys(columns)
        self._accumulators.add(keys, batch)
        if self._emit_every_ms is None:
            rows = first_rows(self._keyed, keys)
            self._emit(keys.take(rows), [column.take(pa.array(rows)) for column in columns])
            return
        self._changed.add(keys, columns)
        self._flush_within(self._emit_every_ms)

    def _emit(self, keys: Rows, columns: list[pa.Array]) -> None:
        """Emit the results of distinct keys; `columns` are their key columns."""
        self.context.emit(pa.RecordBatch.from_arrays([*columns, *self._accumulators.take(keys)], schema=self._schema))

    def _emit_held(self) -> None:
        if self._emit_every_ms is not None and self._changed:
            keys, columns, _ = self._changed.take()
            self._emit(keys, columns)
