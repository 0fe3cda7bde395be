"""Window joins: what the model of the property tests leaves out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.unit.operators.joins.join_kit import INNER, LEFT, TIMED, Run, batch, layout, values

from snapline.errors import EngineError, UserCodeError
from snapline.operators.joins.window_join import JoinWindows
from snapline.operators.windows.window_assigners import FixedAssigner

BOUNDS = pa.field("from", pa.int64()), pa.field("to", pa.int64())


def test_the_bounds_of_windows_are_times_if_times_are(run: Run) -> None:
    stamped = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])
    bound = pa.timestamp("us", tz="UTC")
    plain = layout(stamped, TIMED, ("k",), pa.field("from", bound), pa.field("to", bound))
    harness = run(
        JoinWindows(plain, FixedAssigner(10_000, 10_000), ("t", "t"), INNER), key="bigint", key_columns=("k",)
    )
    join = harness.open()
    at = datetime(2026, 1, 1, 12, 0, 5, 7, tzinfo=UTC)
    join.process(batch(stamped, (1, at)), 0)
    join.process(batch(TIMED, (1, round(at.timestamp() * 1000)), (1, round(at.timestamp() * 1000) + 9000)), 1)
    join.watermark(round(at.timestamp() * 1000) + 4999)
    (row,) = harness.rows()
    assert (row["from"], row["to"]) == (at.replace(second=0, microsecond=0), at.replace(second=10, microsecond=0))
    assert row["t"] - row["from"] == timedelta(seconds=5, microseconds=7)


def test_late_rows_of_windows(run: Run) -> None:
    harness = run(
        JoinWindows(layout(TIMED, TIMED, ("k",), *BOUNDS), FixedAssigner(20, 10), ("t", "t"), LEFT),
        key="bigint",
        key_columns=("k",),
    )
    join = harness.open()
    join.watermark(19)
    join.process(batch(TIMED, (1, 5), (1, 15)), 0)
    assert [(name, item.to_pylist()) for name, item in harness.side_emitted] == [("late_left", [{"k": 1, "t": 5}])]
    join.watermark(29)
    assert values(harness) == [(1, 15, None, 10, 30)]


def test_a_row_is_joined_in_each_of_its_windows(run: Run) -> None:
    operator = JoinWindows(layout(TIMED, TIMED, ("k",), *BOUNDS), FixedAssigner(20, 10), ("t", "t"), INNER)
    harness = run(operator, key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(TIMED, (1, 12), (2, 12)), 0)
    join.process(batch(TIMED, (1, 18), (1, 25)), 1)
    join.watermark(19)
    assert values(harness) == [(1, 12, 18, 0, 20)]
    join.watermark(100)
    assert values(harness) == [(1, 12, 18, 10, 30), (1, 12, 25, 10, 30)]
    assert len(harness.states.keyed.timers(namespace=pa.int64())) == 0


def test_a_null_time_is_refused(run: Run) -> None:
    operator = JoinWindows(layout(TIMED, TIMED, ("k",), *BOUNDS), FixedAssigner(10, 10), ("t", "t"), INNER)
    join = run(operator, key="bigint", key_columns=("k",)).open()
    with pytest.raises(UserCodeError, match="window_join 'it', the left side: the time column 't' has nulls"):
        join.process(batch(TIMED, (1, None)), 0)


def test_keyed_state_is_needed(run: Run) -> None:
    with pytest.raises(EngineError, match="window_join 'it' was opened without keyed state"):
        run(JoinWindows(layout(TIMED, TIMED, ("k",), *BOUNDS), FixedAssigner(10, 10), ("t", "t"), INNER)).open()
