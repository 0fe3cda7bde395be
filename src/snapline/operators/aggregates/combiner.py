"""Putting rows of one key together before they are sent to the subtask that owns the key."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import EngineError
from snapline.operators.aggregates.accumulators import Accumulators, decoded
from snapline.state.exact_cast import converted
from snapline.state.reduction import Reduction
from snapline.state.stable_hash import check_no_nulls

_MAX_KEYS = 1 << 18
"""So many keys are handed on at once at most."""

_WORTHWHILE = 0.5
"""If more than this share of the rows have a key of their own, putting them together saves nothing."""

_TRIAL_ROWS = 1 << 16
"""Fewer say nothing about that."""

_BATCHES_BETWEEN_TRIALS = 256


class Combine(Operator):
    """Reduces rows by key to the parts of aggregates, and hands those on at an interval of processing time.

    It also does so ahead of every barrier, so it needs no state. Rows of which hardly two have the same key are handed
    on one by one; now and then it is tried again. `operator` is whose aggregates they are, as messages call it.
    """

    _reduction: Reduction

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
        self._next_ms: int | None = None
        self._passing = 0

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._reduction = Reduction(self._key, [(part.result, part.reduce) for part in self._parts])

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if not batch.num_rows:
            return
        keys = [decoded(batch.column(name)) for name in self._key_columns]
        check_no_nulls(keys, self._key_columns, self._operator)
        inputs = self._accumulators.inputs(batch)
        values = [part.values(inputs) for part in self._parts]
        if self._passing:
            self._passing -= 1
            self._emit(keys, [converted(column, part.result) for column, part in zip(values, self._parts, strict=True)])
            return
        self._reduction.add(keys, values)
        if self._next_ms is None:
            self._next_ms = self.context.clock() + self._every_ms
        if self._reduction.has_more_keys_than(_MAX_KEYS):
            self._flush()

    def next_wakeup_ms(self) -> int | None:
        return self._next_ms

    def wakeup(self, now_ms: int) -> None:
        if self._next_ms is not None and now_ms >= self._next_ms:
            self._flush()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        self._flush()

    def finish(self) -> None:
        self._flush()

    def _flush(self) -> None:
        self._next_ms = None
        rows = self._reduction.rows
        if not rows:
            return
        keys, values = self._reduction.drain()
        if rows >= _TRIAL_ROWS and len(keys[0]) > _WORTHWHILE * rows:
            self._passing = _BATCHES_BETWEEN_TRIALS
        self._emit(keys, values)

    def _emit(self, keys: list[pa.Array], values: list[pa.Array]) -> None:
        self.context.emit(pa.RecordBatch.from_arrays([*keys, *values], schema=self._schema))
