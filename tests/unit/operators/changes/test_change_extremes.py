"""The least and the greatest of every type that has an order."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.aggregate_runs import ORDERED, results

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind

MIN, MAX = AggregateKind.MIN, AggregateKind.MAX


@pytest.mark.parametrize("kind", list(ORDERED), ids=str)
def test_extremes(kind: pa.DataType) -> None:
    values = ORDERED[kind]
    adding = [[value] for value in values[::-1]]
    assert results(Aggregate(MIN, "v"), kind, adding) == values[::-1]
    # The greatest goes, and the next one comes back.
    taking: list[list[Any]] = [values, *([[value]] for value in values[::-1])]
    assert results(Aggregate(MAX, "v"), kind, taking) == [*values[::-1], None]
    assert results(Aggregate(MIN, "v"), kind, [values, *([[value]] for value in values)]) == [*values, None]


def test_nan_is_greater_than_any_number() -> None:
    found = results(Aggregate(MAX, "v"), pa.float64(), [[inf, -nan], [[nan]]])
    assert isnan(found[0])
    assert found[1] == inf
    assert results(Aggregate(MIN, "v"), pa.float64(), [[nan, 1.0]]) == [1.0]


def test_an_extreme_that_is_there_twice_goes_with_the_second() -> None:
    assert results(Aggregate(MAX, "v"), pa.int64(), [[7, 7, 3], [[7]], [[7]]]) == [7, 7, 3]
    assert results(Aggregate(MAX, "v"), pa.string(), [["x", "x", "a"], [["x"]], [["x"]]]) == ["x", "x", "a"]


def test_structs_are_ordered_field_by_field() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    rows: list[dict[str, Any]] = [{"a": None, "b": "z"}, {"a": 1, "b": None}, {"a": 1, "b": "x"}, {"a": 2, "b": ""}]
    shown = [tuple(row.values()) for row in rows]

    assert results(Aggregate(MIN, "v"), kind, [[row] for row in rows[::-1]]) == shown[::-1]
    taking: list[list[Any]] = [rows, *([[row]] for row in rows[::-1])]
    assert results(Aggregate(MAX, "v"), kind, taking) == [*shown[::-1], None]
