"""The first row of each key, for as long as others with it may come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.event_time import SavedWatermark
from snapline.operators.keyed_batches import decoded, first_rows, keyed_state
from snapline.sql.operators.sql_projection import end_times_ms
from snapline.state.timers import TimeDomain

_DUE_KEYS = 65_536


class KeepFirstWithin(Operator):
    """Emits a row unless one with its key came whose time, plus `delay_ms`, the watermark has not passed.

    Rows at or below the watermark are late and dropped. `time` is the column with the time, or a window.
    """

    def __init__(self, time: str, delay_ms: int) -> None:
        self._time = time
        self._delay_ms = delay_ms

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "distinct")
        self._seen = self._keyed.value_state("seen", pa.bool_())
        self._timers = self._keyed.timers()
        self._saved = SavedWatermark(context)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        times_ms, valid = end_times_ms(batch.column(self._time))
        is_late = (times_ms <= self._saved.ms) & valid.to_numpy(zero_copy_only=False)
        if is_late.any():
            self.late_rows += int(np.count_nonzero(is_late))
            batch = batch.filter(pa.array(~is_late))
            times_ms, valid = end_times_ms(batch.column(self._time))
        if not batch.num_rows:
            return
        keys = self._keyed.keys([decoded(batch.column(name)) for name in self.context.key_columns])
        first = first_rows(self._keyed, keys)
        is_new = self._seen.take(keys.take(first)).is_null().to_numpy(zero_copy_only=False)
        rows = first[is_new]
        if not rows.size:
            return
        new = keys.take(rows)
        self._seen.put(new, pa.array(np.ones(len(rows), dtype=np.bool_)))
        timed = np.flatnonzero(valid.to_numpy(zero_copy_only=False)[rows])
        self._timers.register_all(TimeDomain.EVENT, new.take(timed), times_ms[rows][timed] + self._delay_ms)
        self.context.emit(batch.take(pa.array(rows)))

    def watermark(self, timestamp_ms: int) -> None:
        self._saved.advance(timestamp_ms)
        while (due := self._timers.due(TimeDomain.EVENT, self._saved.ms, _DUE_KEYS)) is not None:
            self._seen.delete(due.rows)
