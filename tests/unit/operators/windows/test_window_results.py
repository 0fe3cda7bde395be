"""What windows emit: bounds, and the results of functions over whole windows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.windows.window_kit import SCHEMA, Run, keyed, opened, rows, values

import snapline as sl
from snapline.errors import UserCodeError
from snapline.operators.windows.window_results import batches_of, bounds
from snapline.types import MAX_WATERMARK


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


def test_bounds_are_whole_milliseconds_in_any_unit() -> None:
    times_ms = pa.array([-1500, 0, 1]).to_numpy()
    assert bounds(times_ms, pa.int64()).to_pylist() == [-1500, 0, 1]
    fine = bounds(times_ms, pa.timestamp("ns", tz="UTC"))
    assert fine.cast(pa.int64()).to_pylist() == [-1_500_000_000, 0, 1_000_000]


def test_results_of_functions_become_batches() -> None:
    schema = pa.schema([("n", pa.int64())])
    batch = pa.RecordBatch.from_pylist([{"n": 1}], schema=schema)
    for made in (batch, pa.table({"n": [1]}), {"n": 1}, [{"n": 1}], iter([batch])):
        assert list(batches_of(made, schema)) == [batch]
    assert list(batches_of(None, schema)) == []
