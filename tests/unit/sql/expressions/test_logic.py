"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, condition, values

BOOL = pa.bool_()
LEFT = pa.array([True, True, True, False, False, None, None])
RIGHT = pa.array([True, False, None, False, None, None, False])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("And", [True, False, None, False, False, None, False]),
        ("Or", [True, True, True, False, None, None, None]),
    ],
)
def test_three_valued_logic(kind: str, expected: list[bool | None]) -> None:
    assert values(applied(kind, BOOL, LEFT, RIGHT), LEFT, RIGHT) == expected


def _risky() -> tuple[pa.Array, pa.Array, object]:
    flags, divisors = pa.array([False, True, None]), pa.array([0.0, 1.0, 1.0])
    quotient = call("Divide", pa.float64(), column(1, pa.float64()), column(1, pa.float64()), evalMode="ANSI")
    return flags, divisors, call("EqualTo", BOOL, quotient, quotient)


def test_the_right_side_is_not_computed_where_the_left_decides() -> None:
    flags, divisors, test = _risky()
    assert values(call("And", BOOL, column(0, BOOL), test), flags, divisors) == [False, True, None]  # type: ignore[arg-type]
    assert condition(call("Or", BOOL, column(0, BOOL), test), flags, divisors) == "DIVIDE_BY_ZERO"  # type: ignore[arg-type]


def test_tests_for_null_and_nan() -> None:
    array = pa.array([1.0, math.nan, None])
    assert values(applied("IsNull", BOOL, array), array) == [False, False, True]
    assert values(applied("IsNotNull", BOOL, array), array) == [True, True, False]
    assert values(applied("IsNaN", BOOL, array), array) == [False, True, False]
    assert values(call("Not", BOOL, applied("IsNaN", BOOL, array)), array) == [True, False, True]


def test_enough_values() -> None:
    first, second = pa.array([1.0, math.nan, None]), pa.array(["a", "b", "c"])
    assert values(applied("AtLeastNNonNulls", BOOL, first, second, n=2), first, second) == [True, False, False]
