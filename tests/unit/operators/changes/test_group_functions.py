from __future__ import annotations

import datetime
from decimal import Decimal
from math import isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.group_functions import (
    Collected,
    ExtremeBy,
    GroupFold,
    GroupFunction,
    Mode,
    Percentages,
    Percentile,
)


def of(function: GroupFunction, values: pa.Array, counts: list[int] | None = None) -> Any:
    """The result of one group; there are empty ones around it."""
    groups = np.ones(len(values), dtype=np.int64)
    times = np.ones(len(values), dtype=np.int64) if counts is None else np.array(counts)
    before, found, after = function(groups, values, times, 3)
    assert before.type == function.result
    assert not before.is_valid or before.as_py() == []
    assert before == after
    return found.as_py()


def test_percentiles_between_values() -> None:
    values = pa.array([8, 1, 4, 2])
    assert of(Percentile(Percentages((0.3,)), pa.float64(), interpolated=True), values) == pytest.approx(1.9)
    falling = Percentages((0.3,), descending=True)
    assert of(Percentile(falling, pa.float64(), interpolated=True), values) == pytest.approx(4.4)
    several = Percentages((0.0, 0.25, 1.0), is_list=True)
    assert of(Percentile(several, pa.float64(), interpolated=True), values) == [1.0, 1.75, 8.0]


def test_percentiles_that_are_values() -> None:
    values = pa.array([8, 1, 4, 2])
    shares = Percentages((0.0, 0.3, 0.5, 1.0), is_list=True)
    assert of(Percentile(shares, pa.int64(), interpolated=False), values) == [1, 2, 2, 8]
    falling = Percentages((0.3,), descending=True)
    assert of(Percentile(falling, pa.int64(), interpolated=False), values) == 4
    days = pa.array([datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)])
    assert of(Percentile(Percentages((0.5,)), pa.date32(), interpolated=False), days) == datetime.date(2020, 1, 1)


def test_values_that_are_there_several_times() -> None:
    median = Percentile(Percentages((0.5,)), pa.float64(), interpolated=True)
    assert of(median, pa.array([1, 9]), [3, 2]) == 1.0
    weighted = Percentile(Percentages((0.5,), weighted=True), pa.float64(), interpolated=True)
    pairs = pa.array([{"v": 1, "n": 3}, {"v": 2, "n": 0}, {"v": 4, "n": 1}])
    assert of(weighted, pairs, [1, 1, 4]) == 4.0
    assert of(Mode(pa.string()), pa.array(["b", "a", "c"]), [2, 2, 1]) == "a"
    assert of(Mode(pa.string(), greatest=True), pa.array(["b", "a", "c"]), [2, 2, 1]) == "b"


def test_nan_is_the_greatest() -> None:
    top = Percentile(Percentages((1.0,)), pa.float64(), interpolated=True)
    assert isnan(of(top, pa.array([nan, 1.0])))
    assert of(Mode(pa.float64()), pa.array([nan, 1.0])) == 1.0


def test_decimals_and_texts_by_another_value() -> None:
    kind = pa.struct([("_0", pa.string()), ("_1", pa.decimal128(30, 2))])
    values = pa.array([{"_0": "x", "_1": Decimal("1.00")}, {"_0": None, "_1": Decimal("2.00")}], kind)
    assert of(ExtremeBy(kind, least=True), values) == "x"
    assert of(ExtremeBy(kind, least=False), values) is None


def test_of_equal_rows_the_same_one_is_chosen_in_any_order() -> None:
    kind = pa.struct([("_0", pa.list_(pa.int64())), ("_1", pa.string())])
    rows = [{"_0": [n], "_1": "same"} for n in range(4)]
    chosen = {tuple(of(ExtremeBy(kind, least=False), pa.array(given, kind))) for given in (rows, rows[::-1])}
    assert len(chosen) == 1


def test_lists_and_sets() -> None:
    values = pa.array(["b", "a", "b"])
    assert of(Collected(pa.list_(pa.string()), distinct=False), values) == ["b", "a", "b"]
    assert of(Collected(pa.list_(pa.string()), distinct=True), values) == ["a", "b"]


def test_a_fold_counts_values_as_often_as_they_are_there() -> None:
    fold = Aggregate(AggregateKind.SUM, "v").fold(pa.schema([("v", pa.int64())]))
    assert fold is not None
    assert of(GroupFold(fold), pa.array([1, 10]), [3, 2]) == 23
