"""Aggregates that are numbers: sets, means, conditions, and types."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from tests.unit.operators.aggregates.aggregate_kit import Run, results

import snapline as sl


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
