"""Joins of two streams by key and window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.event_time import SavedWatermark, times
from snapline.operators.joins.join_rows import LEFT, MAX_ROWS, NAMES, RIGHT, JoinLayout, Pairs
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.windows.window_assigners import FixedAssigner, without_late
from snapline.operators.windows.window_results import bounds
from snapline.state.arrays import Ints
from snapline.state.collection_states import Spans
from snapline.state.timers import DueTimers, TimeDomain


class JoinWindows(Operator):
    """Joins rows of the same key and window once the watermark has passed the end of the window.

    `time_columns` are the time columns of both sides; `padded` says for each side whether rows without a partner are
    emitted too. Rows whose windows have all passed go to the side outputs `late_left` and `late_right`. The last two
    columns emitted are the start and the end of the window.
    """

    def __init__(
        self, layout: JoinLayout, windows: FixedAssigner, time_columns: tuple[str, str], padded: tuple[bool, bool]
    ) -> None:
        self._layout = layout
        self._windows = windows
        self._time_columns = time_columns
        self._padded = padded
        self._bound_type = layout.schema.field(-1).type

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed = keyed_state(context, "window_join")
        self._what = [f"window_join {context.uid!r}, the {name} side" for name in NAMES]
        left, right = (
            keyed.list_state(NAMES[side], kind.type, namespace=pa.int64())
            for side, kind in enumerate(self._layout.sides)
        )
        self._rows = left, right
        self._timers = keyed.timers(namespace=pa.int64())
        self._watermark = SavedWatermark(context, older_list="watermark")

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        name = self._time_columns[input_index]
        rows, starts_ms, ends_ms = self._windows.assign(
            times(batch.column(name), name, self._what[input_index], batch=batch)
        )
        is_late = ends_ms - 1 <= self._watermark.ms
        if is_late.any():
            (rows, starts_ms, ends_ms), is_dropped = without_late((rows, starts_ms, ends_ms), is_late, batch.num_rows)
            if is_dropped.any():
                self.late_rows += int(np.count_nonzero(is_dropped))
                self.context.emit_to(f"late_{NAMES[input_index]}", batch.filter(pa.array(is_dropped)))
        if not starts_ms.size:
            return
        kind = self._layout.sides[input_index]
        keys, values = self._keyed.keys(kind.keys(batch)), kind.rows(batch)
        if rows is not None:
            keys, values = keys.take(rows), values.take(pa.array(rows))
        self._rows[input_index].append(keys, values, pa.array(starts_ms))
        self._timers.register_all(TimeDomain.EVENT, keys, pa.array(ends_ms - 1), pa.array(starts_ms))

    def watermark(self, timestamp_ms: int) -> None:
        while (due := self._timers.due(TimeDomain.EVENT, timestamp_ms, MAX_ROWS)) is not None:
            self._close(due)
        self._watermark.advance(timestamp_ms)

    def _close(self, due: DueTimers) -> None:
        """Emit and delete the rows of windows."""
        assert due.namespaces is not None
        left, right = (state.spans(due.rows, due.namespaces) for state in self._rows)
        # Each left row meets all right rows of its window.
        window = left.rows
        for mine, theirs in Pairs(right.starts[window], right.counts[window]):
            self._emit(due, window[mine], left.values.take(pa.array(mine)), right.values.take(pa.array(theirs)))
        for side, spans, other in ((LEFT, left, right), (RIGHT, right, left)):
            if self._padded[side]:
                self._emit_alone(due, side, spans, other)
        for state in self._rows:
            state.delete(due.rows, due.namespaces)

    def _emit_alone(self, due: DueTimers, side: int, spans: Spans, other: Spans) -> None:
        alone = np.flatnonzero(other.counts[spans.rows] == 0)
        for first in range(0, len(alone), MAX_ROWS):
            chosen = alone[first : first + MAX_ROWS]
            rows = spans.values.take(pa.array(chosen))
            self._emit(due, spans.rows[chosen], rows if side == LEFT else None, rows if side == RIGHT else None)

    def _emit(self, due: DueTimers, windows: Ints, left: pa.Array | None, right: pa.Array | None) -> None:
        at = pa.array(windows)
        assert due.namespaces is not None
        columns = self._keyed.key.columns(due.keys.take(at))
        edges = [bounds(edge_ms, self._bound_type) for edge_ms in self._windows.unpack(due.namespaces.take(at))]
        self.context.emit(self._layout.batch(columns, left, right, edges))
