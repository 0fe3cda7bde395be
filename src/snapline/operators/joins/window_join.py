"""Joins of two streams by key and window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import EngineError
from snapline.operators.event_time import SavedWatermark, times
from snapline.operators.joins.join_rows import LEFT, MAX_ROWS, NAMES, RIGHT, JoinLayout, Pairs
from snapline.operators.windows.window_results import bounds
from snapline.state.arrays import Ints
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.collection_states import ListState, Spans
from snapline.state.timers import DueTimers, TimeDomain, Timers


@dataclass(frozen=True, slots=True)
class FixedWindows:
    """Windows of one size, of which one begins every so often, at a multiple of that plus an offset."""

    size_ms: int
    every_ms: int
    offset_ms: int = 0

    def assign(self, times_ms: Ints) -> tuple[Ints, Ints]:
        """The windows of rows: for each the row, and when it begins."""
        last = (times_ms - self.offset_ms) // self.every_ms * self.every_ms + self.offset_ms
        rows, starts = [np.flatnonzero(last > times_ms - self.size_ms)], [last]
        # A row may be in one window more or less than others if none begins when another ends.
        for number in range(1, -(-self.size_ms // self.every_ms)):
            start = last - number * self.every_ms
            rows.append(np.flatnonzero(start > times_ms - self.size_ms))
            starts.append(start)
        return np.concatenate(rows), np.concatenate([start[row] for start, row in zip(starts, rows, strict=True)])


class JoinWindows(Operator):
    """Puts rows of the same key and window together once event time has passed the window's end.

    `time_columns` are those of both sides; `padded` says for each side whether rows without a partner come out too. Of
    a window that has been passed no rows are taken any more; those that are in no other go to the side outputs
    `late_left` and `late_right`. The last two columns that are emitted are when the window begins and ends.
    """

    _keyed: KeyedBackend
    _rows: tuple[ListState, ListState]
    _timers: Timers
    _watermark: SavedWatermark

    def __init__(
        self, layout: JoinLayout, windows: FixedWindows, time_columns: tuple[str, str], padded: tuple[bool, bool]
    ) -> None:
        self._layout = layout
        self._windows = windows
        self._time_columns = time_columns
        self._padded = padded
        self._bound_type = layout.schema.field(-1).type

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if context.states.keyed is None:
            raise EngineError(f"window_join {context.uid!r} was opened without keyed state")
        self._keyed = keyed = context.states.keyed
        left, right = (
            keyed.list_state(NAMES[side], kind.type, namespace=pa.int64())
            for side, kind in enumerate(self._layout.sides)
        )
        self._rows = left, right
        self._timers = keyed.timers(namespace=pa.int64())
        self._watermark = SavedWatermark(context)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        what = f"window_join {self.context.uid!r}, the {NAMES[input_index]} side,"
        times_ms = times(batch.column(self._time_columns[input_index]), 1, what)
        rows, starts_ms = self._windows.assign(times_ms)
        ends_ms = starts_ms + self._windows.size_ms
        is_open = ends_ms - 1 > self._watermark.ms
        if not is_open.all():
            is_late = np.zeros(batch.num_rows, dtype=np.bool_)
            is_late[rows] = True
            rows, starts_ms, ends_ms = rows[is_open], starts_ms[is_open], ends_ms[is_open]
            is_late[rows] = False
            if is_late.any():
                self.late_rows += int(np.count_nonzero(is_late))
                self.context.emit_to(f"late_{NAMES[input_index]}", batch.filter(pa.array(is_late)))
        if not rows.size:
            return
        kind = self._layout.sides[input_index]
        keys = self._keyed.keys(kind.keys(batch)).take(rows)
        self._rows[input_index].append(keys, kind.rows(batch).take(pa.array(rows)), pa.array(starts_ms))
        self._timers.register_all(TimeDomain.EVENT, keys, pa.array(ends_ms - 1), pa.array(starts_ms))

    def watermark(self, timestamp_ms: int) -> None:
        while (due := self._timers.due(TimeDomain.EVENT, timestamp_ms, MAX_ROWS)) is not None:
            self._close(due)
        self._watermark.advance(timestamp_ms)

    def snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        self._watermark.save()

    def _close(self, due: DueTimers) -> None:
        """Emit what is in windows, and forget it."""
        assert due.namespaces is not None
        left, right = (state.spans(due.rows, due.namespaces) for state in self._rows)
        # Each left row goes with all right ones of its window, whichever window that is.
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
        starts_ms = due.namespaces.to_numpy()[windows]
        edges = [bounds(times_ms, self._bound_type) for times_ms in (starts_ms, starts_ms + self._windows.size_ms)]
        self.context.emit(self._layout.batch(columns, left, right, edges))
