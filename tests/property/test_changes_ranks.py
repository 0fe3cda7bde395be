"""Ranks, normalisation and limits against plain Python: any changes, cut anywhere, with restores and rescales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operators.changes.running_changes import (
    LiveRows,
    Row,
    all_gone,
    batch_of,
    given_on_disk_rarely,
    running,
)

from snapline.operators.changes import ranked_changes
from snapline.operators.changes.best_row import ranked_rows
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.limit_rows import LimitRows
from snapline.operators.changes.normalisation import ChangesOfUpserts, deduplicated, latest_rows
from snapline.operators.changes.rank_order import RankKind, SortColumn
from snapline.operators.changes.ranked_changes import RankedChanges

BACKENDS = ("memory", pytest.param("rocksdb", marks=pytest.mark.slow))
EXAMPLES = 8

SCHEMA = pa.schema([("g", pa.string()), ("v", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
G, V, F, S = range(4)

rows = st.tuples(
    st.sampled_from(["a", None]),
    st.integers(0, 9) | st.none(),
    st.sampled_from([-1.5, 0.0, 2.0, float("inf"), None]),
    st.sampled_from(["", "x", "yy", None]),
)
steps = st.lists(st.tuples(st.integers(0, 3), rows, st.integers(0, 50)), max_size=8)
events = st.lists(st.one_of(steps, steps, steps, st.integers(1, 3)), max_size=12)

columns = st.tuples(st.sampled_from([V, F, S]), st.booleans(), st.booleans())
orders = st.lists(columns, min_size=1, max_size=2, unique_by=lambda column: column[0])


class Place:
    """The place of a row in an order."""

    def __init__(self, row: Row, order: list[tuple[int, bool, bool]]) -> None:
        self.row, self.order = row, order

    def compare(self, other: Place) -> int:
        for column, descending, nulls_first in self.order:
            mine, its = self.row[column], other.row[column]
            if mine == its:
                continue
            if mine is None or its is None:
                return -1 if (mine is None) == nulls_first else 1
            return -1 if (mine < its) != descending else 1
        return 0

    def __lt__(self, other: Place) -> bool:
        return self.compare(other) < 0


def ranked(rows: list[Row], order: list[tuple[int, bool, bool]], kind: RankKind, limit: int) -> list[tuple[Row, int]]:
    places = sorted((Place(row, order) for row in rows), key=lambda place: place)
    result, rank, dense = [], 0, 0
    for number, place in enumerate(places, start=1):
        if number == 1 or places[number - 2].compare(place):
            rank, dense = number, dense + 1
        shown = {RankKind.ROW_NUMBER: number, RankKind.RANK: rank, RankKind.DENSE_RANK: dense}[kind]
        if shown <= limit:
            result.append((place.row, shown))
    return result


def groups_of(live: list[Row]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in live:
        groups.setdefault(row[G], []).append(row)
    return groups


@pytest.fixture
def short_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads so short that rows move between head and tail all the time."""
    monkeypatch.setattr(ranked_changes, "HEAD_ROWS", 1)


@pytest.mark.usefixtures("short_heads")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("changing", [True, False])
@pytest.mark.parametrize("kind", [RankKind.RANK, RankKind.DENSE_RANK])
@pytest.mark.parametrize("shows_rank", [True, False])
@given_on_disk_rarely(EXAMPLES, events=events, order=orders, limit=st.integers(1, 4))
def test_ranks(
    shows_rank: bool,
    kind: RankKind,
    changing: bool,
    backend: str,
    events: list[Any],
    order: list[tuple[int, bool, bool]],
    limit: int,
) -> None:
    schema = with_change(SCHEMA) if changing else SCHEMA
    layout = KeyLayout(schema, ["g"])
    by = [SortColumn(SCHEMA.names[column], *how) for column, *how in order]
    rank = "n" if shows_rank else None
    operator = RankedChanges(layout.schema(schema), layout.key_columns, by, limit, kind, rank_column=rank)
    live = LiveRows(schema)
    with running(operator, [layout], backend) as top:
        for event in events:
            if isinstance(event, int):
                top.restart(event)
                continue
            top.process(live.batch(event))
            wanted: Counter[Row] = Counter()
            for group in groups_of(live.rows).values():
                for row, number in ranked(group, order, kind, limit):
                    wanted[(*row, number) if shows_rank else row] += 1
            # At each moment, not only in the end.
            assert top.result == wanted
        if changing and backend == "memory":
            top.process(all_gone(live))
            assert not top.result
            assert top.stored_entries() == {}


@pytest.mark.usefixtures("short_heads")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("changing", [True, False])
@given_on_disk_rarely(EXAMPLES, events=events, order=orders, limit=st.integers(1, 4))
def test_row_numbers(
    changing: bool, backend: str, events: list[Any], order: list[tuple[int, bool, bool]], limit: int
) -> None:
    """Which of equal rows is shown is not said, so places are compared; the rows must be among those that are there."""
    schema = with_change(SCHEMA) if changing else SCHEMA
    layout = KeyLayout(schema, ["g"])
    by = [SortColumn(SCHEMA.names[column], *how) for column, *how in order]
    operator = ranked_rows(layout.schema(schema), layout.key_columns, by, limit, rank_column="n")
    live = LiveRows(schema)
    sorting = [column for column, _, _ in order]

    def place(row: Row, number: int) -> Row:
        return (row[G], *(row[column] for column in sorting), number)

    with running(operator, [layout], backend) as top:
        for event in events:
            if isinstance(event, int):
                top.restart(event)
                continue
            top.process(live.batch(event))
            wanted: Counter[Row] = Counter()
            for group in groups_of(live.rows).values():
                wanted.update(place(*item) for item in ranked(group, order, RankKind.ROW_NUMBER, limit))
            assert Counter(place(row[:-1], row[-1]) for row in top.result.elements()) == wanted
            assert not Counter(row[:-1] for row in top.result.elements()) - Counter(live.rows)


@pytest.mark.usefixtures("short_heads")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", list(RankKind))
def test_partitions_that_grow_and_shrink(kind: RankKind, seed: int) -> None:
    """Long enough for rows to move behind the head and to come back from there."""
    random = Random(seed)
    schema = with_change(SCHEMA)
    layout = KeyLayout(schema, ["g"])
    limit = random.randint(1, 3)
    by, order = [SortColumn("v", descending=True, nulls_first=False)], [(V, True, False)]
    operator = RankedChanges(layout.schema(schema), layout.key_columns, by, limit, kind, rank_column="n")
    live = LiveRows(schema)
    with running(operator, [layout]) as top:
        for number in range(60):
            grows = number % 20 < 10
            made = [
                (
                    random.choices((0, 3), (3, 1) if grows else (1, 3))[0],
                    (random.choice("ab"), random.choice([None, *range(12)]), None, random.choice("xy")),
                    random.randrange(50) if random.random() < 0.5 else _best_of(live.rows),
                )
                for _ in range(random.randint(1, 10))
            ]
            top.process(live.batch(made))
            if number % 15 == 14:
                top.restart(random.randint(1, 3))
            wanted: Counter[Row] = Counter()
            for group in groups_of(live.rows).values():
                wanted.update((row[G], row[V], shown) for row, shown in ranked(group, order, kind, limit))
            assert Counter((row[G], row[V], row[-1]) for row in top.result.elements()) == wanted
            assert not Counter(row[:-1] for row in top.result.elements()) - Counter(live.rows)
        top.process(all_gone(live))
        assert not top.result
        assert top.stored_entries() == {}


def _best_of(live: list[Row]) -> int:
    """The place of a row that is likely to be shown."""
    return max(range(len(live)), key=lambda at: -1 if live[at][V] is None else live[at][V], default=0)


def first(group: list[Row]) -> Row:
    return group[0]


def last(group: list[Row]) -> Row:
    return group[-1]


@pytest.mark.parametrize("keep_last", [True, False])
@given(events=events)
@settings(max_examples=EXAMPLES)
def test_one_row_of_each_key_by_arrival(keep_last: bool, events: list[Any]) -> None:
    layout = KeyLayout(SCHEMA, ["g"])
    operator = deduplicated(layout.schema(SCHEMA), layout.key_columns, [], keep_last=keep_last)
    live = LiveRows(SCHEMA)
    pick: Callable[[list[Row]], Row] = last if keep_last else first
    with running(operator, [layout]) as one:
        for event in events:
            if isinstance(event, int):
                one.restart(event)
                continue
            # Equal rows are one row with the place of its first; here every row is another.
            numbered = [(kind, (row[0], len(live.rows) + at, *row[2:]), 0) for at, (kind, row, _) in enumerate(event)]
            one.process(live.batch(numbered))
            assert one.result == Counter(pick(group) for group in groups_of(live.rows).values())


@pytest.mark.parametrize("backend", BACKENDS)
@given_on_disk_rarely(EXAMPLES, events=events)
def test_the_latest_of_the_rows_that_are_left(backend: str, events: list[Any]) -> None:
    schema = with_change(SCHEMA)
    layout = KeyLayout(schema, ["g"])
    live = LiveRows(schema)
    number = 0
    with running(latest_rows(layout.schema(schema), layout.key_columns), [layout], backend) as latest:
        for event in events:
            if isinstance(event, int):
                latest.restart(event)
                continue
            numbered = []
            for kind, row, at in event:
                numbered.append((kind, (row[0], number, *row[2:]), at))
                number += 1
            latest.process(live.batch(numbered))
            assert latest.result == Counter(last(group) for group in groups_of(live.rows).values())


upserts = st.lists(st.tuples(rows, st.sampled_from([0, 1, 2, 3])).map(lambda item: (*item[0], item[1])), max_size=8)


@pytest.mark.parametrize("backend", BACKENDS)
@given_on_disk_rarely(EXAMPLES, events=st.lists(st.one_of(upserts, upserts, st.integers(1, 3)), max_size=12))
def test_upserts_become_changes(backend: str, events: list[Any]) -> None:
    schema = with_change(SCHEMA)
    layout = KeyLayout(schema, ["g"])
    table: dict[Any, Row] = {}
    with running(ChangesOfUpserts(layout.schema(schema), layout.key_columns), [layout], backend) as normal:
        for event in events:
            if isinstance(event, int):
                normal.restart(event)
                continue
            for *row, kind in event:
                if kind == 3:
                    table.pop(row[G], None)
                elif kind != 1:
                    table[row[G]] = tuple(row)
            normal.process(batch_of(schema, event))
            assert normal.result == Counter(table.values())


@pytest.mark.parametrize("backend", BACKENDS)
@given_on_disk_rarely(EXAMPLES, events=events, limit=st.integers(0, 12))
def test_the_first_rows(backend: str, events: list[Any], limit: int) -> None:
    layout = KeyLayout(SCHEMA, [])
    live = LiveRows(SCHEMA)
    operator = LimitRows(layout.schema(SCHEMA), layout.key_columns, limit)
    with running(operator, [layout], backend) as limited:
        for event in events:
            if isinstance(event, int):
                limited.restart(event)
                continue
            limited.process(live.batch(event))
            assert limited.result == Counter(live.rows[:limit])
