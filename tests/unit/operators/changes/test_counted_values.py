"""Values with their counts: nested ones, floats that are equal, and what comes in any order."""

from __future__ import annotations

from decimal import Decimal
from math import nan
from typing import Any

import pyarrow as pa
from tests.unit.operators.changes.aggregate_runs import results

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind

DISTINCT = Aggregate(AggregateKind.COUNT, "v", distinct=True)


def test_equal_floats_are_one_value() -> None:
    assert results(DISTINCT, pa.float64(), [[0.0, -0.0, nan], [-nan], [[0.0]], [[-0.0]]]) == [2, 2, 2, 1]
    assert results(DISTINCT, pa.float32(), [[0.0, -0.0, nan]]) == [2]


def test_nested_values() -> None:
    pair = pa.struct([("a", pa.int64()), ("b", pa.string())])
    rows = [{"a": 1, "b": None}, {"a": 1, "b": ""}, {"a": 1, "b": None}]
    assert results(DISTINCT, pair, [rows, [[rows[0]]], [[rows[2]]]]) == [2, 2, 1]


def test_a_value_that_goes_before_it_comes_was_never_there() -> None:
    batches: list[list[Any]] = [[["x"]], ["y"], ["x"], ["x"]]
    assert results(DISTINCT, pa.string(), batches) == [0, 1, 1, 2]


def test_sums_of_distinct_values() -> None:
    spec = Aggregate(AggregateKind.SUM, "v", distinct=True)
    assert results(spec, pa.int64(), [[5, 5, 2], [5, 1]]) == [7, 8]
    values = [Decimal("0.5"), Decimal("0.5")]
    assert results(spec, pa.decimal128(30, 1), [values, [[Decimal("0.5")]], [[Decimal("0.5")]]])[-2:] == [
        Decimal("0.5"),
        None,
    ]
