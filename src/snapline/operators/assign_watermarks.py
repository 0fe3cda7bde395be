"""Watermarks assigned in the middle of a job."""

from __future__ import annotations

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.source import Watermarks
from snapline.operators.event_time import SavedWatermark, newest_time_ms
from snapline.types import IDLE, MAX_WATERMARK


class AssignWatermarks(Operator):
    """Passes rows on and makes watermarks from them; incoming watermarks end here, except `MAX_WATERMARK`.

    It is idle when its input is, or when no row has come for `idle_after_ms`. After a restore its watermarks go on
    from the last one in the checkpoint.
    """

    makes_watermarks = True

    def __init__(self, watermarks: Watermarks) -> None:
        self._watermarks = watermarks
        self._emitted_ms = -MAX_WATERMARK
        self._idle_at_ms: int | None = None
        self._has_idle_input = False

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._made = SavedWatermark(context)
        self._stay_awake()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        was_idle = self._is_idle or self._has_idle_input
        self.context.emit(batch)
        if batch.num_rows:
            self._stay_awake()
        newest_ms = newest_time_ms(batch.column(self._watermarks.column))
        if newest_ms is None:
            return
        self._made.advance(newest_ms - self._watermarks.delay_ms - 1)
        if self._made.ms > self._emitted_ms or was_idle:
            self._emit()

    def watermark(self, timestamp_ms: int) -> None:
        # The input may have been idle, which was passed on; it no longer is.
        if timestamp_ms != MAX_WATERMARK and self._made.ms != -MAX_WATERMARK and not self._is_idle:
            self._emit()

    def idle(self) -> bool:
        self._has_idle_input = True
        return True

    def next_wakeup_ms(self) -> int | None:
        return self._idle_at_ms

    def wakeup(self, now_ms: int) -> None:
        if self._idle_at_ms is not None and now_ms >= self._idle_at_ms:
            self._idle_at_ms = None
            self.context.emit_watermark(IDLE)

    def _emit(self) -> None:
        self._emitted_ms = self._made.ms
        self._has_idle_input = False
        self.context.emit_watermark(self._made.ms)

    @property
    def _is_idle(self) -> bool:
        return self._watermarks.idle_after_ms > 0 and self._idle_at_ms is None

    def _stay_awake(self) -> None:
        if self._watermarks.idle_after_ms:
            self._idle_at_ms = self.context.clock() + self._watermarks.idle_after_ms
