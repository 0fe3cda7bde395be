"""The base of all window operators: time of rows, late rows, timers, and early results."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import OperatorContext
from snapline.errors import UserCodeError
from snapline.operators.aggregates.accumulators import Accumulators
from snapline.operators.aggregates.running_aggregates import ChangedKeys
from snapline.operators.event_time import SavedWatermark, times
from snapline.operators.interval_flush import IntervalFlush
from snapline.operators.keyed_batches import decoded, keyed_state
from snapline.operators.windows.window_assigners import FAR_MS
from snapline.operators.windows.window_results import Results
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.timers import DueTimers, TimeDomain
from snapline.state.value_states import ValueState
from snapline.types import MAX_WATERMARK

_log = logging.getLogger(__name__)

WAITING = 1
FIRED = 2
"""Marks of a window or slice in state: the timer for the end of its next window is set, or may have fired."""

_DUE_TIMERS = 65_536
"""About how many timers fire at once."""


@dataclass(frozen=True, slots=True)
class Firing:
    """When results are emitted: after every `early_rows`, at intervals of processing or event time, and at the end."""

    early_rows: int | None = None
    early_every_ms: int | None = None
    event_every_ms: int | None = None
    is_purging: bool = False
    at_end: bool = True


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How a window operator treats time. Without a `time_column` the time of rows does not matter."""

    time_column: str | None
    is_processing_time: bool
    lateness_ms: int
    late_output: str | None
    firing: Firing


class WindowOperator(IntervalFlush):
    """Aggregates rows by key and window, and emits the results when windows are complete, or earlier.

    The watermark, or processing time in its place, never goes back here. It is in every checkpoint: a row that would
    have been late is late after a restore too, and does not reopen a window that has fired.
    """

    namespace: pa.DataType = pa.int64()
    """The type that identifies windows in state."""

    fires_in_order = False
    """Whether all timers of one time must be handled before those of the next are taken."""

    def __init__(self, settings: WindowSettings, accumulators: Accumulators, results: Results) -> None:
        self._settings = settings
        self._accumulators = accumulators
        self._results = results
        self._domain = TimeDomain.PROCESSING if settings.is_processing_time else TimeDomain.EVENT
        self._watermark_ms = -2 * FAR_MS
        self._has_warned = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"window {context.uid!r}"
        self._keyed = keyed_state(context, "window")
        self._accumulators.open(self._keyed, self.namespace)
        self._timers = self._keyed.timers(self.namespace)
        is_early = self._settings.firing.early_every_ms is not None
        self._changed = ChangedKeys(self._keyed, self.namespace) if is_early else None
        self._saved = SavedWatermark(context, older_list="watermark")
        if not self._settings.is_processing_time:
            self._watermark_ms = max(self._watermark_ms, self._saved.ms)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if batch.num_rows:
            self._take_in(batch)

    @abstractmethod
    def _take_in(self, batch: pa.RecordBatch) -> None:
        """Add rows to their windows."""

    @abstractmethod
    def _on_due(self, due: DueTimers) -> None:
        """Handle due timers."""

    @abstractmethod
    def _fire_early(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array) -> None:
        """Emit the changed windows that are not complete yet."""

    # Time.

    def _times(self, batch: pa.RecordBatch) -> Ints:
        """The time of each row in milliseconds."""
        if self._settings.is_processing_time:
            return np.full(batch.num_rows, max(self.context.clock(), self._watermark_ms + 1), dtype=np.int64)
        name = self._settings.time_column
        return np.zeros(batch.num_rows, dtype=np.int64) if name is None else self._milliseconds(batch, name)

    def _milliseconds(self, batch: pa.RecordBatch, name: str) -> Ints:
        times_ms = times(batch.column(name), name, self._what, batch=batch)
        if int(times_ms.max()) > FAR_MS or int(times_ms.min()) < -FAR_MS:
            raise UserCodeError(
                f"{self._what}: the time column {name!r} has times out of range: too far from 1970 to be milliseconds; "
                "filter such rows out"
            )
        return times_ms

    def watermark(self, timestamp_ms: int) -> None:
        if not self._settings.is_processing_time:
            self._saved.advance(timestamp_ms)
            self._advance(timestamp_ms)

    def _advance(self, time_ms: int) -> None:
        self._watermark_ms = max(self._watermark_ms, min(time_ms, 2 * FAR_MS))
        while (next_ms := self._timers.next_ms(self._domain)) is not None and next_ms <= self._watermark_ms:
            until_ms = next_ms if self.fires_in_order else self._watermark_ms
            due = self._timers.due(self._domain, until_ms, _DUE_TIMERS)
            if due is not None:
                self._on_due(due)

    def next_wakeup_ms(self) -> int | None:
        due_ms = self._timers.next_ms(self._domain) if self._settings.is_processing_time else None
        if due_ms is None:
            return self._flush_at_ms
        # A window is complete in the millisecond after its last one.
        return due_ms + 1 if self._flush_at_ms is None else min(self._flush_at_ms, due_ms + 1)

    def wakeup(self, now_ms: int) -> None:
        if self._settings.is_processing_time:
            self._advance(now_ms - 1)
        super().wakeup(now_ms)

    def finish(self) -> None:
        if self._settings.is_processing_time:
            self._advance(MAX_WATERMARK)
        super().finish()

    # Early results at intervals.

    def _note_changed(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array) -> None:
        every_ms = self._settings.firing.early_every_ms
        if self._changed is not None and every_ms is not None:
            self._changed.add(keys, columns, namespaces)
            self._flush_within(every_ms)

    def _emit_held(self) -> None:
        if self._changed:
            keys, columns, namespaces = self._changed.take()
            self._fire_early(keys, columns, namespaces)

    # Rows and keys.

    def _key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [decoded(batch.column(name)) for name in self.context.key_columns]

    def _columns_of(self, keys: pa.Array) -> list[pa.Array]:
        """The key columns of keys taken from state."""
        return keys.flatten() if len(self.context.key_columns) > 1 else [keys]

    def _late(self, batch: pa.RecordBatch, is_late: Bools) -> None:
        """Count late rows, and emit them to the late output, or drop them with one warning."""
        count = int(np.count_nonzero(is_late))
        output = self._settings.late_output
        if not count:
            return
        self.late_rows += count
        if output is not None:
            self.context.emit_to(output, batch.filter(pa.array(is_late)))
        elif not self._has_warned:
            self._has_warned = True
            _log.warning(
                "window %r drops late rows; allowed_lateness() waits for them, late_output() emits them",
                self.context.uid,
            )

    def _without_timer(self, marks: ValueState, keys: Rows, namespaces: pa.Array) -> Ints:
        """The rows whose windows or slices are not marked as waiting for a timer."""
        return np.flatnonzero(pc.fill_null(marks.take(keys, namespaces), 0).to_numpy(zero_copy_only=False) != WAITING)

    def _distinct(self, keys: Rows, *numbers: Ints) -> Ints:
        """One row for each distinct combination of a key and numbers."""
        _, groups = self._keyed.distinct(keys)
        order = np.lexsort((*numbers, groups))
        is_first = np.zeros(len(order), dtype=np.bool_)
        is_first[:1] = True
        for column in (groups, *numbers):
            ordered = column[order]
            is_first[1:] |= ordered[1:] != ordered[:-1]
        return np.sort(order[is_first])
