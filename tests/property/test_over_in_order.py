"""Window functions in order of event time or of arrival against plain Python, with restores and rescales."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_over_windows import AGGREGATES, INT, Model, in_frame, lag, nth
from tests.unit.operators.changes.running_changes import Row, batch_of, running

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.over_frames import Frame
from snapline.operators.changes.over_functions import OverFunction, OverKind
from snapline.operators.changes.rank_order import SortColumn
from snapline.sql.operators.over_in_order import OverInOrder, runs_in_order
from snapline.types import MAX_WATERMARK

EXAMPLES, EXAMPLES_ON_DISK = 15, 4
START = datetime(2024, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)

SCHEMA = pa.schema(
    [
        ("g", pa.string()),
        ("v", pa.int64()),
        ("s", pa.string()),
        ("id", pa.int64()),
        ("t", pa.timestamp("us", "UTC")),
        ("pair", pa.struct([("_0", pa.string()), ("_1", pa.int64())])),
    ]
)
G, V, S, ID, T, PAIR = range(6)


def row_of(given: tuple[Any, ...], number: int) -> Row:
    group, v, s, at_us = given
    time = None if at_us is None else START + timedelta(microseconds=at_us)
    return (group, v, s, number, time, {"_0": s, "_1": number})


rows = st.tuples(
    st.sampled_from(["a", None]),
    st.integers(0, 6) | st.none(),
    st.sampled_from(["", "x", None]),
    st.none() | st.integers(0, 30).map(lambda ms: ms * 500),
)
events = st.lists(
    st.one_of(st.lists(rows, max_size=6), st.lists(rows, max_size=6), st.tuples(st.integers(0, 16)), st.integers(1, 3)),
    max_size=12,
)
"""Batches, watermarks in milliseconds, and restarts at a parallelism."""

row_frames = st.tuples(st.just(True), st.none() | st.integers(-3, 0), st.integers(-3, 0))
time_frames = st.tuples(st.just(False), st.none() | st.integers(-4000, 0), st.sampled_from([0, 0, -1000]))
frames = st.one_of(row_frames, time_frames).filter(lambda f: f[1] is None or f[1] <= f[2])


def functions_of(frame: tuple[bool, Any, Any]) -> tuple[dict[str, OverFunction], dict[str, Model]]:
    functions = {
        name: OverFunction(OverKind.AGGREGATE, kind, Frame(*frame), aggregate=aggregate)
        for name, (aggregate, kind, _) in AGGREGATES.items()
    }
    models = {name: model for name, (_, _, model) in AGGREGATES.items()}
    by = Aggregate(Kind.MAX_BY, "pair")
    functions["max_by"] = OverFunction(OverKind.AGGREGATE, pa.string(), Frame(*frame), aggregate=by)
    models["max_by"] = lambda rows, _, places: (
        max((rows[n] for n in places), key=lambda row: row[ID])[S] if places else None
    )
    functions["nth"] = OverFunction(OverKind.NTH_VALUE, INT, Frame(*frame), "v", number=2)
    models["nth"] = nth(V, 2, ignore_nulls=False)
    functions["row_number"] = OverFunction(OverKind.ROW_NUMBER, INT)
    models["row_number"] = lambda _, at, __: at + 1
    functions["lag"] = OverFunction(OverKind.LAG, INT, column="v", default="id", number=2)
    models["lag"] = lag(V, 2)
    kept = {name for name, function in functions.items() if runs_in_order(function, SCHEMA)}
    assert {"rows", "sum", "min", "max_s", "avg", "first", "last", "bits", "max_by", "row_number", "lag"} <= kept
    assert ("list" in kept) == ("nth" in kept) == (frame[1] is not None)
    chosen = {name: function for name, function in functions.items() if name in kept}
    return chosen, {name: models[name] for name in chosen}


def ranks(ordered: list[Row], at: int) -> tuple[int, int]:
    times = [row[T] for row in ordered]
    return times.index(times[at]) + 1, len(set(times[: at + 1]))


@given(events=events, frame=frames)
@settings(max_examples=2 * EXAMPLES)
def test_in_order_of_event_time(events: list[Any], frame: tuple[bool, Any, Any]) -> None:
    check_event_time("memory", events, frame)


@pytest.mark.slow
@given(events=events, frame=frames)
@settings(max_examples=EXAMPLES_ON_DISK)
def test_in_order_of_event_time_on_disk(events: list[Any], frame: tuple[bool, Any, Any]) -> None:
    check_event_time("rocksdb", events, frame)


def check_event_time(backend: str, events: list[Any], frame: tuple[bool, Any, Any]) -> None:
    functions, models = functions_of(frame)
    order = [(T, False, True)]
    by = [SortColumn("t")]
    if frame[0]:
        order, by = [*order, (ID, False, True)], [*by, SortColumn("id")]
    else:
        functions["rank"] = OverFunction(OverKind.RANK, INT)
        models["rank"] = lambda rows, at, _: ranks(rows, at)[0]
        functions["dense_rank"] = OverFunction(OverKind.DENSE_RANK, INT)
        models["dense_rank"] = lambda rows, at, _: ranks(rows, at)[1]
    layout = KeyLayout(SCHEMA, ["g"])
    operator = OverInOrder(layout.schema(SCHEMA), layout.key_columns, by, functions, time="t")
    in_time: list[Row] = []
    number, watermark_ms = 0, -MAX_WATERMARK

    def wanted(up_to_ms: int) -> Counter[Row]:
        found: Counter[Row] = Counter()
        for group in {row[G] for row in in_time}:
            ordered = sorted((row for row in in_time if row[G] == group), key=lambda row: (row[T], row[ID]))
            distances = [(*row[:T], int((row[T] - START) / timedelta(microseconds=1)), row[PAIR]) for row in ordered]
            for at, row in enumerate(ordered):
                if last_ms(row) <= up_to_ms:
                    places = in_frame(distances, at, frame, [(T, False, True)])
                    results = (model(ordered, at, places) for model in models.values())
                    found[(*row[:PAIR], tuple(row[PAIR].values()), *results)] += 1
        return found

    with running(operator, [layout], backend) as over:
        for event in [*events, (None,)]:
            if isinstance(event, int):
                over.restart(event)
            elif isinstance(event, tuple):
                watermark_ms = MAX_WATERMARK if event[0] is None else max(watermark_ms, START_MS + event[0])
                over.watermark(watermark_ms)
            else:
                made = []
                for given in event:
                    made.append(row_of(given, number))
                    number += 1
                in_time += [row for row in made if row[T] is not None and last_ms(row) > watermark_ms]
                before = over.late_rows
                over.process(batch_of(SCHEMA, made))
                late = sum(row[T] is None or last_ms(row) <= watermark_ms for row in made)
                assert over.late_rows - before == late
            assert over.result == wanted(watermark_ms)


def last_ms(row: Row) -> int:
    """The last millisecond before the time of a row."""
    return START_MS - (-int((row[T] - START) / timedelta(microseconds=1)) // 1000) - 1


@given(events=events, frame=row_frames.filter(lambda f: f[1] is None or f[1] <= f[2]))
@settings(max_examples=EXAMPLES)
def test_in_order_of_arrival(events: list[Any], frame: tuple[bool, Any, Any]) -> None:
    functions, models = functions_of(frame)
    layout = KeyLayout(SCHEMA, ["g"])
    operator = OverInOrder(layout.schema(SCHEMA), layout.key_columns, (), functions, time=None)
    seen: list[Row] = []
    with running(operator, [layout]) as over:
        for event in events:
            if isinstance(event, int):
                over.restart(event)
                continue
            if isinstance(event, tuple):
                over.watermark(START_MS + event[0])
                continue
            made = [row_of(given, len(seen) + at) for at, given in enumerate(event)]
            seen += made
            over.process(batch_of(SCHEMA, made))
            wanted: Counter[Row] = Counter()
            for group in {row[G] for row in seen}:
                ordered = [row for row in seen if row[G] == group]
                for at, row in enumerate(ordered):
                    places = in_frame(ordered, at, frame, [(T, False, True)])
                    results = (model(ordered, at, places) for model in models.values())
                    wanted[(*row[:PAIR], tuple(row[PAIR].values()), *results)] += 1
            assert over.result == wanted
