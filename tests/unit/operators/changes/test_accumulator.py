"""What all aggregates over changes share, and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.operators.changes.aggregate_runs import results

from snapline.errors import UserCodeError
from snapline.operators.changes.accumulator import or_null, refuse_overflow
from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind


def test_counts_of_rows_and_of_values() -> None:
    batches: list[list[Any]] = [[1, None], [[1]], [[None]]]
    assert results(Aggregate(AggregateKind.COUNT), pa.int64(), batches) == [2, 1, 0]
    assert results(Aggregate(AggregateKind.COUNT, "v"), pa.int64(), batches) == [1, 0, 0]


def test_values_are_left_alone_where_nothing_is_null() -> None:
    values = pa.array([1, 2])
    assert or_null(values, np.array([False, False])) is values
    assert or_null(values, np.array([False, True])).to_pylist() == [1, None]


def test_overflow_is_an_error_unless_somebody_decides_otherwise() -> None:
    with pytest.raises(UserCodeError, match="the sum of 1 groups does not fit into int64"):
        refuse_overflow(pa.array([0, 1]), np.array([True, False]))
