from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.operators.changes import range_aggregates
from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind
from snapline.operators.changes.group_functions import Percentages
from snapline.operators.changes.range_aggregates import PreparedFold, range_aggregate

VALUES = pa.array([3, None, 1, 4, 1, 5])
OK = pa.array([True, True, False, None, True, True])
BY = pa.StructArray.from_arrays([pa.array(list("abcdef")), pa.array([1, 7, 7, 2, 0, 0])], names=["_0", "_1"])
COLUMNS = {"v": VALUES, "ok": OK, "by": BY}
SCHEMA = pa.schema([(name, column.type) for name, column in COLUMNS.items()])
STARTS, ENDS = np.array([0, 1, 2, 3]), np.array([6, 2, 5, 3])


def results(aggregate: Aggregate, groups: np.ndarray | None = None) -> list[Any]:
    rows = np.zeros(6, dtype=np.int64) if groups is None else groups
    found: list[Any] = range_aggregate(aggregate, SCHEMA).prepared(COLUMNS, rows).results(STARTS, ENDS).to_pylist()
    return found


@pytest.mark.parametrize(
    ("aggregate", "wanted"),
    [
        (Aggregate(Kind.COUNT), [6, 1, 3, 0]),
        (Aggregate(Kind.COUNT, "v", where="ok"), [3, 0, 1, 0]),
        (Aggregate(Kind.SUM, "v"), [14, None, 6, None]),
        (Aggregate(Kind.MIN, "v"), [1, None, 1, None]),
        (Aggregate(Kind.MAX, "v", where="ok"), [5, None, 1, None]),
        (Aggregate(Kind.FIRST, "v", ignore_nulls=False), [3, None, 1, None]),
        (Aggregate(Kind.LAST, "v"), [5, None, 1, None]),
        (Aggregate(Kind.MAX_BY, "by"), ["c", "b", "c", None]),
        (Aggregate(Kind.MIN_BY, "by", where="ok"), ["f", "b", "e", None]),
        (Aggregate(Kind.COLLECT_LIST, "v"), [[3, 1, 4, 1, 5], [], [1, 4, 1], []]),
        (Aggregate(Kind.COLLECT_SET, "v"), [[1, 3, 4, 5], [], [1, 4], []]),
        (Aggregate(Kind.PERCENTILE, "v", percentages=Percentages((0.5,))), [3.0, None, 1.0, None]),
        (Aggregate(Kind.SUM, "v", distinct=True), [13, None, 5, None]),
    ],
)
def test_ranges(aggregate: Aggregate, wanted: list[Any]) -> None:
    assert results(aggregate) == wanted


def test_distinct_values_of_each_group() -> None:
    groups = np.array([0, 0, 1, 1, 1, 2])
    prepared = range_aggregate(Aggregate(Kind.COUNT, "v", distinct=True), SCHEMA).prepared(COLUMNS, groups)
    assert prepared.results(np.array([0, 2, 5]), np.array([2, 5, 6])).to_pylist() == [1, 2, 1]


@pytest.mark.parametrize("kind", [Kind.SUM, Kind.MIN, Kind.LAST, Kind.MAX_BY, Kind.VAR_POP, Kind.CORR])
def test_a_seed_stands_for_the_rows_before(kind: Kind) -> None:
    pair = pa.StructArray.from_arrays([pa.array([1.0, 2.0, 9.0, 3.0, 5.0, 8.0]), BY.field(1)], names=["_0", "_1"])
    column = {Kind.MAX_BY: "by", Kind.CORR: "pair"}.get(kind, "v")
    columns = {**COLUMNS, "pair": pair}
    schema = SCHEMA.append(pa.field("pair", pair.type))
    aggregate = range_aggregate(Aggregate(kind, column), schema)
    assert aggregate.seed_type is not None
    groups = np.zeros(6, dtype=np.int64)
    whole = aggregate.prepared(columns, groups).results(np.array([0]), np.array([6]))
    first = aggregate.prepared(columns, groups, pa.nulls(1, aggregate.seed_type))
    assert isinstance(first, PreparedFold)
    seeds = first.seeds(np.array([0]), np.array([3]), np.array([0]))
    assert seeds.type == aggregate.seed_type
    second = aggregate.prepared({name: each[3:] for name, each in columns.items()}, groups[3:], seeds)
    assert second.results(np.array([0]), np.array([3]), np.array([0])).to_pylist() == pytest.approx(whole.to_pylist())


def test_what_needs_all_rows_has_no_seed() -> None:
    assert range_aggregate(Aggregate(Kind.COLLECT_LIST, "v"), SCHEMA).seed_type is None


def test_many_long_ranges_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_aggregates, "_EXPANDED_ROWS", 4)
    assert results(Aggregate(Kind.COLLECT_LIST, "v")) == [[3, 1, 4, 1, 5], [], [1, 4, 1], []]
