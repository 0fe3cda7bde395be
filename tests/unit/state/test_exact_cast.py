"""Conversions that never change a value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.state.exact_cast import converted, exact_array, exact_cast

PAIR = pa.struct([pa.field("a", pa.int8(), nullable=False), ("b", pa.string())])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None], pa.int8()),
        ([0.1, float("inf")], pa.float32()),
        ([{"a": 1, "b": None}], PAIR),
        ([[1, None], []], pa.list_(pa.int64())),
        ([{"k": 1}], pa.map_(pa.string(), pa.int64())),
        ([Decimal("1.20")], pa.decimal128(5, 2)),
    ],
)
def test_exact_values_are_converted(values: list[Any], kind: pa.DataType) -> None:
    assert exact_array(values, kind).type == kind


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        (1.5, pa.int64(), "1.5 is no value of type int64"),
        (300, pa.int8(), "300 is no value of type int8"),
        (1e300, pa.float32(), "is too large"),
        (5, pa.string(), "it is int, not text"),
        ({"a": 1, "c": 2}, PAIR, "it has no field 'c'"),
        ({"a": None}, PAIR, "'a' may not be null"),
        ([1.5], pa.list_(pa.int64()), "is no value of type"),
        (dt.datetime(2024, 1, 1), pa.timestamp("us", tz="UTC"), "would become"),
    ],
)
def test_a_value_that_would_change_is_refused(value: Any, kind: pa.DataType, problem: str) -> None:
    with pytest.raises(UserCodeError, match=problem):
        exact_array([value], kind)


def test_a_map_with_a_key_twice_is_refused() -> None:
    with pytest.raises(UserCodeError, match="has a key twice"):
        exact_array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))


def test_arrays_are_cast_within_a_family() -> None:
    assert exact_cast(pa.array([1, None]), pa.int8(), may_round=False).type == pa.int8()
    assert exact_cast(pa.array(["a"]).dictionary_encode(), pa.string(), may_round=False).to_pylist() == ["a"]
    assert exact_cast(pa.nulls(2), pa.date32(), may_round=False).type == pa.date32()
    for array, kind in ((pa.array([300]), pa.int8()), (pa.array(["1"]), pa.int64()), (pa.array([0.1]), pa.float32())):
        with pytest.raises(UserCodeError, match="are no values of type"):
            exact_cast(array, kind, may_round=False)


def test_floats_may_round_if_the_caller_says_so() -> None:
    rounded = converted(pa.chunked_array([[0.1], [0.2]]), pa.float32())
    assert rounded.to_pylist() == pytest.approx([0.1, 0.2])
    assert converted(iter([1, 2]), pa.int16()).to_pylist() == [1, 2]
