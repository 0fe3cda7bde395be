from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import sql_kit as kit
from tests.unit.operators.changes.running_changes import RunningChanges, batch_of, running

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.group_functions import Percentages
from snapline.operators.changes.key_layout import KeyLayout
from snapline.sql.operators.row_sessions import RowSessions, session_starts
from snapline.types import MAX_WATERMARK

SCHEMA = pa.schema([("w", kit.WINDOW), ("g", pa.string()), ("v", pa.int64())])
AGGREGATES = {
    "n": Aggregate(AggregateKind.COUNT),
    "median": Aggregate(AggregateKind.PERCENTILE, "v", percentages=Percentages((0.5,))),
    "distinct": Aggregate(AggregateKind.COUNT, "v", distinct=True),
}


def sessions() -> tuple[RowSessions, list[KeyLayout]]:
    layout = KeyLayout(SCHEMA, ["g"])
    operator = RowSessions(layout.schema(SCHEMA), layout.key_columns, "w", ["g"], AGGREGATES, kit.WINDOW)
    return operator, [layout]


def row(start: float | None, gap: float | None, group: str | None, value: int) -> tuple[Any, ...]:
    begins = None if start is None else kit.second(start)
    ends = None if start is None or gap is None else kit.second(start + gap)
    return ({"start": begins, "end": ends}, group, value)


def shown(one: RunningChanges) -> list[tuple[Any, ...]]:
    found = sorted(
        ((each[0] - kit.START).total_seconds(), (each[1] - kit.START).total_seconds(), *rest)
        for each, *rest in one.result.elements()
    )
    one.result.clear()
    return found


def ms(second: float) -> int:
    return int(kit.second(second).timestamp() * 1000)


def test_spans_that_overlap_or_touch_are_one_session() -> None:
    with running(*sessions()) as one:
        one.process(batch_of(SCHEMA, [row(0, 5, "a", 1), row(15, 2, "a", 3), row(6, 1, "a", 2), row(5, 10, "a", 2)]))
        one.process(batch_of(SCHEMA, [row(20, 1, "a", 7), row(3, 1, None, 5)]))
        one.watermark(ms(17) - 2)
        assert shown(one) == [(3, 4, None, 1, 5.0, 1)]
        one.restart(2)
        one.watermark(ms(17) - 1)
        assert shown(one) == [(0, 17, "a", 4, 2.0, 3)]
        one.watermark(MAX_WATERMARK)
        assert shown(one) == [(20, 21, "a", 1, 7.0, 1)]
        assert one.stored_entries() == {}


def test_rows_without_a_gap_are_in_no_session() -> None:
    with running(*sessions()) as one:
        one.process(
            batch_of(SCHEMA, [row(0, 0, "a", 1), row(1, -2, "a", 1), row(2, None, "a", 1), row(None, 1, "a", 1)])
        )
        assert one.late_rows == 0
        assert one.stored_entries() == {}


def test_a_row_is_late_when_its_own_span_is_over() -> None:
    with running(*sessions()) as one:
        one.process(batch_of(SCHEMA, [row(0, 30, "a", 1)]))
        one.watermark(ms(10))
        one.restart(1)
        one.process(batch_of(SCHEMA, [row(2, 3, "a", 2), row(2, 50, "a", 3)]))
        assert one.late_rows == 1
        one.watermark(MAX_WATERMARK)
        assert shown(one) == [(0, 52, "a", 2, 2.0, 2)]


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12), st.sampled_from(["a", None])), max_size=8)


@given(batches=st.lists(spans, max_size=5), restart=st.integers(1, 3))
@settings(max_examples=15)
def test_sessions_against_plain_python(batches: list[list[tuple[int, int, Any]]], restart: int) -> None:
    check_sessions("memory", batches, restart)


@pytest.mark.slow
@given(batches=st.lists(spans, max_size=5), restart=st.integers(1, 3))
@settings(max_examples=4)
def test_sessions_on_disk(batches: list[list[tuple[int, int, Any]]], restart: int) -> None:
    check_sessions("rocksdb", batches, restart)


def check_sessions(backend: str, batches: list[list[tuple[int, int, Any]]], restart: int) -> None:
    operator, layouts = sessions()
    wanted: Counter[tuple[Any, ...]] = Counter()
    for group in ("a", None):
        current: list[Any] | None = None
        for start, gap, _ in sorted(
            (span for batch in batches for span in batch if span[2] == group), key=lambda s: s[0]
        ):
            if current is not None and start <= current[1]:
                current = [current[0], max(current[1], start + gap), current[2] + 1]
            else:
                if current is not None:
                    wanted[(*current[:2], group, current[2])] += 1
                current = [start, start + gap, 1]
        if current is not None:
            wanted[(*current[:2], group, current[2])] += 1
    with running(operator, layouts, backend) as one:
        for batch in batches:
            one.process(batch_of(SCHEMA, [row(start, gap, group, 1) for start, gap, group in batch]))
            one.restart(restart)
        one.watermark(MAX_WATERMARK)
        assert Counter(each[:4] for each in shown(one)) == wanted


def test_a_long_span_reaches_over_shorter_ones() -> None:
    owners, starts, ends = np.array([0, 0, 0, 1]), np.array([0, 1, 8, 8]), np.array([9, 2, 10, 9])
    assert session_starts(owners, starts, ends).tolist() == [True, False, False, True]
