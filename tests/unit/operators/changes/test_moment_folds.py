"""Moments: values that are not finite, groups of one, and constants, as Spark answers them."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.aggregate_runs import results

from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.aggregate_specs import AggregateKind as Kind

PAIR = pa.struct([("_0", pa.float64()), ("_1", pa.float64())])


def pairs(kind: Kind, *given: tuple[float, float]) -> Any:
    return results(Aggregate(kind, "v"), PAIR, [[{"_0": x, "_1": y} for x, y in given]])[-1]


@pytest.mark.parametrize(
    ("kind", "constant_first", "constant_second", "single"),
    [
        (Kind.CORR, None, None, None),
        (Kind.COVAR_POP, 0.0, 0.0, 0.0),
        (Kind.COVAR_SAMP, 0.0, 0.0, None),
        (Kind.REGR_SLOPE, 0.0, None, None),
        (Kind.REGR_INTERCEPT, 1.0, None, None),
        (Kind.REGR_R2, 1.0, None, None),
        (Kind.REGR_SXY, 0.0, 0.0, 0.0),
    ],
)
def test_constants_and_single_pairs(kind: Kind, constant_first: Any, constant_second: Any, single: Any) -> None:
    assert pairs(kind, (1, 2), (1, 3)) == constant_first
    assert pairs(kind, (1, 3), (2, 3)) == constant_second
    assert pairs(kind, (1, 3)) == single


@pytest.mark.parametrize("kind", [Kind.CORR, Kind.COVAR_POP, Kind.COVAR_SAMP, Kind.REGR_SLOPE, Kind.REGR_R2])
@pytest.mark.parametrize("odd", [inf, nan])
def test_numbers_that_are_not_finite(kind: Kind, odd: float) -> None:
    assert isnan(pairs(kind, (odd, 1), (2, 2)))
    assert isnan(pairs(kind, (2, 1), (odd, 2), (3, 5)))


@pytest.mark.parametrize("kind", [Kind.SKEWNESS, Kind.KURTOSIS])
def test_moments_of_constants_and_odd_numbers(kind: Kind) -> None:
    of = Aggregate(kind, "v")
    assert results(of, pa.float64(), [[2.0], [2.0]]) == [None, None]
    assert isnan(results(of, pa.float64(), [[1.0, inf]])[-1])


def test_values_that_were_far_away_leave_no_trace() -> None:
    batches: list[list[Any]] = [[1.0, 2.0, 5.0], [1e12, -1e12], [[1e12], [-1e12]]]
    found = results(Aggregate(Kind.SKEWNESS, "v"), pa.float64(), batches)
    assert found[0] == found[2]


@pytest.mark.parametrize(
    ("kind", "wanted"), [(Kind.BIT_AND, [-8, -8]), (Kind.BIT_OR, [-1, -1]), (Kind.BIT_XOR, [7, 7])]
)
def test_bits_of_narrow_numbers(kind: Kind, wanted: list[int]) -> None:
    assert results(Aggregate(kind, "v"), pa.int8(), [[-1, -8], [None]]) == wanted
    assert results(Aggregate(kind, "v"), pa.int16(), [[None]]) == [None]
