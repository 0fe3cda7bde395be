"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, literal, values

BOOL = pa.bool_()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("EqualTo", [True, False, True, None]),
        ("LessThan", [False, True, False, None]),
        ("LessThanOrEqual", [True, True, True, None]),
        ("GreaterThan", [False, False, False, None]),
        ("GreaterThanOrEqual", [True, False, True, None]),
        ("EqualNullSafe", [True, False, True, False]),
    ],
)
def test_nan_equals_itself_and_is_the_greatest(kind: str, expected: list[bool | None]) -> None:
    left = pa.array([math.nan, math.inf, 0.0, None])
    right = pa.array([math.nan, math.nan, -0.0, 1.0])
    assert values(applied(kind, BOOL, left, right), left, right) == expected


def test_nulls_are_the_same_for_the_safe_equality() -> None:
    left = pa.array([None, "a"], pa.string())
    assert values(applied("EqualNullSafe", BOOL, left, left), left, left) == [True, True]


def test_structs_and_arrays_are_compared_inside() -> None:
    type = pa.struct([("a", pa.int32()), ("b", pa.string())])
    left = pa.array([{"a": 1, "b": None}, {"a": 1, "b": "x"}], type)
    right = pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": "x"}], type)
    assert values(applied("LessThan", BOOL, left, right), left, right) == [True, False]
    lists, others = pa.array([[1], [1, None]]), pa.array([[1, 2], [1, 0]])
    assert values(applied("LessThan", BOOL, lists, others), lists, others) == [True, True]


def test_membership_with_nulls() -> None:
    array = pa.array([1, 3, None], pa.int32())
    items = [literal(item, pa.int32()) for item in (1, 2, None)]
    assert values(call("In", BOOL, column(0, pa.int32()), *items), array) == [True, None, None]
    assert values(call("In", BOOL, column(0, pa.int32()), *items[:2]), array) == [True, False, None]


def test_membership_among_columns() -> None:
    array, other = pa.array([math.nan, 1.0, 2.0]), pa.array([math.nan, 2.0, None])
    assert values(applied("In", BOOL, array, other), array, other) == [True, False, None]


def test_items_after_a_match_are_not_computed() -> None:
    number, divisor = pa.array([1.0, 5.0]), pa.array([0.0, 1.0])
    quotient = call("Divide", pa.float64(), column(0, pa.float64()), column(1, pa.float64()), evalMode="ANSI")
    found = call("In", BOOL, column(0, pa.float64()), literal(1.0, pa.float64()), quotient)
    assert values(found, number, divisor) == [True, True]


def test_greatest_and_least_skip_nulls() -> None:
    left, right = pa.array([None, 1.0, None]), pa.array([math.inf, math.nan, None])
    greatest = values(applied("Greatest", pa.float64(), left, right), left, right)
    assert greatest[0] == math.inf
    assert math.isnan(greatest[1])
    assert greatest[2] is None
    assert values(applied("Least", pa.float64(), left, right), left, right) == [math.inf, 1.0, None]
