"""Aggregates of groups that event time brings to an end: windows, and times themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.changes import weights_of, without_change
from snapline.operators.changes.group_changes import AggregateInput, grouped
from snapline.operators.changes.retracting_aggregate import RetractingAggregate
from snapline.operators.event_time import SavedWatermark
from snapline.operators.kept_rows import kept_column
from snapline.operators.keyed_batches import decoded
from snapline.sql.operators.sql_projection import end_times_ms
from snapline.state.batch_keys import Rows
from snapline.state.timers import TimeDomain

_DUE_GROUPS = 65_536
"""About how many groups come to an end at once."""


class TimedGroups(RetractingAggregate):
    """Aggregates per group, forgotten when the watermark passes the end of the group's `time` column.

    That column is one of `groups`: a window, whose end counts, or a time. With `is_final` a group is emitted once, at
    its end, without a kind of change; otherwise changes are emitted as `RetractingAggregate` does, and none at the
    end. Rows of groups that have ended are late and dropped.
    """

    def __init__(
        self,
        schema: pa.Schema,
        groups: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        *,
        time: str,
        is_final: bool,
        before: bool,
    ) -> None:
        super().__init__(schema, groups, aggregates, before=before)
        self._time = time
        self._is_final = is_final
        if is_final:
            self.output_schema = without_change(self.output_schema)
        self._group_fields = [self.output_schema.field(name) for name in self._groups]

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._timers = self._keyed.timers()
        self._saved = SavedWatermark(context)
        self._values = self._keyed.value_state("values", pa.struct(self._group_fields)) if self._is_final else None

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        batch = self._in_time(batch)
        if not batch.num_rows:
            return
        columns = [decoded(batch.column(name)) for name in self.context.key_columns]
        rows, changes = grouped(self._keyed, columns, weights_of(batch))
        old_rows, parts, _ = self._stored(changes.keys)
        self._expect(batch, rows, changes.keys, np.flatnonzero(old_rows <= 0))
        if self._is_final:
            parts = self._added(parts, AggregateInput(batch, changes))
            self._store(changes.keys, old_rows + changes.totals, parts)
        else:
            super().process(batch, input_index)

    def _in_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        times_ms, valid = end_times_ms(batch.column(self._time))
        is_late = (times_ms <= self._saved.ms) & valid.to_numpy(zero_copy_only=False)
        if not is_late.any():
            return batch
        self.late_rows += int(np.count_nonzero(is_late))
        return batch.filter(pa.array(~is_late))

    def _expect(self, batch: pa.RecordBatch, rows: np.ndarray, keys: Rows, new: np.ndarray) -> None:
        """Set timers for new groups, and keep the columns that their rows will have."""
        if not new.size:
            return
        first = batch.take(pa.array(rows[new]))
        new_keys = keys.take(new)
        if self._values is not None:
            arrays = [kept_column(first.column(name)) for name in self._groups]
            self._values.put(new_keys, pa.StructArray.from_arrays(arrays, fields=self._group_fields))
        times_ms, valid = end_times_ms(first.column(self._time))
        timed = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
        self._timers.register_all(TimeDomain.EVENT, new_keys.take(timed), times_ms[timed])

    def watermark(self, timestamp_ms: int) -> None:
        self._saved.advance(timestamp_ms)
        while (due := self._timers.due(TimeDomain.EVENT, self._saved.ms, _DUE_GROUPS)) is not None:
            self._end(due.rows)

    def _end(self, keys: Rows) -> None:
        rows, parts, _ = self._stored(keys)
        there = np.flatnonzero(rows > 0)
        if self._values is not None and there.size:
            kept = keys.take(there)
            chosen = [[part[there] for part in found] for found in parts]
            arrays = [*self._values.take(kept).flatten(), *self._results(chosen, kept)]
            self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self.output_schema))
        self._state.delete(keys)
        for accumulator in self._accumulators.values():
            accumulator.delete(keys)
        if self._values is not None:
            self._values.delete(keys)
