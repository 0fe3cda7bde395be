"""Held-back results leave at the interval, ahead of barriers and at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from snapline.operators.interval_flush import IntervalFlush

Run = Callable[..., Any]


class Holding(IntervalFlush):
    """Holds back batches for a second."""

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self._held.append(batch)
        if self._flush_at_ms is None:
            self._flush_within(1000)

    def _emit_held(self) -> None:
        for batch in self._held:
            self.context.emit(batch)
        self._held.clear()


BATCH = pa.record_batch({"x": [1]})


def test_rows_leave_a_whole_interval_after_the_first(run: Run) -> None:
    harness = run(Holding())
    operator = harness.open()
    assert operator.next_wakeup_ms() is None
    operator.process(BATCH, 0)
    harness.advance("600ms")
    operator.process(BATCH, 0)
    assert operator.next_wakeup_ms() == 1_001_000
    harness.advance("399ms")
    assert harness.emitted == []
    harness.advance("1ms")
    assert len(harness.emitted) == 2
    assert operator.next_wakeup_ms() is None


@pytest.mark.parametrize("flush", [lambda operator: operator.prepare_snapshot(1), lambda operator: operator.finish()])
def test_nothing_is_held_back_from_a_barrier_or_the_end(run: Run, flush: Any) -> None:
    harness = run(Holding())
    harness.open().process(BATCH, 0)
    flush(harness.operator)
    assert harness.emitted == [BATCH]
    assert harness.operator.next_wakeup_ms() is None
