"""Sliding windows that share slices: a row is added to one slice, and a window combines its slices."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.keyed_batches import chosen
from snapline.operators.windows.window_operator import FIRED, WAITING, WindowOperator, WindowSettings
from snapline.operators.windows.window_results import Results
from snapline.state.arrays import Ints
from snapline.state.batch_keys import Rows
from snapline.state.groups import Groups
from snapline.state.timers import DueTimers

_MAX_SLICES = 3600
"""Windows with more slices are stored one by one."""

_TOGETHER = 1 << 20
"""About how many slices are combined at once."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Windows of one size that start every `every_ms`, cut wherever one of them starts or ends."""

    size_ms: int
    every_ms: int
    offset_ms: int
    slice_ms: int

    @property
    def count(self) -> int:
        """The number of slices of a window."""
        return self.size_ms // self.slice_ms

    def slice_starts(self, times: Ints) -> Ints:
        return times - (times - self.offset_ms) % self.slice_ms

    def last_windows(self, slices: Ints) -> Ints:
        """The start of the last window that starts before a slice ends; it may end before the slice starts."""
        return slices - (slices - self.offset_ms) % self.every_ms

    def first_windows(self, slices: Ints) -> Ints:
        """The start of the first window that contains a slice."""
        return self.from_time(slices + self.slice_ms - self.size_ms)

    def from_time(self, times: Ints) -> Ints:
        """The start of the first window that starts at or after a time."""
        return times + (self.offset_ms - times) % self.every_ms


def slices_of(size_ms: int, every_ms: int, offset_ms: int) -> Slices | None:
    """The slices of sliding windows, or None if there would be too many."""
    slice_ms = gcd(size_ms, every_ms)
    return Slices(size_ms, every_ms, offset_ms, slice_ms) if size_ms // slice_ms <= _MAX_SLICES else None


class SlicedWindows(WindowOperator):
    """Stores slices by their start, and timers of windows by theirs.

    Only the next window of a key has a timer; when it fires, the following one gets a timer if it has slices. A slice
    is deleted with the last window that contains it.
    """

    # The window that follows a fired one may already have a timer and must not get another.
    fires_in_order = True

    def __init__(self, settings: WindowSettings, accumulators: Accumulators, results: Results, slices: Slices) -> None:
        super().__init__(settings, accumulators, results)
        self._slices = slices

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._slices_open = self._keyed.value_state("windows/open", pa.int8(), namespace=self.namespace)

    def _take_in(self, batch: pa.RecordBatch) -> None:
        slices = self._slices
        starts = slices.slice_starts(self._times(batch))
        last_ends = slices.last_windows(starts) + slices.size_ms
        is_inside = starts < last_ends
        is_late = last_ends - 1 + self._settings.lateness_ms <= self._watermark_ms
        if is_late.any() or not is_inside.all():
            self._late(batch, is_late & is_inside)
            rows = np.flatnonzero(is_inside & ~is_late)
            batch, starts = batch.take(pa.array(rows)), starts[rows]
        if not batch.num_rows:
            return
        columns = self._key_columns(batch)
        keys, namespaces = self._keyed.keys(columns), pa.array(starts)
        self._expect(keys, namespaces, starts)
        self._accumulators.add(keys, batch, namespaces)
        if self._settings.lateness_ms:
            self._fire_again(keys, columns, starts)
        self._note_changed(keys, columns, namespaces)

    def _expect(self, keys: Rows, namespaces: pa.Array, starts: Ints) -> None:
        """Set timers for the next windows of new slices."""
        rows = self._without_timer(self._slices_open, keys, namespaces)
        if not rows.size:
            return
        keys, namespaces = chosen(keys, namespaces, rows)
        starts, slices = starts[rows], self._slices
        last = slices.last_windows(starts)
        window = np.maximum(slices.first_windows(starts), self._first_incomplete())
        is_open = window <= last
        window = np.minimum(window, last)
        times = window + slices.size_ms - 1 + np.where(is_open, 0, self._settings.lateness_ms)
        self._timers.register_all(self._domain, keys, pa.array(times), pa.array(window))
        self._slices_open.put(keys, pa.array(np.where(is_open, WAITING, FIRED).astype(np.int8)), namespaces)

    def _first_incomplete(self, late_ms: int = 0) -> int:
        """The start of the first window that was not complete `late_ms` ago."""
        return int(self._slices.from_time(np.array([self._watermark_ms - late_ms + 2 - self._slices.size_ms]))[0])

    def _windows_of(self, starts: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """The windows from `first` to `last` of each slice: the number of the slice, and the start of the window."""
        counts = np.maximum((last - first) // self._slices.every_ms + 1, 0)
        rows = np.repeat(np.arange(len(starts)), counts)
        steps = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, first[rows] + steps * self._slices.every_ms

    def _fire_again(self, keys: Rows, columns: list[pa.Array], starts: Ints) -> None:
        """Emit complete windows again that got rows within the lateness."""
        slices = self._slices
        first = slices.first_windows(starts)
        rows = np.flatnonzero(first + slices.size_ms - 1 <= self._watermark_ms)
        if not rows.size:
            return
        rows = rows[self._distinct(keys.take(rows), starts[rows])]
        starts = starts[rows]
        # Not those whose slices may be deleted.
        first = np.maximum(first[rows], self._first_incomplete(self._settings.lateness_ms))
        last = np.minimum(slices.last_windows(starts), self._first_incomplete() - slices.every_ms)
        owners, windows = self._windows_of(starts, first, last)
        self._fire_distinct(keys, columns, rows[owners], windows)

    def _fire_early(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array) -> None:
        starts = namespaces.to_numpy()
        first = np.maximum(self._slices.first_windows(starts), self._first_incomplete())
        rows, windows = self._windows_of(starts, first, self._slices.last_windows(starts))
        self._fire_distinct(keys, columns, rows, windows)

    def _fire_distinct(self, keys: Rows, columns: list[pa.Array], rows: Ints, windows: Ints) -> None:
        """Emit the windows of rows, each once."""
        if not rows.size:
            return
        once = self._distinct(keys.take(rows), windows)
        rows, windows = rows[once], windows[once]
        self._fire(keys.take(rows), [column.take(pa.array(rows)) for column in columns], windows)

    def _fire(self, keys: Rows, columns: list[pa.Array], windows: Ints) -> list[tuple[Rows, Ints, Ints]]:
        """Emit windows. For each part of them returns the keys and starts of the slices found, and their windows."""
        found = []
        step = max(1, _TOGETHER // self._slices.count)
        for start in range(0, len(windows), step):
            part = np.arange(start, min(start + step, len(windows)))
            found.append(self._fire_part(keys, columns, windows, part))
        return found

    def _fire_part(self, keys: Rows, columns: list[pa.Array], windows: Ints, part: Ints) -> tuple[Rows, Ints, Ints]:
        slices = self._slices
        owners = np.repeat(np.arange(len(part)), slices.count)
        starts = (windows[part][:, None] + np.arange(slices.count) * slices.slice_ms).ravel()
        tiled = keys.take(part[owners])
        is_there = self._slices_open.take(tiled, pa.array(starts)).is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_there)
        tiled, owners, starts = tiled.take(rows), owners[rows], starts[rows]
        firing, groups = np.unique(owners, return_inverse=True)
        if firing.size:
            indices = None if len(firing) == len(owners) else groups.astype(np.int32)
            taken = self._accumulators.take_together(tiled, Groups(len(firing), indices), pa.array(starts))
            named = [column.take(pa.array(part[firing])) for column in columns]
            begin = windows[part[firing]]
            self._results.emit(self.context, named, begin, begin + slices.size_ms, taken)
        return tiled, starts, windows[part][owners]

    def _on_due(self, due: DueTimers) -> None:
        assert due.namespaces is not None
        slices, lateness_ms = self._slices, self._settings.lateness_ms
        windows = due.namespaces.to_numpy()
        last = windows + slices.size_ms - 1
        rows = np.flatnonzero(due.times == last)
        if rows.size:
            keys = due.rows.take(rows)
            columns = [column.take(pa.array(rows)) for column in self._columns_of(due.keys)]
            for found, starts, fired in self._fire(keys, columns, windows[rows]):
                self._fired(found, starts, fired)
            if lateness_ms:
                self._timers.register_all(
                    self._domain, keys, pa.array(last[rows] + lateness_ms), pa.array(windows[rows])
                )
        rows = np.flatnonzero(due.times == last + lateness_ms)
        if rows.size:
            self._forget(due.rows.take(rows), windows[rows])

    def _fired(self, keys: Rows, starts: Ints, windows: Ints) -> None:
        """Windows with these slices have fired; set the timers of the following windows."""
        slices = self._slices
        rows = np.flatnonzero(starts >= windows + slices.every_ms)
        if rows.size:
            following = windows[rows] + slices.every_ms
            times = pa.array(following + slices.size_ms - 1)
            self._timers.register_all(self._domain, keys.take(rows), times, pa.array(following))
        if self._settings.lateness_ms and len(starts):
            marks = pa.array(np.full(len(starts), FIRED, dtype=np.int8))
            self._slices_open.put(keys, marks, pa.array(starts))

    def _forget(self, keys: Rows, windows: Ints) -> None:
        """Delete the slices that no later window contains."""
        count = min(self._slices.every_ms, self._slices.size_ms) // self._slices.slice_ms
        starts = pa.array((windows[:, None] + np.arange(count) * self._slices.slice_ms).ravel())
        owners = keys.take(np.repeat(np.arange(len(windows)), count))
        self._accumulators.delete(owners, starts)
        self._slices_open.delete(owners, starts)
