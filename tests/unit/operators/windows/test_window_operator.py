"""Windows: triggers, lateness, processing time, given windows, functions of whole windows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import EngineError, UserCodeError
from snapline.testing.operator_harness import OperatorHarness
from snapline.types import MAX_WATERMARK

Run = Callable[..., Any]
SCHEMA = pa.schema([("user", pa.string()), ("time", pa.int64()), ("value", pa.int64())])


class NoRows(sl.Source):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> list[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError("never read")


def keyed(schema: pa.Schema = SCHEMA, *columns: str) -> sl.KeyedStream:
    rows = sl.Job("test").source(NoRows(schema), "rows", watermarks=sl.Watermarks("time"))
    return rows.key_by(*(columns or ("user",)))


def opened(run: Run, stream: sl.Stream, key: Any = "string", columns: tuple[str, ...] = ("user",)) -> Any:
    harness = run(stream._inputs[0].node.operator, key=key, key_columns=columns)
    harness.open()
    return harness


def rows(*given: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in given], schema=schema)


def values(harness: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in harness.rows()]


def test_a_window_fires_in_the_millisecond_its_last_row_could_have(run: Run) -> None:
    harness = opened(run, keyed().window(sl.Tumbling("10ms", "3ms")).aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 2, 1), ("a", 3, 1), ("b", 12, 1), ("b", 13, 1)), 0)
    harness.operator.watermark(11)
    assert values(harness) == [("a", -7, 3, 1)]
    harness.operator.watermark(12)
    assert sorted(values(harness)) == [("a", 3, 13, 1), ("b", 3, 13, 1)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("b", 13, 23, 1)]


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


def test_within_the_lateness_rows_lead_to_new_results(run: Run) -> None:
    stream = keyed().window(sl.Sliding("10ms", every="5ms")).allowed_lateness("10ms").aggregate(uid="w", n=sl.count())
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 7, 1)), 0)
    harness.operator.watermark(9)
    assert values(harness) == [("a", 0, 10, 1)]
    harness.operator.process(rows(("a", 8, 1), ("a", 9, 1)), 0)
    assert values(harness) == [("a", 0, 10, 3)]
    harness.operator.watermark(19)
    assert values(harness) == [("a", 5, 15, 3)]
    # The first window is over, the second one is still kept.
    harness.operator.process(rows(("a", 8, 1)), 0)
    assert values(harness) == [("a", 5, 15, 4)]
    harness.operator.watermark(24)
    harness.operator.process(rows(("a", 8, 1)), 0)
    assert (values(harness), harness.operator.late_rows) == ([], 1)
    assert len(harness.states.keyed.timers("bigint")) == 0


@pytest.mark.parametrize("sizes", [(7,), (1,) * 7, (3, 4)])
def test_counting_does_not_depend_on_batches(run: Run, sizes: tuple[int, ...]) -> None:
    stream = keyed().window(sl.GlobalWindow()).trigger(sl.EveryRows(3)).aggregate(uid="w", total=sl.sum("value"))
    assert stream.schema.names == ["user", "total"]
    purging = (
        keyed().window(sl.GlobalWindow()).trigger(sl.EveryRows(2, purge=True)).aggregate(uid="w", n=sl.sum("value"))
    )
    keeping, beginning_anew = opened(run, stream), opened(run, purging)
    given = [("a", 0, number) for number in range(1, 8)]
    for size in sizes:
        for harness in (keeping, beginning_anew):
            harness.operator.process(rows(*given[:size]), 0)
        given = given[size:]
    assert values(keeping) == [("a", 6), ("a", 21)]
    assert values(beginning_anew) == [("a", 3), ("a", 7), ("a", 11)]


def test_count_in_a_window_with_an_end_leaves_out_what_is_left(run: Run) -> None:
    window = keyed().window(sl.Sliding("10ms", every="5ms")).trigger(sl.EveryRows(2))
    harness = opened(run, window.aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 1, 1), ("a", 6, 1)), 0)
    assert values(harness) == [("a", 0, 10, 2)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == []
    assert len(harness.states.keyed.timers("bigint")) == 0


def test_early_results_after_so_many_rows(run: Run) -> None:
    window = keyed().window(sl.Tumbling("10ms")).trigger(sl.WhenComplete(early_rows=2))
    harness = opened(run, window.aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(*[("a", 1, 1)] * 5), 0)
    assert values(harness) == [("a", 0, 10, 2), ("a", 0, 10, 4)]
    harness.operator.watermark(9)
    assert values(harness) == [("a", 0, 10, 5)]


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


def test_results_at_intervals_of_event_time(run: Run) -> None:
    window = keyed().window(sl.Tumbling("10ms")).trigger(sl.EventTimeInterval("4ms"))
    harness = opened(run, window.aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 1, 1)), 0)
    harness.operator.watermark(3)
    assert values(harness) == []
    harness.operator.process(rows(("a", 2, 1)), 0)
    harness.operator.watermark(5)
    assert values(harness) == [("a", 0, 10, 2)]
    harness.operator.watermark(8)
    assert values(harness) == [("a", 0, 10, 2)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("a", 0, 10, 2)]
    assert len(harness.states.keyed.timers("bigint")) == 0


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


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_bounds_have_the_type_of_the_time_column(run: Run, unit: str) -> None:
    schema = SCHEMA.set(1, pa.field("time", pa.timestamp(unit, tz="Europe/Berlin")))
    stream = keyed(schema).window(sl.Tumbling("1500ms")).aggregate(uid="w", n=sl.count())
    kind = pa.timestamp("ms" if unit == "s" else unit, tz="Europe/Berlin")
    assert stream.schema.field("window_start").type == stream.schema.field("window_end").type == kind
    harness = opened(run, stream)
    harness.operator.process(rows(("a", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), 1), schema=schema), 0)
    harness.operator.watermark(-1)
    (batch,) = harness.emitted
    assert batch.column("window_start").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() == [-1500]
    assert batch.column("window_end").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist() == [0]


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


def test_a_window_of_results_of_windows(run: Run) -> None:
    counts = keyed().window(sl.Sliding("10ms", every="5ms")).aggregate(uid="counts", n=sl.count())
    first = opened(run, counts)
    most = counts.key_by("window_start", "window_end").window(sl.GivenWindow()).aggregate(uid="most", most=sl.max("n"))
    assert most.schema.names == ["window_start", "window_end", "most"]
    second = opened(run, most, "window_start bigint, window_end bigint", ("window_start", "window_end"))
    first.operator.process(rows(("a", 1, 1), ("b", 2, 1), ("a", 7, 1), ("c", 21, 1)), 0)
    for watermark_ms in (9, 22, MAX_WATERMARK):
        first.operator.watermark(watermark_ms)
        for batch in first.emitted:
            second.operator.process(batch, 0)
        first.emitted.clear()
        second.operator.watermark(watermark_ms)
    assert second.operator.late_rows == 0
    assert sorted(values(second)) == [(-5, 5, 1), (0, 10, 2), (5, 15, 1), (15, 25, 1), (20, 30, 1)]


def test_given_windows_of_the_same_end_are_kept_apart(run: Run) -> None:
    schema = pa.schema([("user", pa.string()), ("time", pa.int64()), ("s", pa.int64()), ("e", pa.int64())])
    stream = keyed(schema).window(sl.GivenWindow("s", "e")).aggregate(uid="w", n=sl.count())
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 0, 0, 10), ("a", 0, 5, 10), ("a", 0, 0, 10), schema=schema), 0)
    harness.operator.watermark(8)
    assert values(harness) == []
    harness.operator.watermark(9)
    assert sorted(values(harness)) == [("a", 0, 10, 2), ("a", 5, 10, 1)]


def test_a_function_of_whole_windows(run: Run) -> None:
    seen = []

    def median(key: Any, window: Any, table: pa.Table) -> Any:
        seen.append((key, window.start, window.end, table.column("value").to_pylist()))
        return [{"who": key, "middle": sorted(table.column("value").to_pylist())[table.num_rows // 2]}]

    schema = pa.schema([("who", pa.string()), ("middle", pa.int64())])
    stream = keyed().window(sl.Sliding("10ms", every="5ms")).process(median, schema=schema, uid="m")
    assert stream.schema == schema
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 8, 5), ("a", 1, 9), ("a", 7, 1)), 0)
    harness.operator.watermark(9)
    # Rows of the first slice come first.
    assert seen == [("a", -5, 5, [9]), ("a", 0, 10, [9, 5, 1])]
    assert values(harness) == [("a", 9), ("a", 5)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("a", 5)]


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (5, "gave 5; it must return a batch"),
        ({"what": 1}, "a row with what; its schema has who"),
        (pa.table({"what": [1]}), "without 'who' and with 'what'"),
        (ValueError("no"), "raised ValueError: no"),
    ],
)
def test_a_function_that_gives_something_else(run: Run, made: Any, complaint: str) -> None:
    def wrong(_key: Any, _window: Any, _table: pa.Table) -> Any:
        if isinstance(made, Exception):
            raise made
        return made

    stream = keyed().window(sl.Tumbling("10ms")).process(wrong, schema=pa.schema([("who", pa.string())]), uid="m")
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 8, 5)), 0)
    with pytest.raises(UserCodeError, match=complaint):
        harness.operator.watermark(9)


def test_functions_may_give_nothing_batches_or_tables(run: Run) -> None:
    schema = pa.schema([("total", pa.int64())])

    def function(key: Any, window: Any, table: pa.Table) -> Any:
        assert window is None
        if key == ("a", 1):
            return None
        batch = pa.RecordBatch.from_pylist([{"total": table.num_rows}], schema=schema)
        return [batch, pa.Table.from_batches([batch])]

    window = keyed(SCHEMA, "user", "value").window(sl.GlobalWindow()).trigger(sl.EveryRows(1, purge=True))
    stream = window.process(function, schema=schema, uid="m")
    harness = opened(run, stream, "user string, value bigint", ("user", "value"))
    harness.operator.process(rows(("a", 0, 1), ("a", 0, 2)), 0)
    assert values(harness) == [(1,), (1,)]


def test_windows_need_keyed_state(run: Run) -> None:
    stream = keyed().window(sl.Tumbling("1s")).aggregate(uid="w", n=sl.count())
    with pytest.raises(EngineError, match="window 'it' was opened without keyed state"):
        run(stream._inputs[0].node.operator).open()
