"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, condition, values

from snapline.sql.expressions.number_casts import saturated, scaled

DOUBLES = pa.array([1.7, -1.7, 1e10, -1e300, math.nan, math.inf, None])


def cast(array: pa.Array, type: pa.DataType, mode: str = "LEGACY") -> list[Any]:
    return values(applied("Cast", type, array, evalMode=mode, timeZoneId="UTC"), array)


def error(array: pa.Array, type: pa.DataType) -> str:
    return condition(applied("Cast", type, array, evalMode="ANSI", timeZoneId="UTC"), array)


def test_doubles_to_integers() -> None:
    assert cast(DOUBLES, pa.int32()) == [1, -1, 2147483647, -2147483648, 0, 2147483647, None]
    assert cast(DOUBLES, pa.int32(), "TRY") == [1, -1, None, None, None, None, None]
    assert error(DOUBLES, pa.int32()) == "CAST_OVERFLOW"
    assert cast(DOUBLES, pa.int8()) == [1, -1, -1, 0, 0, -1, None]


def test_integers_to_smaller_ones() -> None:
    array = pa.array([200, -3, None], pa.int32())
    assert cast(array, pa.int8()) == [-56, -3, None]
    assert error(array, pa.int8()) == "CAST_OVERFLOW"


def test_decimals_to_integers() -> None:
    array = pa.array([Decimal("-7.99"), Decimal("300.50")], pa.decimal128(5, 2))
    assert cast(array, pa.int32(), "ANSI") == [-7, 300]
    assert error(array, pa.int8()) == "CAST_OVERFLOW"
    assert cast(array, pa.int8()) == [-7, 44]


def test_decimals_of_another_precision() -> None:
    array = pa.array([Decimal("1.005"), Decimal("-1.005"), Decimal("12345.600")], pa.decimal128(8, 3))
    type = pa.decimal128(5, 2)
    assert cast(array, type) == [Decimal("1.01"), Decimal("-1.01"), None]
    assert error(array, type) == "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"


def test_doubles_to_decimals() -> None:
    array = pa.array([1e-5, 2.675, math.inf, math.nan])
    assert cast(array, pa.decimal128(10, 2), "ANSI") == [Decimal("0.00"), Decimal("2.68"), None, None]


def test_decimals_to_doubles_are_the_nearest() -> None:
    array = pa.array([Decimal("0.1"), Decimal("9" * 36 + ".9")], pa.decimal128(37, 1))
    assert cast(array, pa.float64()) == [0.1, 1e36]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("LEGACY", [12, 3, 1, None, None, -128, None]), ("TRY", [12, 3, None, None, None, -128, None])],
)
def test_texts_to_integers(mode: str, expected: list[int | None]) -> None:
    array = pa.array([" 12 ", "+3", "1.7", "1e3", "abc", "-128", "128"])
    assert cast(array, pa.int8(), mode) == expected


def test_plain_texts_to_integers() -> None:
    array = pa.array(["1", "-2", "300"])
    assert cast(array, pa.int64()) == [1, -2, 300]
    assert cast(array, pa.int8()) == [1, -2, None]
    assert error(array, pa.int8()) == "CAST_INVALID_INPUT"


def test_texts_to_decimals() -> None:
    array = pa.array(["1e3", " 0.005 ", "x", "12345.6", None])
    type = pa.decimal128(6, 2)
    assert cast(array, type) == [Decimal("1000.00"), Decimal("0.01"), None, None, None]
    assert error(array, type) == "CAST_INVALID_INPUT"
    assert error(pa.array(["12345.6"]), type) == "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
    assert error(pa.array(["1e400"]), type) == "NUMERIC_OUT_OF_SUPPORTED_RANGE"
    assert cast(pa.array([], pa.string()), type) == []


def test_truth_values() -> None:
    assert cast(pa.array([True, False, None]), pa.decimal128(5, 2)) == [Decimal("1.00"), Decimal("0.00"), None]
    assert cast(pa.array([0.0, -0.0, math.nan]), pa.bool_()) == [False, False, True]
    assert cast(pa.array(["t", "NO", "x"]), pa.bool_()) == [True, False, None]


def test_timestamps_to_seconds() -> None:
    array = pa.array([-1, 1_500_000], pa.timestamp("us", "UTC"))
    assert cast(array, pa.int64()) == [-1, 1]
    assert cast(array, pa.float64()) == [-1e-6, 1.5]


def test_helpers() -> None:
    assert saturated(np.array([1e30, -1e30, math.nan, 5.9]), 32).tolist() == [2**31 - 1, -(2**31), 0, 5]
    assert scaled(Decimal("1E+3"), 2) == 100000
    assert scaled(Decimal("-0.005"), 2) == -1
    assert scaled(Decimal("1E-400"), 2) == 0


def test_plain_texts_become_the_same_decimals_as_others() -> None:
    texts = ["0", "-12", "1.005", "123456789012.123456", "9999999999999999999.999999999999999999", "-0.5", None]
    for target in (pa.decimal128(18, 2), pa.decimal128(38, 18), pa.decimal128(3, 0)):
        cast = call("Cast", target, column(0, pa.string()), evalMode="LEGACY")
        with_another = values(cast, pa.array([*texts, "1e0"]))
        assert values(cast, pa.array(texts)) == with_another[:-1]
        assert values(cast, pa.array(texts[:3])) == with_another[:3]


def test_timestamps_as_decimals_keep_their_microseconds() -> None:
    array = pa.array([3_875_820_019_684_212_726], pa.int64()).view(pa.timestamp("us", "UTC"))
    cast = applied("Cast", pa.decimal128(38, 18), array, evalMode="ANSI", timeZoneId="UTC")
    assert values(cast, array) == [Decimal("3875820019684.212726000000000000")]
