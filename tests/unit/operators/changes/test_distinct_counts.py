"""Numbers of distinct values under several conditions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.running_changes import batch_of, running

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind, accumulators
from snapline.operators.changes.changes import with_change
from snapline.operators.changes.counted_values import Distinct
from snapline.operators.changes.distinct_counts import MAX_CONDITIONS, DistinctCount
from snapline.operators.changes.key_layout import KeyLayout
from snapline.operators.changes.retracting_aggregate import RetractingAggregate

SCHEMA = pa.schema(
    [
        ("g", pa.string()),
        ("v", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(5, 2)),
        ("low", pa.bool_()),
        ("high", pa.bool_()),
    ]
)
LAYOUT = KeyLayout(SCHEMA, ["g"])


def count(column: str, where: str | None = None) -> Aggregate:
    return Aggregate(AggregateKind.COUNT, column, where, distinct=True)


AGGREGATES = {
    "all": count("v"),
    "low": count("v", "low"),
    "high": count("v", "high"),
    "rows": Aggregate(AggregateKind.COUNT),
    "floats": count("f", "low"),
    "decimals": count("d"),
}


def expected(rows: list[tuple[Any, ...]]) -> dict[Any, tuple[Any, ...]]:
    found: dict[Any, tuple[Any, ...]] = {}
    for group in {row[0] for row in rows}:
        mine = [row for row in rows if row[0] == group]
        values = [{row[1] for row in mine if row[1] is not None and row[at]} for at in (4, 5)]
        everything = {row[1] for row in mine if row[1] is not None}
        floats = {str(abs(row[2])) for row in mine if row[2] is not None and row[4]}
        decimals = {row[3] for row in mine if row[3] is not None}
        found[group] = (len(everything), *map(len, values), len(mine), len(floats), len(decimals))
    return found


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_each_condition_counts_its_own_values_also_after_a_restart(backend: str) -> None:
    nan = float("nan")
    batches: list[list[tuple[Any, ...]]] = [
        [("a", 1, 0.0, 1, True, False), ("a", 1, -0.0, 1, True, None), ("a", 2, nan, 2, None, True)],
        [],
        [("a", 1, nan, 2, True, True), ("b", None, None, None, True, True), (None, 5, 1.0, 3, False, False)],
        [("a", 2, nan, 3, True, True), ("a", 3, 2.0, None, False, True), ("b", 7, nan, 1, True, False)],
    ]
    operator = RetractingAggregate(LAYOUT.schema(SCHEMA), ["g"], AGGREGATES, before=True)
    seen: list[tuple[Any, ...]] = []
    with running(operator, [LAYOUT], backend) as counts:
        for parallelism, rows in zip((2, 4, 1, 2), batches, strict=True):
            counts.process(batch_of(SCHEMA, rows))
            seen += rows
            assert counts.result == {(group, *values): 1 for group, values in expected(seen).items()}
            counts.restart(parallelism)


def test_values_are_shared_where_they_only_grow_and_conditions_fit() -> None:
    made = accumulators({str(n): count("v", "low") for n in range(MAX_CONDITIONS + 1)}, SCHEMA)
    assert all(isinstance(each, DistinctCount) for each in made.values())
    assert len({id(each._values) for each in made.values() if isinstance(each, DistinctCount)}) == 2
    changing = accumulators({"n": count("v")}, with_change(SCHEMA))
    assert isinstance(changing["n"], Distinct)
