"""Watermarks that move from barrier to barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import snapline as sl
from snapline.operators.step_watermarks import StepWatermarks
from snapline.types import MAX_WATERMARK


def _times(*times_ms: int) -> pa.RecordBatch:
    return pa.record_batch({"time": pa.array(times_ms, pa.int64())})


def test_a_barrier_brings_the_event_time_of_the_barrier_before(run: Callable[..., Any]) -> None:
    harness = run(StepWatermarks(sl.Watermarks("time", delay="10ms")))
    it = harness.open()
    seen = []
    for number, times_ms in enumerate([(100, 50), (70,), (120,), (), ()], 1):
        it.process(_times(*times_ms), 0)
        it.prepare_snapshot(number)
        seen.append(harness.watermarks[-1:])
    assert seen == [[], [89], [89], [109], [109]]


def test_a_restored_subtask_knows_the_newest_row_of_all(run: Callable[..., Any]) -> None:
    harness = run(StepWatermarks(sl.Watermarks("time")))
    it = harness.open()
    it.process(_times(100), 0)
    it.prepare_snapshot(1)
    it.snapshot(1)
    assert it._kept.get() == [100]
    it.process(_times(7), 0)
    it.prepare_snapshot(2)
    it.snapshot(2)
    assert (it._kept.get(), harness.watermarks, harness.states.watermark_ms) == ([100], [99], 99)


def test_without_rows_there_is_no_event_time(run: Callable[..., Any]) -> None:
    harness = run(StepWatermarks(sl.Watermarks("time")))
    it = harness.open()
    it.prepare_snapshot(1)
    it.snapshot(1)
    assert harness.watermarks == []
    assert it._kept.get() == [-MAX_WATERMARK]
