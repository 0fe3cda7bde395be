"""Operators of changes one after the other: an aggregate of an aggregate, the top of counts, a join of updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from tests.unit.operators.changes.running_changes import LiveRows, Row, RunningChanges, given_on_disk_rarely, running

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.changing_join import JoinChanges, JoinKind
from snapline.operators.changes.join_sides import JoinSide
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.rank_order import RankKind, SortColumn
from snapline.operators.changes.ranked_changes import RankedChanges
from snapline.operators.changes.retracting_aggregate import RetractingAggregate

BACKENDS = ("memory", pytest.param("rocksdb", marks=pytest.mark.slow))
EXAMPLES = 8

SCHEMA = pa.schema([("word", pa.string()), ("day", pa.int64()), ("v", pa.int64())])
WORD, DAY, V = range(3)

rows = st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 1), st.integers(0, 5) | st.none())
steps = st.lists(st.tuples(st.integers(0, 3), rows, st.integers(0, 50)), max_size=8)
events = st.lists(st.one_of(steps, steps, steps, st.integers(1, 3)), max_size=10)


def passed_on(first: RunningChanges, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """What an operator makes of a batch, cut into halves: an update may be torn apart."""
    first.applies = False
    first.process(batch)
    for made in first.emitted:
        half = made.num_rows // 2
        yield from (made.slice(0, half), made.slice(half))
    first.emitted.clear()


def counts_of(live: list[Row], *columns: int) -> Counter[Row]:
    return Counter(tuple(row[column] for column in columns) for row in live)


@pytest.mark.parametrize("changing", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
@given_on_disk_rarely(EXAMPLES, events=events)
def test_an_aggregate_of_an_aggregate(backend: str, changing: bool, events: list[Any]) -> None:
    """The average and the maximum of how often words come on a day."""
    schema = with_change(SCHEMA) if changing else SCHEMA
    live = LiveRows(schema)
    inner = RetractingAggregate(schema, ["word", "day"], {"n": Aggregate(Kind.COUNT)}, before=True)
    specs = {"words": Aggregate(Kind.COUNT), "mean": Aggregate(Kind.AVG, "n"), "most": Aggregate(Kind.MAX, "n")}
    outer = RetractingAggregate(inner.output_schema, ["day"], specs, before=True)
    with ExitStack() as stack:
        first = stack.enter_context(running(inner, [KeyLayout(schema, ["word", "day"])], backend))
        second = stack.enter_context(running(outer, [KeyLayout(inner.output_schema, ["day"])], backend))
        for event in events:
            if isinstance(event, int):
                first.restart(event)
                second.restart(event)
                continue
            for batch in passed_on(first, live.batch(event)):
                second.process(batch)
            days: dict[int, list[int]] = {}
            for (_, day), count in counts_of(live.rows, WORD, DAY).items():
                days.setdefault(day, []).append(count)
            assert second.result == Counter(
                (day, len(found), sum(found) / len(found), max(found)) for day, found in days.items()
            )


@pytest.mark.parametrize("backend", BACKENDS)
@given_on_disk_rarely(EXAMPLES, events=events)
def test_the_top_of_counts(backend: str, events: list[Any]) -> None:
    schema = with_change(SCHEMA)
    live = LiveRows(schema)
    inner = RetractingAggregate(schema, ["word", "day"], {"n": Aggregate(Kind.COUNT)}, before=True)
    made = inner.output_schema
    layout = KeyLayout(made, ["day"])
    order = [SortColumn("n", descending=True)]
    top = RankedChanges(layout.schema(made), layout.key_columns, order, 2, RankKind.RANK, rank_column="r")
    with ExitStack() as stack:
        first = stack.enter_context(running(inner, [KeyLayout(schema, ["word", "day"])], backend))
        second = stack.enter_context(running(top, [layout], backend))
        for event in events:
            if isinstance(event, int):
                first.restart(event)
                second.restart(event)
                continue
            for batch in passed_on(first, live.batch(event)):
                second.process(batch)
            counts = counts_of(live.rows, WORD, DAY)
            ranked = {
                (word, day): 1 + sum(other > count for (_, its), other in counts.items() if its == day)
                for (word, day), count in counts.items()
            }
            assert second.result == Counter(
                (word, day, counts[word, day], rank) for (word, day), rank in ranked.items() if rank <= 2
            )


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
@given_on_disk_rarely(EXAMPLES, events=events)
def test_a_join_of_updates(backend: str, unique: bool, events: list[Any]) -> None:
    """Every row with how often its word comes, from the same rows twice."""
    schema = with_change(SCHEMA)
    live = LiveRows(schema)
    inner = RetractingAggregate(
        schema, ["word"], {"n": Aggregate(Kind.COUNT), "s": Aggregate(Kind.SUM, "v")}, before=True
    )
    made = inner.output_schema
    layouts = [KeyLayout(each, ["word"], nullable=[False]) for each in (schema, made)]
    left = JoinSide(layouts[0].schema(schema), tuple(SCHEMA.names), layouts[0].key_columns, ("word",))
    right = JoinSide(
        layouts[1].schema(made),
        ("word", "n", "s"),
        layouts[1].key_columns,
        ("word",),
        unique=("word",) if unique else None,
    )
    join = JoinChanges(JoinKind.LEFT, left, right, names=["word", "day", "v", "its", "n", "s"])
    with ExitStack() as stack:
        first = stack.enter_context(running(inner, [KeyLayout(schema, ["word"])], backend))
        second = stack.enter_context(running(join, layouts, backend))
        for event in events:
            if isinstance(event, int):
                first.restart(event)
                second.restart(event)
                continue
            batch = live.batch(event)
            second.process(batch, 0)
            for changed in passed_on(first, batch):
                second.process(changed, 1)
            wanted: Counter[Row] = Counter()
            for row in live.rows:
                values = [other[V] for other in live.rows if other[WORD] == row[WORD]]
                total = [value for value in values if value is not None]
                found = (row[WORD], len(values), sum(total) if total else None)
                wanted[(*row, *(found if row[WORD] is not None else (None, None, None)))] += 1
            assert second.result == wanted
