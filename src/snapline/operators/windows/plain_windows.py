"""Windows stored one by one: tumbling, given, global, and sliding ones with triggers that slices cannot serve."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import OperatorContext
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.aggregates.list_accumulators import group_of_rows, ranks
from snapline.operators.keyed_batches import chosen
from snapline.operators.windows.window_assigners import WindowAssigner, without_late
from snapline.operators.windows.window_operator import FIRED, WAITING, WindowOperator, WindowSettings
from snapline.operators.windows.window_results import Results
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.groups import Groups
from snapline.state.timers import DueTimers
from snapline.state.value_states import ValueState


class PlainWindows(WindowOperator):
    """Stores each window separately.

    A state marks windows whose timer is set, so only the first row of a window pays for a timer. The time of a timer
    shows its purpose: the last millisecond of the window, the end of the lateness, or earlier for early results.
    """

    _seen: ValueState | None = None

    def __init__(
        self, settings: WindowSettings, accumulators: Accumulators, results: Results, assigner: WindowAssigner
    ) -> None:
        super().__init__(settings, accumulators, results)
        self._assigner = assigner
        self.namespace = assigner.namespace

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._windows = self._keyed.value_state("windows/open", pa.int8(), namespace=self.namespace)
        if self._settings.firing.early_rows is not None:
            self._seen = self._keyed.value_state("windows/rows", pa.int64(), namespace=self.namespace)

    def _take_in(self, batch: pa.RecordBatch) -> None:
        bounds = [self._milliseconds(batch, name) for name in self._assigner.columns]
        rows, starts, ends = self._assigner.assign(*(bounds or [self._times(batch)]))
        is_late = ends - 1 + self._settings.lateness_ms <= self._watermark_ms
        if is_late.any():
            (rows, starts, ends), is_dropped = without_late((rows, starts, ends), is_late, batch.num_rows)
            self._late(batch, is_dropped)
        if rows is not None:
            batch = batch.take(pa.array(rows))
        if not batch.num_rows:
            return
        columns = self._key_columns(batch)
        keys, namespaces = self._keyed.keys(columns), self._assigner.pack(starts, ends)
        if self._assigner.has_end:
            self._expect(keys, namespaces, starts, ends)
        if self._seen is not None:
            self._add_in_rounds(self._seen, keys, columns, batch, namespaces, starts, ends)
        else:
            self._accumulators.add(keys, batch, namespaces)
        if self._settings.lateness_ms and self._settings.firing.at_end:
            self._fire_again(keys, columns, namespaces, starts, ends)
        self._note_changed(keys, columns, namespaces)

    def _expect(self, keys: Rows, namespaces: pa.Array, starts: Ints, ends: Ints) -> None:
        """Set the timers of windows that have none."""
        rows = self._without_timer(self._windows, keys, namespaces)
        if not rows.size:
            return
        keys, namespaces = chosen(keys, namespaces, rows)
        starts, ends = starts[rows], ends[rows]
        is_open = ends - 1 > self._watermark_ms
        times = np.where(is_open, ends - 1, ends - 1 + self._settings.lateness_ms)
        self._timers.register_all(self._domain, keys, pa.array(times), namespaces)
        self._windows.put(keys, pa.array(np.where(is_open, WAITING, FIRED).astype(np.int8)), namespaces)
        if self._settings.firing.event_every_ms is not None:
            self._expect_early(keys, namespaces, np.maximum(starts, self._watermark_ms) + 1, ends)

    def _expect_early(self, keys: Rows, namespaces: pa.Array, after: Ints, ends: Ints) -> None:
        """Set timers for the first early results at or after a time, if that is before the end."""
        every_ms = self._settings.firing.event_every_ms
        assert every_ms is not None
        times = -(-after // every_ms) * every_ms
        rows = np.flatnonzero(times < ends - 1)
        if rows.size:
            keys, namespaces = chosen(keys, namespaces, rows)
            self._timers.register_all(self._domain, keys, pa.array(times[rows]), namespaces)

    def _add_in_rounds(
        self,
        seen: ValueState,
        keys: Rows,
        columns: list[pa.Array],
        batch: pa.RecordBatch,
        namespaces: pa.Array,
        starts: Ints,
        ends: Ints,
    ) -> None:
        """Add rows and emit each window after every `early_rows` of them, as if rows had come one by one."""
        firing = self._settings.firing
        each = firing.early_rows
        assert each is not None
        positions: list[Ints] = []

        def counted(old: pa.Array, groups: Groups) -> pa.Array:
            before = pc.fill_null(old, 0).to_numpy(zero_copy_only=False)
            owners = group_of_rows(groups)
            positions.append(before[owners] + ranks(owners))
            return pa.array((before + np.bincount(owners, minlength=groups.count)) % each)

        seen.update(keys, counted, namespaces)
        rounds = positions[0] // each
        fires = (positions[0] + 1) % each == 0
        if firing.at_end:
            fires &= ends - 1 > self._watermark_ms
        for number in range(int(rounds.max()) + 1):
            rows = np.flatnonzero(rounds == number)
            some, named = chosen(keys, namespaces, rows)
            self._accumulators.add(some, batch if some is keys else batch.take(pa.array(rows)), named)
            rows = rows[fires[rows]]
            if rows.size:
                fired = self._fire(keys, columns, namespaces, starts, ends, rows)
                if firing.is_purging:
                    self._accumulators.delete(*fired)

    def _fire_again(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array, starts: Ints, ends: Ints) -> None:
        """Emit complete windows again that got rows within the lateness."""
        rows = np.flatnonzero(ends - 1 <= self._watermark_ms)
        if rows.size:
            rows = rows[self._distinct(keys.take(rows), starts[rows], ends[rows])]
            self._fire(keys, columns, namespaces, starts, ends, rows)

    def _fire(
        self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array, starts: Ints, ends: Ints, rows: Ints
    ) -> tuple[Rows, pa.Array]:
        """Emit the windows of some rows, ascending. Returns their keys and namespaces."""
        some, named = chosen(keys, namespaces, rows)
        if some is not keys:
            columns = [column.take(pa.array(rows)) for column in columns]
        self._results.emit(self.context, columns, starts[rows], ends[rows], self._accumulators.take(some, named))
        return some, named

    def _on_due(self, due: DueTimers) -> None:
        assert due.namespaces is not None
        starts, ends = self._assigner.unpack(due.namespaces)
        last = ends - 1
        lateness_ms, at_end = self._settings.lateness_ms, self._settings.firing.at_end
        is_complete = due.times == last
        is_over = due.times == last + lateness_ms
        is_early = ~(is_complete | is_over)
        if is_early.any():
            self._on_early(due, np.flatnonzero(is_early), starts, ends)
        rows = np.flatnonzero(is_complete)
        if rows.size:
            if at_end:
                self._fire(due.rows, self._columns_of(due.keys), due.namespaces, starts, ends, rows)
            if lateness_ms:
                keys, namespaces = chosen(due.rows, due.namespaces, rows)
                self._windows.put(keys, pa.array(np.full(len(rows), FIRED, dtype=np.int8)), namespaces)
                self._timers.register_all(self._domain, keys, pa.array(last[rows] + lateness_ms), namespaces)
        rows = np.flatnonzero(is_over)
        if rows.size:
            self._forget(*chosen(due.rows, due.namespaces, rows))

    def _on_early(self, due: DueTimers, rows: Ints, starts: Ints, ends: Ints) -> None:
        """Emit incomplete windows at an interval of event time, and set their next timers."""
        rows = rows[ends[rows] - 1 > self._watermark_ms]
        if not rows.size:
            return
        keys, namespaces = chosen(due.rows, due.namespaces, rows)
        self._expect_early(keys, namespaces, np.full(len(rows), self._watermark_ms + 1), ends[rows])
        # A window may have several due timers.
        rows = rows[self._distinct(keys, starts[rows], ends[rows])]
        self._fire(due.rows, self._columns_of(due.keys), due.namespaces, starts, ends, rows)

    def _forget(self, keys: Rows, namespaces: pa.Array) -> None:
        self._accumulators.delete(keys, namespaces)
        self._windows.delete(keys, namespaces)
        if self._seen is not None:
            self._seen.delete(keys, namespaces)

    def _fire_early(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array) -> None:
        starts, ends = self._assigner.unpack(namespaces)
        rows = np.flatnonzero(ends - 1 > self._watermark_ms)
        if rows.size:
            self._fire(keys, columns, namespaces, starts, ends, rows)
