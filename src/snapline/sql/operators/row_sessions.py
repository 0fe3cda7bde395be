"""Sessions of rows that each have a gap of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.range_aggregates import range_aggregate
from snapline.operators.changes.sequence_numbers import SequenceNumbers
from snapline.operators.event_time import SavedWatermark
from snapline.operators.kept_rows import RowType, kept_column, kept_type
from snapline.operators.keyed_batches import keyed_state
from snapline.sql.operators.sql_projection import end_times_ms
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.timers import TimeDomain

_DUE_KEYS = 65_536


class RowSessions(Operator):
    """Aggregates of sessions, emitted when the watermark has passed their end.

    Each row has a span in the column `session`, a struct of start and end; spans of a key that overlap or touch are
    one session. Rows whose span is null or empty are in none. The input has inserts only and is keyed by the
    `key_columns` of a `KeyLayout` of the columns `groups`. Emits the session, of type `kind`, the groups and the
    results by their names. Rows whose span has ended when they come are late and dropped.

    State holds the rows of sessions that have not ended.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_columns: Sequence[str],
        session: str,
        groups: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        kind: pa.DataType,
    ) -> None:
        self._key_columns = tuple(key_columns)
        self._session = session
        self._groups = tuple(groups)
        self._kind = kind
        self._rows = RowType(schema, self._key_columns)
        rows = pa.schema(self._rows.fields)
        self._aggregates = [range_aggregate(each, rows) for each in aggregates.values()]
        fields = [pa.field(session, kind, nullable=False)]
        fields += [schema.field(name).with_type(kept_type(schema.field(name).type)) for name in self._groups]
        fields += [pa.field(name, each.accumulator(rows).result) for name, each in aggregates.items()]
        self.output_schema = pa.schema(fields)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "sessions")
        self._waiting = self._keyed.map_state("rows", pa.int64(), self._rows.type)
        self._numbers = SequenceNumbers(self._keyed, "next")
        self._timers = self._keyed.timers()
        self._saved = SavedWatermark(context)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        batch = self._in_time(batch)
        if not batch.num_rows:
            return
        every = self._keyed.keys([kept_column(batch.column(name)) for name in self._key_columns])
        lasts, groups = self._keyed.distinct(every)
        keys = every if len(lasts) == len(every) else every.take(lasts)
        self._waiting.put_all(every, pa.array(self._numbers.take(keys, groups)), self._rows.rows(batch))
        times_ms, _ = end_times_ms(batch.column(self._session))
        self._timers.register_all(TimeDomain.EVENT, every, times_ms)

    def _in_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are in a session that has not ended."""
        spans = batch.column(self._session)
        starts, ends = spans.flatten()
        has_span = pc.fill_null(pc.less(starts, ends), False).to_numpy(zero_copy_only=False)
        times_ms, _ = end_times_ms(spans)
        is_late = has_span & (times_ms <= self._saved.ms)
        self.late_rows += int(np.count_nonzero(is_late))
        kept = has_span & ~is_late
        return batch if kept.all() else batch.filter(pa.array(kept))

    def watermark(self, timestamp_ms: int) -> None:
        self._saved.advance(timestamp_ms)
        while (due := self._timers.due(TimeDomain.EVENT, self._saved.ms, _DUE_KEYS)) is not None:
            lasts, _ = self._keyed.distinct(due.rows)
            self._end(due.rows if len(lasts) == len(due.rows) else due.rows.take(lasts))

    def _end(self, keys: Rows) -> None:
        """Emit and forget the sessions of keys that are over."""
        owners, numbers, rows = self._waiting.entries(keys)
        if not len(owners):
            return
        arrays = dict(zip(self._rows.columns, self._rows.arrays(rows, len(rows)), strict=True))
        starts, ends = (part.cast(pa.int64()).to_numpy() for part in arrays[self._session].flatten())
        order = np.lexsort((numbers.to_numpy(), starts, owners))
        firsts = np.flatnonzero(session_starts(owners[order], starts[order], ends[order]))
        afters = np.append(firsts[1:], len(order))
        last_times = np.maximum.reduceat(ends[order], firsts)
        is_over = -(-last_times // 1000) - 1 <= self._saved.ms
        over = np.flatnonzero(is_over)
        if not over.size:
            return
        session_of = np.repeat(np.arange(len(firsts)), afters - firsts)
        gone = order[is_over[session_of]]
        self._waiting.put_all(keys.take(owners[gone]), numbers.take(pa.array(gone)), pa.nulls(len(gone), rows.type))
        self._forget(keys, owners, gone)
        columns = {name: array.take(pa.array(order)) for name, array in arrays.items()}
        results = [each.prepared(columns, session_of).results(firsts[over], afters[over]) for each in self._aggregates]
        bounds = [starts[order][firsts[over]], last_times[over]]
        spans = pa.StructArray.from_arrays(
            [pa.array(bound).view(field.type) for bound, field in zip(bounds, self._kind, strict=True)],
            fields=list(self._kind),
        )
        named = [columns[name].take(pa.array(firsts[over])) for name in self._groups]
        self.context.emit(pa.RecordBatch.from_arrays([spans, *named, *results], schema=self.output_schema))

    def _forget(self, keys: Rows, owners: Ints, gone: Ints) -> None:
        """Drop the sequence numbers of keys that have no rows left."""
        left = np.bincount(owners, minlength=len(keys)) - np.bincount(owners[gone], minlength=len(keys))
        empty = np.flatnonzero(left == 0)
        if empty.size:
            self._numbers.forget(keys.take(empty))


def session_starts(owners: Ints, starts: Ints, ends: Ints) -> Bools:
    """Which spans, sorted by owner and start, neither overlap nor touch any before them of their owner."""
    values, ranks = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    # With ranks instead of times, owners are kept apart without overflow.
    apart = owners * len(values)
    latest = np.maximum.accumulate(ranks[len(starts) :] + apart)
    is_first = np.ones(len(starts), dtype=np.bool_)
    is_first[1:] = (owners[1:] != owners[:-1]) | (ranks[1 : len(starts)] + apart[1:] > latest[:-1])
    return is_first
