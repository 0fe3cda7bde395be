"""Watermarks that move once in each checkpoint, as those of Structured Streaming do in each micro-batch."""

from __future__ import annotations

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.source import Watermarks
from snapline.operators.event_time import SavedWatermark, newest_time_ms
from snapline.types import MAX_WATERMARK

_NEWEST = "newest"


class StepWatermarks(Operator):
    """Passes rows on; just ahead of each barrier comes the watermark of the rows up to the barrier before.

    So groups end by the rows of the step before, after the rows of this one, and rows are late by what was known one
    step earlier. Incoming watermarks end here, except `MAX_WATERMARK`.
    """

    makes_watermarks = True

    def __init__(self, watermarks: Watermarks) -> None:
        self._watermarks = watermarks

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._emitted = SavedWatermark(context)
        self._kept = context.states.operator.union_list_state(_NEWEST, int)
        self._due_ms = self._newest_ms = max(self._kept.get(), default=-MAX_WATERMARK)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)
        newest_ms = newest_time_ms(batch.column(self._watermarks.column))
        if newest_ms is not None:
            self._newest_ms = max(self._newest_ms, newest_ms)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        due_ms, self._due_ms = self._due_ms, self._newest_ms
        if due_ms != -MAX_WATERMARK:
            self._emitted.advance(due_ms - self._watermarks.delay_ms - 1)
            self.context.emit_watermark(self._emitted.ms)

    def snapshot(self, checkpoint_id: int) -> None:
        self._kept.set([self._due_ms])
