"""What all windows have in common: the time of rows, late rows, timers, and when results come."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import UserCodeError
from snapline.operators.aggregates.accumulators import Accumulators, decoded, keyed_backend
from snapline.operators.aggregates.running_aggregates import ChangedKeys
from snapline.operators.event_time import SavedWatermark
from snapline.operators.windows.window_results import Results
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.timers import DueTimers, TimeDomain, Timers
from snapline.types import MAX_WATERMARK

_log = logging.getLogger(__name__)

FAR_MS = 1 << 61
"""No row is further from 1970 than this; twice as far is before or after all time."""

_DUE_TIMERS = 65_536
"""About so many windows of keys fire at once."""

_PER_MILLISECOND = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


@dataclass(frozen=True, slots=True)
class Firing:
    """When results come: after each so many rows, at an interval of processing or event time, once at the end."""

    early_rows: int | None = None
    early_every_ms: int | None = None
    event_every_ms: int | None = None
    is_purging: bool = False
    at_end: bool = True


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """What a window operator does with time. Without a `time_column` the windows tell the time of rows themselves."""

    time_column: str | None
    is_processing_time: bool
    lateness_ms: int
    late_output: str | None
    firing: Firing


class WindowOperator(Operator):
    """Keeps what rows add up to by key and window, and emits it when the time has come.

    Watermarks, or processing time in their place, only ever grow here. The watermark is in every checkpoint: a row that
    would have been late is late after a restore too, and does not bring a window back that has fired.
    """

    namespace: pa.DataType = pa.int64()
    """What windows are known by in state."""

    fires_in_order = False
    """Whether timers of one time have to be through before those of the next are taken out."""

    _keyed: KeyedBackend
    _timers: Timers
    _changed: ChangedKeys | None
    _saved: SavedWatermark

    def __init__(self, settings: WindowSettings, accumulators: Accumulators, results: Results) -> None:
        self._settings = settings
        self._accumulators = accumulators
        self._results = results
        self._domain = TimeDomain.PROCESSING if settings.is_processing_time else TimeDomain.EVENT
        self._watermark_ms = -2 * FAR_MS
        self._emit_at_ms: int | None = None
        self._has_warned = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_backend(context.states.keyed, f"window {context.uid!r}")
        self._accumulators.open(self._keyed, self.namespace)
        self._timers = self._keyed.timers(self.namespace)
        is_early = self._settings.firing.early_every_ms is not None
        self._changed = ChangedKeys(self._keyed, self.namespace) if is_early else None
        self._saved = SavedWatermark(context)
        if not self._settings.is_processing_time:
            self._watermark_ms = max(self._watermark_ms, self._saved.ms)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if batch.num_rows:
            self._take_in(batch)

    @abstractmethod
    def _take_in(self, batch: pa.RecordBatch) -> None:
        """Bring rows into their windows."""

    @abstractmethod
    def _on_due(self, due: DueTimers) -> None:
        """Timers have come due."""

    @abstractmethod
    def _fire_early(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array) -> None:
        """Emit those of the changed ones that are not complete yet."""

    # Time.

    def _times(self, batch: pa.RecordBatch) -> Ints:
        """The time of each row in milliseconds."""
        if self._settings.is_processing_time:
            return np.full(batch.num_rows, max(self.context.clock(), self._watermark_ms + 1), dtype=np.int64)
        name = self._settings.time_column
        return np.zeros(batch.num_rows, dtype=np.int64) if name is None else self._milliseconds(batch, name)

    def _milliseconds(self, batch: pa.RecordBatch, name: str) -> Ints:
        column = batch.column(name)
        if column.null_count:
            raise UserCodeError(
                f"window {self.context.uid!r}: the time column {name!r} has nulls, and a row without a time has no "
                "window; filter such rows out before"
            )
        try:
            times: Ints = column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise UserCodeError(f"window {self.context.uid!r}: the time column {name!r}: {error}") from error
        factor, divisor = _PER_MILLISECOND[column.type.unit] if pa.types.is_timestamp(column.type) else (1, 1)
        if divisor != 1:
            times = times // divisor
        if int(times.max()) > FAR_MS // factor or int(times.min()) < -FAR_MS // factor:
            raise UserCodeError(
                f"window {self.context.uid!r}: the time column {name!r} has times too far from 1970 to be "
                "milliseconds; filter such rows out before"
            )
        return times * factor if factor != 1 else times

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
        # A window is complete in the millisecond after its last one.
        times = [
            time_ms for time_ms in (self._emit_at_ms, None if due_ms is None else due_ms + 1) if time_ms is not None
        ]
        return min(times, default=None)

    def wakeup(self, now_ms: int) -> None:
        if self._settings.is_processing_time:
            self._advance(now_ms - 1)
        if self._emit_at_ms is not None and now_ms >= self._emit_at_ms:
            self._flush()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        self._flush()

    def snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        self._saved.save()

    def finish(self) -> None:
        if self._settings.is_processing_time:
            self._advance(MAX_WATERMARK)
        self._flush()

    # Early results at intervals.

    def _note_changed(self, keys: Rows, columns: list[pa.Array], namespaces: pa.Array) -> None:
        every_ms = self._settings.firing.early_every_ms
        if self._changed is None or every_ms is None:
            return
        self._changed.add(keys, columns, namespaces)
        if self._emit_at_ms is None:
            self._emit_at_ms = self.context.clock() + every_ms

    def _flush(self) -> None:
        self._emit_at_ms = None
        if self._changed:
            keys, columns, namespaces = self._changed.take()
            self._fire_early(keys, columns, namespaces)

    # Rows and keys.

    def _key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [decoded(batch.column(name)) for name in self.context.key_columns]

    def _columns_of(self, keys: pa.Array) -> list[pa.Array]:
        """The key columns of keys that come from state."""
        return keys.flatten() if len(self.context.key_columns) > 1 else [keys]

    def _late(self, batch: pa.RecordBatch, is_late: Bools) -> None:
        """These rows came too late."""
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
                "window %r drops rows that came too late; allowed_lateness() waits for them, late_output() shows them",
                self.context.uid,
            )

    def _distinct(self, keys: Rows, *numbers: Ints) -> Ints:
        """One row for each combination of a key and numbers."""
        _, groups = self._keyed.distinct(keys)
        order = np.lexsort((*numbers, groups))
        is_first = np.zeros(len(order), dtype=np.bool_)
        is_first[:1] = True
        for column in (groups, *numbers):
            ordered = column[order]
            is_first[1:] |= ordered[1:] != ordered[:-1]
        return np.sort(order[is_first])
