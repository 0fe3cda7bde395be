"""Variances: numbers that are far from 0, values that are not finite, and none at all."""

from __future__ import annotations

from decimal import Decimal
from math import inf, isnan, nan, sqrt
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.changes.aggregate_runs import results

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind

FAR = 1e9


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (AggregateKind.VAR_POP, 2 / 3),
        (AggregateKind.VAR_SAMP, 1.0),
        (AggregateKind.STDDEV_POP, sqrt(2 / 3)),
        (AggregateKind.STDDEV_SAMP, 1.0),
    ],
)
def test_distances_count_not_magnitudes(kind: AggregateKind, wanted: float) -> None:
    batches: list[list[Any]] = [[FAR + 1, FAR + 2], [FAR + 3, FAR + 9], [[FAR + 9]]]
    assert results(Aggregate(kind, "v"), pa.float64(), batches)[-1] == pytest.approx(wanted, rel=1e-6)
    assert results(Aggregate(kind, "v"), pa.int64(), [[1, 2], [3]])[-1] == pytest.approx(wanted)


def test_one_value_has_no_variance_of_a_sample() -> None:
    batches: list[list[Any]] = [[1.5, 7.25], [[7.25]], [[1.5]]]
    assert results(Aggregate(AggregateKind.VAR_SAMP, "v"), pa.float64(), batches)[1:] == [None, None]
    assert results(Aggregate(AggregateKind.VAR_POP, "v"), pa.float64(), batches)[1:] == [0.0, None]


def test_values_that_are_not_finite_can_be_taken_back() -> None:
    batches: list[list[Any]] = [[1.0, 3.0], [inf, nan], [[inf]], [[nan]]]
    found = results(Aggregate(AggregateKind.VAR_POP, "v"), pa.float64(), batches)
    assert [found[0], found[3]] == [1.0, 1.0]
    assert isnan(found[1])
    assert isnan(found[2])


def test_variances_of_decimals() -> None:
    values = [Decimal("1.5"), Decimal("2.5")]
    assert results(Aggregate(AggregateKind.VAR_POP, "v"), pa.decimal128(5, 1), [values]) == [0.25]
