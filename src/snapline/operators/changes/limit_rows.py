"""The first rows of a stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import is_changing
from snapline.operators.keyed_batches import keyed_state


class LimitRows(Operator):
    """Lets the first `count` rows of each key pass; keyed by the constant of a `KeyLayout` without columns, of all.

    The input has inserts only. `output_schema` is that of the input without the key columns.
    """

    def __init__(self, schema: pa.Schema, key_columns: tuple[str, ...], count: int) -> None:
        if is_changing(schema):
            raise ConfigurationError("a limit cannot take rows of a changing input: which of them are first may change")
        if count < 0:
            raise ConfigurationError(f"a limit must be at least 0, not {count}")
        self._count = count
        self._names = [name for name in schema.names if name not in key_columns]
        self.output_schema = pa.schema([schema.field(name) for name in self._names])

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "limit")
        self._passed = self._keyed.value_state("passed", pa.int64())

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        keys = self._keyed.keys([batch.column(name) for name in self.context.key_columns])
        lasts, groups = self._keyed.distinct(keys)
        distinct = keys if len(lasts) == len(keys) else keys.take(lasts)
        passed = self._passed.take(distinct)
        before = np.where(
            passed.is_valid().to_numpy(zero_copy_only=False), passed.fill_null(0).to_numpy(zero_copy_only=False), 0
        )
        if (before >= self._count).all():
            return
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        places = np.empty(len(groups), dtype=np.int64)
        places[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
        rows = np.flatnonzero(before[groups] + places < self._count)
        self._passed.put(distinct, pa.array(before + np.bincount(groups[rows], minlength=len(distinct))))
        if rows.size:
            chosen = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            self.context.emit(
                pa.RecordBatch.from_arrays([chosen.column(name) for name in self._names], schema=self.output_schema)
            )
