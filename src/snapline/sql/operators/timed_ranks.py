"""The best rows of partitions that event time brings to an end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.operators.changes.changes import without_change
from snapline.operators.changes.rank_order import RankKind, SortColumn
from snapline.operators.changes.ranked_changes import RankedChanges
from snapline.operators.changes.ranked_entries import RankedEntries
from snapline.operators.event_time import SavedWatermark
from snapline.operators.kept_rows import kept_column
from snapline.sql.operators.sql_projection import end_times_ms
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.timers import TimeDomain

_DUE_PARTITIONS = 1024
"""About how many partitions come to an end at once."""


class TimedRanks(RankedChanges):
    """Emits the rows whose rank in their partition is at most `limit` once, when the partition ends.

    That is when the watermark passes the end of its `time` column, a window or a time, which is one of those the input
    is partitioned by. The input has inserts only. Rows of partitions that have ended are late and dropped. Emits the
    columns of `RankedChanges` without the kind.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_columns: Sequence[str],
        order: Sequence[SortColumn],
        limit: int,
        kind: RankKind,
        *,
        time: str,
        rank_column: str | None,
        rank_type: pa.DataType | None,
    ) -> None:
        super().__init__(schema, key_columns, order, limit, kind, rank_column=rank_column, rank_type=rank_type)
        self._time = time
        self.output_schema = without_change(self.output_schema)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._timers = self._keyed.timers()
        self._saved = SavedWatermark(context)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        times_ms, valid = end_times_ms(batch.column(self._time))
        is_timed = valid.to_numpy(zero_copy_only=False)
        is_late = (times_ms <= self._saved.ms) & is_timed
        if is_late.any():
            self.late_rows += int(np.count_nonzero(is_late))
            kept = np.flatnonzero(~is_late)
            batch, times_ms, is_timed = batch.take(pa.array(kept)), times_ms[kept], is_timed[kept]
        if batch.num_rows:
            self._expect(batch, times_ms, is_timed)
            super().process(batch, input_index)

    def _expect(self, batch: pa.RecordBatch, times_ms: Ints, is_timed: Bools) -> None:
        """Set timers for new partitions."""
        keys = self._keyed.keys([kept_column(batch.column(name)) for name in self._key_columns])
        rows, _ = self._keyed.distinct(keys)
        rows = rows[is_timed[rows]]
        distinct = keys.take(rows)
        new = np.flatnonzero(self._next.take(distinct).is_null().to_numpy(zero_copy_only=False))
        if new.size:
            self._timers.register_all(TimeDomain.EVENT, distinct.take(new), times_ms[rows[new]])

    def _emit(self, entries: RankedEntries, old: tuple[Ints, Ints], new: tuple[Ints, Ints]) -> None:
        """Nothing is emitted before a partition ends."""

    def watermark(self, timestamp_ms: int) -> None:
        self._saved.advance(timestamp_ms)
        while (due := self._timers.due(TimeDomain.EVENT, self._saved.ms, _DUE_PARTITIONS)) is not None:
            self._end(due.rows)

    def _end(self, keys: Rows) -> None:
        entries = self._load(self._head, keys, np.arange(len(keys)))
        if len(entries.rows):
            rows, ranks = self._ranks(entries, self._sorted(entries), entries.counts)
            is_best = ranks <= self._limit
            taken = entries.rows.take(pa.array(rows[is_best]))
            arrays = self._rows.arrays(taken, len(taken))
            if self._ranked:
                arrays.append(pa.array(ranks[is_best]).cast(self._rank_type))
            self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self.output_schema))
        self._head.delete(keys)
        self._bounds.delete(keys)
        self._next.delete(keys)
