"""What all windows share: late rows, restarts, early results, processing time, and checks of the time column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.windows.window_kit import SCHEMA, NoRows, Run, keyed, opened, rows, values

import snapline as sl
from snapline.errors import EngineError, UserCodeError
from snapline.testing.operator_harness import OperatorHarness
from snapline.types import MAX_WATERMARK


def test_late_rows_are_counted_or_go_to_a_side_output(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    window = keyed().window(sl.Tumbling("10ms"))
    dropping = opened(run, window.aggregate(uid="w", n=sl.count()))
    dropping.operator.watermark(19)
    dropping.operator.process(rows(("a", 9, 1), ("a", 19, 1), ("a", 20, 1)), 0)
    dropping.operator.process(rows(("a", 1, 1)), 0)
    assert dropping.operator.late_rows == 3
    assert len(caplog.records) == 1
    telling = window.late_output("late").aggregate(uid="w", n=sl.count())
    assert telling.side_output("late").schema == SCHEMA
    harness = opened(run, telling)
    harness.operator.watermark(19)
    harness.operator.process(rows(("a", 9, 1), ("a", 20, 2)), 0)
    assert [(name, batch.to_pylist()) for name, batch in harness.side_emitted] == [
        ("late", [{"user": "a", "time": 9, "value": 1}])
    ]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("a", 20, 30, 1)]


@pytest.mark.parametrize("windows", [sl.Tumbling("10ms"), sl.Sliding("10ms", every="5ms"), sl.Session("5ms")])
def test_late_rows_are_late_after_a_restart_too(windows: Any) -> None:
    with OperatorHarness.of(keyed().window(windows).late_output("late").aggregate(n=sl.count(), uid="it")) as harness:
        harness.process(rows(("a", 11, 1), ("a", 12, 1)))
        harness.restart()
        harness.watermark(50)
        assert {row["n"] for row in harness.rows()} == {2}
        harness.restart()
        harness.process(rows(("a", 13, 1)))
        harness.end()
        assert harness.rows() == []
        assert len(harness.side_rows("late")) == 1


@pytest.mark.parametrize(
    ("windows", "early"),
    [
        (sl.Tumbling("10ms"), [(0, 10, 2)]),
        (sl.Sliding("10ms", every="5ms"), [(-5, 5, 2), (0, 10, 2)]),
        (sl.Session("10ms"), [(1, 12, 2)]),
    ],
)
def test_early_results_at_intervals_and_ahead_of_barriers(run: Run, windows: Any, early: list[Any]) -> None:
    window = keyed().window(windows).trigger(sl.WhenComplete(early_every="1s"))
    harness = opened(run, window.aggregate(uid="w", n=sl.count()))
    operator = harness.operator
    assert operator.next_wakeup_ms() is None
    operator.process(rows(("a", 1, 1), ("a", 2, 1)), 0)
    assert operator.next_wakeup_ms() == harness.now_ms + 1000
    operator.wakeup(harness.now_ms + 1000)
    assert sorted(row[1:] for row in values(harness)) == early
    assert operator.next_wakeup_ms() is None
    operator.prepare_snapshot(1)
    assert values(harness) == []
    operator.process(rows(("a", 1, 1)), 0)
    operator.prepare_snapshot(2)
    assert sorted(row[1:] for row in values(harness)) == [(start, end, 3) for start, end, _ in early]
    operator.watermark(MAX_WATERMARK)
    assert len(values(harness)) == len(early)
    operator.finish()
    assert values(harness) == []


@pytest.mark.parametrize(
    ("windows", "start_ms", "end_ms"),
    [
        (sl.Tumbling("10s", processing_time=True), 1_000_000, 1_010_000),
        (sl.Sliding("10s", every="10s", processing_time=True), 1_000_000, 1_010_000),
        (sl.Session("10s", processing_time=True), 1_000_500, 1_010_500),
    ],
)
def test_windows_in_processing_time(run: Run, windows: Any, start_ms: int, end_ms: int) -> None:
    stream = sl.Job("test").source(NoRows(SCHEMA), "rows").key_by("user").window(windows)
    harness = opened(run, stream.aggregate(uid="w", n=sl.count()))
    harness.now_ms = 1_000_500
    harness.operator.process(rows(("a", 1, 1), ("a", 99, 1)), 0)
    assert harness.operator.next_wakeup_ms() == end_ms
    harness.operator.wakeup(end_ms)
    start, end = (datetime.fromtimestamp(time_ms / 1000, UTC) for time_ms in (start_ms, end_ms))
    assert values(harness) == [("a", start, end, 2)]
    harness.now_ms = end_ms
    harness.operator.process(rows(("a", 1, 1)), 0)
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == []
    harness.operator.finish()
    assert [row[-1] for row in values(harness)] == [1]


def test_rows_without_a_time_or_far_from_any_are_refused(run: Run) -> None:
    harness = opened(run, keyed().window(sl.Tumbling("1s")).aggregate(uid="w", n=sl.count()))
    with pytest.raises(UserCodeError, match="window 'it': the time column 'time' has nulls"):
        harness.operator.process(rows(("a", None, 1)), 0)
    with pytest.raises(UserCodeError, match="too far from 1970"):
        harness.operator.process(rows(("a", 1 << 62, 1)), 0)
    seconds = SCHEMA.set(1, pa.field("time", pa.timestamp("s")))
    harness = opened(run, keyed(seconds).window(sl.Tumbling("1s")).aggregate(uid="w", n=sl.count()))
    far = pa.record_batch([pa.array(["a"]), pa.array([1 << 60]).view(pa.timestamp("s")), pa.array([1])], schema=seconds)
    with pytest.raises(UserCodeError, match="the time column 'time' has times out of range"):
        harness.operator.process(far, 0)


def test_windows_need_keyed_state(run: Run) -> None:
    stream = keyed().window(sl.Tumbling("1s")).aggregate(uid="w", n=sl.count())
    with pytest.raises(EngineError, match="window 'it' was opened without keyed state"):
        run(stream._inputs[0].node.operator).open()
