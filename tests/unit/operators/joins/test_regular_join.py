"""Joins: what the models of the property tests leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from snapline.errors import EngineError, UserCodeError
from snapline.operators.joins.interval_join import Interval, JoinIntervals
from snapline.operators.joins.join_rows import MAX_ROWS, JoinLayout
from snapline.operators.joins.regular_join import JoinStreams
from snapline.operators.joins.window_join import JoinWindows
from snapline.operators.kept_rows import RowType
from snapline.operators.windows.window_assigners import FixedAssigner
from snapline.state.ttl import Ttl
from snapline.types import MAX_WATERMARK

Run = Callable[..., Any]
INNER, LEFT, FULL = (False, False), (True, False), (True, True)


def layout(left: pa.Schema, right: pa.Schema, keys: tuple[str, ...], *added: pa.Field) -> JoinLayout:
    """Columns of the right side are called as they are, with an r behind."""
    sides = RowType(left, keys), RowType(right, keys)
    fields = [left.field(name) for name in keys] + sides[0].fields
    fields += [field.with_name(f"{field.name}r") for field in sides[1].fields]
    schema = pa.schema([*(field.with_type(_plain(field.type)) for field in fields), *added])
    return JoinLayout(sides, schema, tuple(range(len(schema))))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


PLAIN = pa.schema([("k", pa.int64()), ("v", pa.int64())])
TIMED = pa.schema([("k", pa.int64()), ("t", pa.int64())])
CHANGE = pa.field("change", pa.string())


def batch(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def values(harness: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in harness.rows()), key=repr)


def test_keys_of_two_columns_and_dictionaries(run: Run) -> None:
    left = pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.int32()), ("v", pa.string())])
    right = pa.schema([("a", pa.string()), ("b", pa.int32()), ("w", pa.dictionary(pa.int8(), pa.string()))])
    key = pa.struct([("a", pa.string()), ("b", pa.int32())])
    harness = run(JoinStreams(layout(left, right, ("a", "b")), INNER), key=key, key_columns=("a", "b"))
    join = harness.open()
    join.process(batch(left, ("x", 1, "one"), ("x", 2, "two"), ("y", 1, None)), 0)
    join.process(batch(right, ("x", 1, "red"), ("y", 1, "blue"), ("y", 2, "green"), ("x", 1, "red")), 1)
    assert values(harness) == [("x", 1, "one", "red"), ("x", 1, "one", "red"), ("y", 1, None, "blue")]


def test_rows_that_are_nothing_but_a_key_count_as_often_as_they_come(run: Run) -> None:
    bare = pa.schema([("k", pa.int64())])
    harness = run(JoinStreams(layout(bare, PLAIN, ("k",), CHANGE), LEFT), key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(bare, (1,), (1,), (2,)), 0)
    assert values(harness) == [(1, None, "insert"), (1, None, "insert"), (2, None, "insert")]
    join.process(batch(PLAIN, (1, 5)), 1)
    assert values(harness) == [(1, 5, "insert")] * 2 + [(1, None, "delete")] * 2


def test_very_many_pairs_come_in_batches_of_a_limited_size(run: Run) -> None:
    harness = run(JoinStreams(layout(PLAIN, PLAIN, ("k",), CHANGE), FULL), key="bigint", key_columns=("k",))
    join = harness.open()
    many = pa.RecordBatch.from_arrays([np.zeros(500, dtype=np.int64), np.arange(500)], schema=PLAIN)
    join.process(many, 0)
    harness.emitted.clear()
    join.process(many, 1)
    assert max(item.num_rows for item in harness.emitted) == MAX_ROWS
    changes = pa.Table.from_batches(harness.emitted)
    assert Counter(changes["change"].to_pylist()) == {"insert": 250_000, "delete": 500}
    inserted = changes.filter(pc.field("change") == "insert")
    pairs = pc.add(pc.multiply(inserted["v"], 500), inserted["vr"])
    assert pc.count_distinct(pairs).as_py() == 250_000


def test_a_row_is_forgotten_after_its_time_to_live(run: Run) -> None:
    operator = JoinStreams(layout(PLAIN, PLAIN, ("k",), CHANGE), LEFT, Ttl("10s"))
    harness = run(operator, key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(PLAIN, (1, 10)), 1)
    harness.now_ms += 6_000
    join.process(batch(PLAIN, (1, 20)), 0)
    assert values(harness) == [(1, 20, 10, "insert")]
    harness.now_ms += 6_000
    # The right row is gone. That the left one had a partner is known nevertheless: nothing is taken back.
    join.process(batch(PLAIN, (1, 30)), 1)
    assert values(harness) == [(1, 20, 30, "insert")]
    harness.now_ms += 60_000
    join.process(batch(PLAIN, (1, 40)), 1)
    assert values(harness) == []


def test_a_condition_that_fails_for_a_row_is_the_users(run: Run) -> None:
    where = pc.divide_checked(pc.field("v"), pc.field("vr")) > 0
    harness = run(JoinStreams(layout(PLAIN, PLAIN, ("k",)), INNER, where=where), key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(PLAIN, (1, 10)), 0)
    with pytest.raises(UserCodeError, match="join 'it': where= failed for a row: divide by zero"):
        join.process(batch(PLAIN, (1, 0)), 1)


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
    join.snapshot(0)
    saved = harness.states.operator.union_list_state("watermark", int).get()
    assert saved == [-MAX_WATERMARK], "nothing is late to who has not heard of any, and that may be anybody afterwards"
    join.process(batch(TIMED, (1, 1000)), 0)
    join.watermark(999)
    join.process(batch(TIMED, (1, 999), (1, 1000)), 1)
    assert values(harness) == [(1, 1000, 1000)]
    assert [(name, item.to_pylist()) for name, item in harness.side_emitted] == [("late_right", [{"k": 1, "t": 999}])]
    assert harness.watermarks == [999 - 110]
    join.snapshot(1)
    assert harness.states.operator.union_list_state("watermark", int).get() == [999]
    join.watermark(MAX_WATERMARK)
    assert values(harness) == []
    join.snapshot(2)
    assert harness.states.operator.union_list_state("watermark", int).get() == []


def test_rows_that_need_not_be_kept_are_not(run: Run) -> None:
    operator = JoinIntervals(layout(TIMED, TIMED, ("k",)), Interval(-5000, -4000), ("t", "t"), LEFT)
    harness = run(operator, key="bigint", key_columns=("k",))
    join = harness.open()
    join.process(batch(TIMED, (1, 5000)), 1)
    join.watermark(7999)
    join.process(batch(TIMED, (1, 9500), (1, 9000), (1, 8000)), 0)
    # All right rows that may belong to these have come, so that only the right one is kept.
    assert values(harness) == [(1, 8000, None), (1, 9000, 5000), (1, 9500, 5000)]
    assert len(harness.states.keyed.timers(namespace=pa.int64())) == 1


@pytest.mark.parametrize("operator", ["interval", "window"])
def test_a_row_without_a_time_is_refused(run: Run, operator: str) -> None:
    plain = layout(TIMED, TIMED, ("k",), pa.field("from", pa.int64()), pa.field("to", pa.int64()))
    made: Any = JoinWindows(plain, FixedAssigner(10, 10), ("t", "t"), INNER)
    if operator == "interval":
        made = JoinIntervals(layout(TIMED, TIMED, ("k",)), Interval(0, 1), ("t", "t"), INNER)
    join = run(made, key="bigint", key_columns=("k",)).open()
    with pytest.raises(UserCodeError, match=f"{operator}_join 'it', the right side: the time column 't' has nulls"):
        join.process(batch(TIMED, (1, None)), 1)


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
    plain = layout(TIMED, TIMED, ("k",), pa.field("from", pa.int64()), pa.field("to", pa.int64()))
    harness = run(JoinWindows(plain, FixedAssigner(20, 10), ("t", "t"), LEFT), key="bigint", key_columns=("k",))
    join = harness.open()
    join.watermark(19)
    join.process(batch(TIMED, (1, 5), (1, 15)), 0)
    assert [(name, item.to_pylist()) for name, item in harness.side_emitted] == [("late_left", [{"k": 1, "t": 5}])]
    join.watermark(29)
    assert values(harness) == [(1, 15, None, 10, 30)]


@pytest.mark.parametrize(
    "operator",
    [
        JoinStreams(layout(PLAIN, PLAIN, ("k",)), INNER),
        JoinIntervals(layout(TIMED, TIMED, ("k",)), Interval(0, 1), ("t", "t"), INNER),
        JoinWindows(layout(TIMED, TIMED, ("k",)), FixedAssigner(10, 10), ("t", "t"), INNER),
    ],
)
def test_a_join_needs_keyed_state(run: Run, operator: Any) -> None:
    with pytest.raises(EngineError, match="was opened without keyed state"):
        run(operator).open()
