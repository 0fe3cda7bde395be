"""Watermarks assigned in the middle of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import snapline as sl
from snapline.operators.assign_watermarks import AssignWatermarks
from snapline.types import IDLE, MAX_WATERMARK


def _times(*times_ms: int) -> pa.RecordBatch:
    return pa.record_batch({"time": pa.array(times_ms, pa.int64())})


def test_event_time_is_that_of_the_newest_row_less_the_delay(run: Callable[..., Any]) -> None:
    harness = run(AssignWatermarks(sl.Watermarks("time", delay="10ms")))
    it = harness.open()
    for times_ms in [(100, 50), (70,), (), (120,)]:
        it.process(_times(*times_ms), 0)
    assert harness.watermarks == [89, 109]
    assert it.next_wakeup_ms() is None


def test_event_time_goes_on_after_a_restore(run: Callable[..., Any]) -> None:
    harness = run(AssignWatermarks(sl.Watermarks("time")))
    harness.states.watermark_ms = 99
    it = harness.open()
    for time_ms in (50, 60, 120):
        it.process(_times(time_ms), 0)
    assert harness.watermarks == [99, 119]
    assert harness.states.watermark_ms == 119


def test_who_speaks_again_in_front_speaks_again_here(run: Callable[..., Any]) -> None:
    harness = run(AssignWatermarks(sl.Watermarks("time")))
    it = harness.open()
    it.watermark(5)
    it.process(_times(100), 0)
    assert it.idle()
    it.watermark(6)
    it.watermark(MAX_WATERMARK)
    assert harness.watermarks == [99, 99]


def test_it_is_idle_when_nothing_comes_and_not_when_something_does(run: Callable[..., Any]) -> None:
    harness = run(AssignWatermarks(sl.Watermarks("time", idle_after="1s")))
    it = harness.open()
    harness.advance("900ms")
    it.process(_times(100), 0)
    harness.advance("999ms")
    assert harness.watermarks == [99]
    harness.advance("1ms")
    it.watermark(7)
    harness.advance("10s")
    assert harness.watermarks == [99, IDLE], "once, and whatever is said in front"
    it.process(_times(90), 0)
    assert harness.watermarks == [99, IDLE, 99]
    harness.advance("1s")
    assert harness.watermarks == [99, IDLE, 99, IDLE]


def test_rows_after_an_idle_input_bring_event_time_back(run: Callable[..., Any]) -> None:
    harness = run(AssignWatermarks(sl.Watermarks("time")))
    it = harness.open()
    it.process(_times(100), 0)
    assert it.idle()
    it.process(_times(90), 0)
    it.process(_times(95), 0)
    assert harness.watermarks == [99, 99], "once, although no row is newer"
