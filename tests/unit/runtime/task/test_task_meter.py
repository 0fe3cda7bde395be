"""The figures of a task."""

from __future__ import annotations

from snapline.runtime.task.task_meter import MAX_LATENCIES, TaskMeter, Waiting
from snapline.types import ExecutionId, SubtaskId

EXECUTION = ExecutionId(SubtaskId("v", 0), 1)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_times_add_up_to_the_interval() -> None:
    clock = Clock()
    meter = TaskMeter(clock)
    clock.now_s = 0.2
    meter.begin_wait(Waiting.IDLE)
    clock.now_s = 0.5
    meter.end_wait()
    meter.begin_wait(Waiting.BACKPRESSURED)
    clock.now_s = 0.9
    meter.end_wait()
    clock.now_s = 1.0
    read = meter.read(EXECUTION, None, 1, 2)
    assert (read.interval_ms, read.busy_ms, read.idle_ms, read.backpressured_ms) == (1000, 300, 300, 400)
    assert (read.queued_in_bytes, read.queued_out_bytes) == (1, 2)


def test_a_wait_that_goes_on_counts_as_far_as_it_has_come() -> None:
    clock = Clock()
    meter = TaskMeter(clock)
    meter.begin_wait(Waiting.BACKPRESSURED)
    clock.now_s = 1.0
    assert meter.read(EXECUTION, None, 0, 0).backpressured_ms == 1000
    clock.now_s = 1.5
    meter.end_wait()
    clock.now_s = 2.0
    read = meter.read(EXECUTION, None, 0, 0)
    assert (read.backpressured_ms, read.busy_ms) == (500, 500)


def test_latencies_are_those_since_the_last_reading_and_limited() -> None:
    meter = TaskMeter(Clock())
    for latency_ms in range(MAX_LATENCIES + 10):
        meter.latency(latency_ms)
    assert len(meter.read(EXECUTION, None, 0, 0).latency_ms) == MAX_LATENCIES
    assert meter.read(EXECUTION, None, 0, 0).latency_ms == ()
