"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, condition, values

INTS = pa.array([2147483647, -2147483648, 7, None], pa.int32())
OTHERS = pa.array([1, -1, -3, 2], pa.int32())


def test_sums_of_integers_raise_wrap_or_are_null_by_mode() -> None:
    assert condition(applied("Add", pa.int32(), INTS, OTHERS, evalMode="ANSI"), INTS, OTHERS) == "ARITHMETIC_OVERFLOW"
    legacy = applied("Add", pa.int32(), INTS, OTHERS, evalMode="LEGACY")
    assert values(legacy, INTS, OTHERS) == [-2147483648, 2147483647, 4, None]
    tried = applied("Add", pa.int32(), INTS, OTHERS, evalMode="TRY")
    assert values(tried, INTS, OTHERS) == [None, None, 4, None]


def test_small_integers_have_an_error_of_their_own() -> None:
    array = pa.array([127], pa.int8())
    assert (
        condition(applied("Add", pa.int8(), array, array, evalMode="ANSI"), array, array)
        == "BINARY_ARITHMETIC_OVERFLOW"
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("IntegralDivide", [-2, 2, 3]), ("Remainder", [-1, -1, 1]), ("Pmod", [2, -1, 1])],
)
def test_divisions_round_towards_zero(kind: str, expected: list[int]) -> None:
    left, right = pa.array([-7, -7, 7], pa.int64()), pa.array([3, -3, 2], pa.int64())
    assert values(applied(kind, pa.int64(), left, right, evalMode="ANSI"), left, right) == expected


@pytest.mark.parametrize(
    ("kind", "error"), [("Divide", "DIVIDE_BY_ZERO"), ("Remainder", "REMAINDER_BY_ZERO"), ("Pmod", "REMAINDER_BY_ZERO")]
)
def test_zero_on_the_right_raises_or_is_null(kind: str, error: str) -> None:
    left, right = pa.array([1.0]), pa.array([0.0])
    assert condition(applied(kind, pa.float64(), left, right, evalMode="ANSI"), left, right) == error
    assert values(applied(kind, pa.float64(), left, right, evalMode="LEGACY"), left, right) == [None]


def test_null_divided_by_zero_is_null() -> None:
    left, right = pa.array([None], pa.float64()), pa.array([0.0])
    assert values(applied("Divide", pa.float64(), left, right, evalMode="ANSI"), left, right) == [None]


def test_the_lowest_long_has_no_opposite() -> None:
    lowest, minus_one = pa.array([-(2**63)], pa.int64()), pa.array([-1], pa.int64())
    ansi = applied("IntegralDivide", pa.int64(), lowest, minus_one, evalMode="ANSI")
    assert condition(ansi, lowest, minus_one) == "ARITHMETIC_OVERFLOW"
    legacy = applied("IntegralDivide", pa.int64(), lowest, minus_one, evalMode="LEGACY")
    assert values(legacy, lowest, minus_one) == [-(2**63)]
    assert condition(applied("UnaryMinus", pa.int64(), lowest, failOnError=True), lowest) == "ARITHMETIC_OVERFLOW"
    assert values(applied("Abs", pa.int64(), lowest, failOnError=False), lowest) == [-(2**63)]


def test_remainders_of_doubles_keep_the_sign() -> None:
    left, right = pa.array([-5.5, 5.5, math.inf]), pa.array([2.0, -2.0, 2.0])
    result = values(applied("Remainder", pa.float64(), left, right, evalMode="LEGACY"), left, right)
    assert result[:2] == [-1.5, 1.5]
    assert math.isnan(result[2])


def test_a_zero_keeps_the_dividend_from_being_computed_except_in_ansi_mode() -> None:
    huge, zero = pa.array([1e300, 1e300]), pa.array([0.0, None])
    dividend = call(
        "Cast", pa.float64(), call("Cast", pa.int32(), column(0, pa.float64()), evalMode="ANSI"), evalMode="ANSI"
    )
    tried = call("Divide", pa.float64(), dividend, column(1, pa.float64()), evalMode="TRY")
    assert values(tried, huge, zero) == [None, None]
    ansi = call("Divide", pa.float64(), dividend, column(1, pa.float64()), evalMode="ANSI")
    assert condition(ansi, huge, zero) == "CAST_OVERFLOW"
