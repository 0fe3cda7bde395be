"""Sums and means: what cannot be subtracted, what does not fit, and how means are rounded."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from math import inf, isnan, nan
from operator import add
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.aggregate_runs import results

from snapline.errors import UserCodeError
from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind

SUM, AVG = AggregateKind.SUM, AggregateKind.AVG


def to_null(values: pa.Array, overflows: Any) -> pa.Array:
    return pa.compute.if_else(pa.array(overflows), pa.scalar(None, values.type), values)


def test_a_sum_of_whole_numbers_overflows_and_comes_back() -> None:
    batches: list[list[Any]] = [[2**63 - 1], [1], [[1]]]
    assert results(Aggregate(SUM, "v", overflow=to_null), pa.int64(), batches) == [2**63 - 1, None, 2**63 - 1]
    with pytest.raises(UserCodeError, match="does not fit into int64"):
        results(Aggregate(SUM, "v"), pa.int64(), batches)


def test_a_sum_of_decimals_overflows_and_comes_back() -> None:
    kind = pa.decimal128(38, 0)
    most = Decimal(10**38 - 1)
    batches: list[list[Any]] = [[most], [Decimal(1)], [[most]]]
    assert results(Aggregate(SUM, "v", overflow=to_null), kind, batches) == [most, None, Decimal(1)]


def test_a_sum_of_decimals_has_ten_more_digits() -> None:
    assert Aggregate(SUM, "v").accumulator(pa.schema([("v", pa.decimal128(5, 2))])).result == pa.decimal128(15, 2)


def test_infinities_and_nan_can_be_taken_back() -> None:
    batches: list[list[Any]] = [[0.5, inf], [-inf], [[inf]], [nan], [[-inf], [nan]], [[0.5]]]
    found = results(Aggregate(SUM, "v"), pa.float64(), batches)
    assert [found[0], found[2], found[4], found[5]] == [inf, -inf, 0.5, None]
    assert isnan(found[1])
    assert isnan(found[3])


def test_small_numbers_survive_large_ones() -> None:
    assert results(Aggregate(SUM, "v"), pa.float64(), [[1.0], [1e100], [[1e100]]])[-1] == 1.0
    assert results(Aggregate(AVG, "v"), pa.float64(), [[0.1], [0.2], [[0.1]], [[0.2]]])[-1] is None


def test_sums_of_floats_that_are_only_added() -> None:
    assert results(Aggregate(SUM, "v"), pa.float32(), [[0.5], [None], [0.25, inf]]) == [0.5, 0.5, inf]


def test_means() -> None:
    assert results(Aggregate(AVG, "v"), pa.int32(), [[1, 2], [None], [[1]]]) == [1.5, 1.5, 2.0]
    assert results(Aggregate(AVG, "v"), pa.int64(), [[2**62, 2**62]]) == [2.0**62]


def test_means_of_decimals_are_rounded_half_up() -> None:
    kind = pa.decimal128(3, 1)
    assert results(Aggregate(AVG, "v"), kind, [[Decimal("0.1"), Decimal("0.1"), Decimal("0.0")]]) == [
        Decimal("0.06667")
    ]
    narrow = Aggregate(AVG, "v", result=pa.decimal128(3, 1))
    assert results(narrow, kind, [[Decimal("0.1"), Decimal("0.2")]]) == [Decimal("0.2")]
    assert results(narrow, kind, [[Decimal("-0.1"), Decimal("-0.2")]]) == [Decimal("-0.2")]


def test_a_mean_that_does_not_fit_is_decided_by_the_caller() -> None:
    tiny = Aggregate(AVG, "v", result=pa.decimal128(2, 1), overflow=to_null)
    assert results(tiny, pa.decimal128(5, 1), [[Decimal("99.0")]]) == [None]


def test_sums_of_floats_do_not_depend_on_where_a_batch_ends() -> None:
    values = [0.1, 0.2, 0.3, 1e16, -1e16, 0.7]
    for cut in range(len(values)):
        assert results(Aggregate(SUM, "v"), pa.float64(), [values[:cut], values[cut:]][cut == 0 :])[-1] == reduce(
            add, values
        )
