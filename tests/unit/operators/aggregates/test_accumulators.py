"""Aggregates beyond numbers: lists, sets, functions of one's own, conditions, and types."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.api.aggregates import Aggregate, accumulators
from snapline.errors import UserCodeError
from snapline.operators.aggregates.running_aggregates import RunningAggregates

Run = Callable[..., Any]


def results(run: Run, batches: list[dict[str, Any]], types: dict[str, Any], **aggregates: Aggregate) -> list[Any]:
    """What running aggregates of one key give after each batch."""
    schema = pa.schema([("key", pa.int64()), *types.items()])
    made = accumulators(aggregates, schema, {}, "aggregate")
    harness = run(
        RunningAggregates(made, pa.schema([schema.field("key"), *made.fields])), key="bigint", key_columns=("key",)
    )
    harness.open()
    found = []
    for columns in batches:
        count = len(next(iter(columns.values())))
        arrays = [pa.array([1] * count), *(pa.array(columns[name], kind) for name, kind in types.items())]
        harness.operator.process(pa.RecordBatch.from_arrays(arrays, schema=schema), 0)
        (row,) = harness.rows()
        found.append({name: value for name, value in row.items() if name != "key"})
    return found


def test_lists(run: Run) -> None:
    found = results(
        run,
        [{"name": ["x", "y", None, "z"], "score": [1.0, 3.0, 9.0, None]}, {"name": ["v", "w"], "score": [3.0, 2.0]}],
        {"name": pa.string(), "score": pa.float64()},
        best=sl.top_n("name", 2, by="score"),
        scores=sl.top_n("score", 3),
        two=sl.collect("name", 2),
        everything=sl.collect("name"),
        high=sl.collect("score", where=pc.field("score") > 2),
        none=sl.top_n("name", 1, where=pc.field("score") > 100),
    )
    assert found == [
        {
            "best": ["y", "x"],
            "scores": [9.0, 3.0, 1.0],
            "two": ["x", "y"],
            "everything": ["x", "y", "z"],
            "high": [3.0, 9.0],
            "none": [],
        },
        {
            "best": ["y", "v"],
            "scores": [9.0, 3.0, 3.0],
            "two": ["x", "y"],
            "everything": ["x", "y", "z", "v", "w"],
            "high": [3.0, 9.0, 3.0],
            "none": [],
        },
    ]


def test_sets_and_means(run: Run) -> None:
    found = results(
        run,
        [{"name": ["x", "y", "x", None]}, {"name": ["y", "y"]}, {"name": ["z", "x"]}],
        {"name": pa.dictionary(pa.int32(), pa.string())},
        names=sl.count_distinct("name"),
        given=sl.count("name"),
        first=sl.first("name"),
        last=sl.last("name"),
    )
    assert found == [
        {"names": 2, "given": 3, "first": "x", "last": "x"},
        {"names": 2, "given": 5, "first": "x", "last": "y"},
        {"names": 3, "given": 7, "first": "x", "last": "x"},
    ]
    found = results(
        run,
        [{"price": [None]}, {"price": [Decimal("1.25"), Decimal("2.00")]}],
        {"price": pa.decimal128(8, 2)},
        average=sl.mean("price"),
        total=sl.sum("price"),
        prices=sl.top_n("price", 1),
    )
    assert found == [
        {"average": None, "total": None, "prices": []},
        {"average": 1.625, "total": Decimal("3.25"), "prices": [Decimal("2.00")]},
    ]


def test_conditions(run: Run) -> None:
    cheap = pc.field("price") < 10
    found = results(
        run,
        [{"price": [5, 50, None], "good": [True, None, False]}, {"price": [7, 70, 8], "good": [False, True, True]}],
        {"price": pa.int32(), "good": pa.bool_()},
        cheap=sl.count(where=cheap),
        cheap_total=sl.sum("price", where=cheap),
        good=sl.count(where="good"),
        good_prices=sl.count_distinct("price", where="good"),
        most=sl.max("price", where=cheap & pc.field("good")),
    )
    assert found == [
        {"cheap": 1, "cheap_total": 5, "good": 1, "good_prices": 1, "most": 5},
        {"cheap": 3, "cheap_total": 20, "good": 3, "good_prices": 3, "most": 8},
    ]


class Longest:
    """The longest string; an accumulator is a list that is changed in place."""

    def create(self) -> list[str]:
        return [""]

    def add(self, accumulator: list[str], value: str) -> list[str]:
        accumulator[0] = max(accumulator[0], value, key=len)
        return accumulator

    def merge(self, accumulator: list[str], other: list[str]) -> list[str]:
        return self.add(accumulator, other[0])

    def result(self, accumulator: list[str]) -> str:
        return accumulator[0]


class Weighted:
    def create(self) -> tuple[int, int]:
        return 0, 0

    def add(self, accumulator: tuple[int, int], value: tuple[Any, Any]) -> tuple[int, int]:
        number, weight = value
        return accumulator[0] + (number or 0) * weight, accumulator[1] + weight

    def merge(self, accumulator: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + other[0], accumulator[1] + other[1]

    def result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


def test_functions_of_ones_own(run: Run) -> None:
    found = results(
        run,
        [
            {"name": [None, None], "number": [1, None], "weight": [1, 1]},
            {"name": ["ab", "c"], "number": [5, 3], "weight": [2, 0]},
        ],
        {"name": pa.string(), "number": pa.int64(), "weight": pa.int64()},
        longest=sl.aggregate(Longest(), "name", type=pa.string()),
        average=sl.aggregate(Weighted(), "number", "weight", type="double"),
    )
    assert found == [{"longest": None, "average": 0.5}, {"longest": "ab", "average": 2.75}]


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [(pa.int64(), "the result of the aggregate 'x' does not fit"), (pa.float64(), "'x' raised ZeroDivisionError")],
)
def test_functions_that_fail(run: Run, kind: Any, complaint: str) -> None:
    weights = [2, 1] if kind == pa.int64() else [0, 0]
    with pytest.raises(UserCodeError, match=complaint):
        results(
            run,
            [{"number": [1, 2], "weight": weights}],
            {"number": pa.int64(), "weight": pa.int64()},
            x=sl.aggregate(Weighted(), "number", "weight", type=kind),
        )
