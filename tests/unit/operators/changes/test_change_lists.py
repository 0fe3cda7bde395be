"""First and last values, lists and sets: types and orders that the property tests leave out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.unit.operators.changes.aggregate_runs import results

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind

NESTED = pa.list_(pa.int64())


def test_the_first_of_equal_values_is_taken_out() -> None:
    listed = Aggregate(AggregateKind.COLLECT_LIST, "v")
    batches: list[list[Any]] = [[1, 2, 1, None], [[1]], [3, [1], [2]], [[3]]]
    assert results(listed, pa.int64(), batches) == [(1, 2, 1), (2, 1), (3,), ()]


def test_the_first_and_the_last_follow_what_is_left() -> None:
    batches: list[list[Any]] = [["a", None, "b"], [["a"]], [["b"]], [[None]]]
    assert results(Aggregate(AggregateKind.FIRST, "v"), pa.string(), batches) == ["a", "b", None, None]
    assert results(Aggregate(AggregateKind.LAST, "v"), pa.string(), batches) == ["b", "b", None, None]
    first = Aggregate(AggregateKind.FIRST, "v", ignore_nulls=False)
    assert results(first, pa.string(), [[None], ["a"]]) == [None, None]
    assert results(first, pa.string(), batches) == ["a", None, None, None]
    last = Aggregate(AggregateKind.LAST, "v", ignore_nulls=False)
    assert results(last, pa.string(), [["a"], [None], ["b"]]) == ["a", None, "b"]


def test_sets_have_an_order_of_their_own() -> None:
    as_set = Aggregate(AggregateKind.COLLECT_SET, "v")
    assert results(as_set, pa.int64(), [[2, 1, 2], [3]]) == results(as_set, pa.int64(), [[1, 2], [2, 3]])
    assert results(as_set, NESTED, [[(1,), (), None, (1,)]])[0] in [((1,), ()), ((), (1,))]


def test_results_have_the_type_that_was_asked_for() -> None:
    kind = pa.list_(pa.field("element", pa.int64(), nullable=False))
    spec = Aggregate(AggregateKind.COLLECT_LIST, "v", result=kind)
    assert spec.accumulator(pa.schema([("v", pa.int64())])).result == kind
    assert results(spec, pa.int64(), [[1]]) == [(1,)]
