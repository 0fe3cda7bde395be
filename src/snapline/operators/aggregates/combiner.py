"""Pre-aggregation: rows of one key are combined before they go to the subtask that owns the key."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.errors import EngineError
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.interval_flush import IntervalFlush
from snapline.operators.keyed_batches import decoded
from snapline.state.exact_cast import converted
from snapline.state.reduction import Reduction
from snapline.state.stable_hash import check_no_nulls

_MAX_KEYS = 1 << 18
"""Limit of keys held back at once."""

_WORTHWHILE = 0.5
"""Combining saves nothing if there are more distinct keys per row than this."""

_TRIAL_ROWS = 1 << 16
"""Rows needed to judge that."""

_BATCHES_BETWEEN_TRIALS = 256


class Combine(IntervalFlush):
    """Reduces rows by key to the parts of aggregates, and emits those at an interval of processing time.

    It holds nothing back at a barrier, so it needs no state. If hardly any two rows share a key, rows pass one by one,
    and combining is tried again now and then. `operator` is the operator of the aggregates, for messages.
    """

    def __init__(
        self,
        key_columns: Sequence[str],
        key: pa.DataType,
        accumulators: Accumulators,
        schema: pa.Schema,
        every_ms: int,
        operator: str = "aggregate",
    ) -> None:
        parts = accumulators.parts
        if parts is None:
            raise EngineError("aggregates that need the rows themselves cannot be combined")
        self._key_columns = tuple(key_columns)
        self._key = key
        self._accumulators = accumulators
        self._parts = list(parts.values())
        self._schema = schema
        self._every_ms = every_ms
        self._operator = operator
        self._passing = 0

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._reduction = Reduction(self._key, [(part.result, part.reduce) for part in self._parts])

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        keys = [decoded(batch.column(name)) for name in self._key_columns]
        check_no_nulls(keys, self._key_columns, self._operator, batch)
        inputs = self._accumulators.inputs(batch)
        values = [part.values(inputs) for part in self._parts]
        if self._passing:
            self._passing -= 1
            self._emit(keys, [converted(column, part.result) for column, part in zip(values, self._parts, strict=True)])
            return
        self._reduction.add(keys, values)
        self._flush_within(self._every_ms)
        if self._reduction.has_more_keys_than(_MAX_KEYS):
            self._flush()

    def _emit_held(self) -> None:
        rows = self._reduction.rows
        if not rows:
            return
        keys, values = self._reduction.drain()
        if rows >= _TRIAL_ROWS and len(keys[0]) > _WORTHWHILE * rows:
            self._passing = _BATCHES_BETWEEN_TRIALS
        self._emit(keys, values)

    def _emit(self, keys: list[pa.Array], values: list[pa.Array]) -> None:
        self.context.emit(pa.RecordBatch.from_arrays([*keys, *values], schema=self._schema))
