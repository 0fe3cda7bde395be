"""Interval joins: what the model of the property tests leaves out."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.operators.joins.join_kit import INNER, LEFT, TIMED, Run, batch, layout, values

from snapline.errors import EngineError, UserCodeError
from snapline.operators.joins.interval_join import Interval, JoinIntervals
from snapline.types import MAX_WATERMARK


def test_times_of_different_units_are_compared_exactly(run: Run) -> None:
    fine = pa.schema([("k", pa.int64()), ("t", pa.timestamp("ns", tz="UTC"))])
    coarse = pa.schema([("k", pa.int64()), ("t", pa.timestamp("s", tz="UTC"))])
    operator = JoinIntervals(layout(fine, coarse, ("k",)), Interval(0, 30 * 86_400_000), ("t", "t"), INNER)
    harness = run(operator, key="bigint", key_columns=("k",))
    join = harness.open()
    start_ns = 1_700_000_000 * 10**9
    exact = pa.array([start_ns, start_ns + 1, start_ns - 30 * 86_400 * 10**9, start_ns - 30 * 86_400 * 10**9 - 1])
    join.process(pa.RecordBatch.from_arrays([pa.array([1] * 4), exact.view(fine.field("t").type)], schema=fine), 0)
    join.process(batch(coarse, (1, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))), 1)
    found = [start_ns - item.column("t").cast(pa.int64()).to_numpy() for item in harness.emitted]
    assert sorted(np.concatenate(found).tolist()) == [0, 30 * 86_400 * 10**9]


def test_rows_are_late_by_the_watermark_also_after_a_restore(run: Run) -> None:
    operator = JoinIntervals(layout(TIMED, TIMED, ("k",)), Interval(-10, 10), ("t", "t"), LEFT)
    harness = run(operator, key="bigint", key_columns=("k",))
    join = harness.open()
    assert [harness.states.watermark_ms] == [None]
    join.process(batch(TIMED, (1, 1000)), 0)
    join.watermark(999)
    join.process(batch(TIMED, (1, 999), (1, 1000)), 1)
    assert values(harness) == [(1, 1000, 1000)]
    assert [(name, item.to_pylist()) for name, item in harness.side_emitted] == [("late_right", [{"k": 1, "t": 999}])]
    assert harness.watermarks == [999 - 110]
    assert harness.states.watermark_ms == 999
    join.watermark(MAX_WATERMARK)
    assert values(harness) == []
    assert harness.states.watermark_ms == MAX_WATERMARK, "which a restore takes for none"


def test_rows_that_need_not_be_kept_are_not(run: Run) -> None:
    operator = JoinIntervals(layout(TIMED, TIMED, ("k",)), Interval(-5000, -4000), ("t", "t"), LEFT)
    harness = run(operator, key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(TIMED, (1, 5000)), 1)
    join.watermark(7999)
    join.process(batch(TIMED, (1, 9500), (1, 9000), (1, 8000)), 0)
    # All right rows that may join these have arrived, so only the right row is stored.
    assert values(harness) == [(1, 8000, None), (1, 9000, 5000), (1, 9500, 5000)]
    assert len(harness.states.keyed.timers(namespace=pa.int64())) == 1


def test_partners_lie_in_at_most_two_buckets() -> None:
    interval = Interval(-300, 200)
    assert interval.bucket_ms == 500
    assert (interval.reach_ms(0), interval.reach_ms(1)) == ((-300, 200), (-200, 300))
    assert Interval(0, 1).bucket_ms == 100


def test_a_null_time_is_refused(run: Run) -> None:
    operator = JoinIntervals(layout(TIMED, TIMED, ("k",)), Interval(0, 1), ("t", "t"), INNER)
    join = run(operator, key="bigint", key_columns=("k",)).open()
    with pytest.raises(UserCodeError, match="interval_join 'it', the right side: the time column 't' has nulls"):
        join.process(batch(TIMED, (1, None)), 1)


def test_keyed_state_is_needed(run: Run) -> None:
    with pytest.raises(EngineError, match="interval_join 'it' was opened without keyed state"):
        run(JoinIntervals(layout(TIMED, TIMED, ("k",)), Interval(0, 1), ("t", "t"), INNER)).open()
