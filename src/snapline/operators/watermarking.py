"""Watermarks made in the middle of a job."""

from __future__ import annotations

import pyarrow as pa

from snapline.api.operator import Operator
from snapline.api.source import Watermarks
from snapline.operators.sourcing import newest_time_ms
from snapline.types import MAX_WATERMARK


class AssignWatermarks(Operator):
    """Passes rows on and tells event time from them; the watermarks that come in end here, but for the last."""

    makes_watermarks = True

    def __init__(self, watermarks: Watermarks) -> None:
        self._watermarks = watermarks
        self._watermark_ms = -MAX_WATERMARK

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self.context.emit(batch)
        newest_ms = newest_time_ms(batch.column(self._watermarks.column))
        if newest_ms is None:
            return
        watermark_ms = newest_ms - self._watermarks.delay_ms - 1
        if watermark_ms > self._watermark_ms:
            self._watermark_ms = watermark_ms
            self.context.emit_watermark(watermark_ms)
