"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import array_of, call, column, condition, literal, values

from snapline.sql.expressions.registry import UnsupportedError


def of(kind: str, array: pa.Array, places: int, type: pa.DataType, ansi: bool = False) -> list[Any]:
    expression = call(kind, type, column(0, array.type), literal(places, pa.int32()), ansiEnabled=ansi)
    return values(expression, array)


def test_halves_of_doubles() -> None:
    array = pa.array([2.5, -2.5, 3.5, 1.005, math.nan, math.inf, None])
    up = of("Round", array, 0, pa.float64())
    assert up[:4] == [3.0, -3.0, 4.0, 1.0]
    assert math.isnan(up[4])
    assert up[5:] == [math.inf, None]
    assert of("BRound", array, 0, pa.float64())[:3] == [2.0, -2.0, 4.0]
    assert of("Round", array, 2, pa.float64())[3] == 1.01


def test_large_doubles_and_negative_places() -> None:
    array = pa.array([1.7976931348623157e308, 12345.678, -0.4])
    assert of("Round", array, 2, pa.float64())[:2] == [1.7976931348623157e308, 12345.68]
    assert of("Round", array, -3, pa.float64())[1:] == [12000.0, 0.0]


def test_integers_overflow_when_rounded() -> None:
    array = pa.array([2147483647, 15, -15], pa.int32())
    assert of("Round", array, -1, pa.int32()) == [-2147483646, 20, -20]
    assert of("Round", array, 1, pa.int32()) == [2147483647, 15, -15]
    raising = call("Round", pa.int32(), column(0, pa.int32()), literal(-1, pa.int32()), ansiEnabled=True)
    assert condition(raising, array) == "ARITHMETIC_OVERFLOW"


def test_decimals() -> None:
    array = pa.array([Decimal("999.99"), Decimal("-2.50"), None], pa.decimal128(5, 2))
    assert of("Round", array, -3, pa.decimal128(4, 0)) == [Decimal(1000), Decimal(0), None]
    assert of("BRound", array, 0, pa.decimal128(4, 0)) == [Decimal(1000), Decimal(-2), None]
    assert of("RoundCeil", array, 1, pa.decimal128(5, 1)) == [Decimal("1000.0"), Decimal("-2.5"), None]
    assert of("RoundFloor", array, 0, pa.decimal128(4, 0)) == [Decimal(999), Decimal(-3), None]


def test_ceilings_and_floors() -> None:
    array = pa.array([1.2, -1.2, 1e300, None])
    ceiling = call("Ceil", pa.int64(), column(0, pa.float64()))
    assert values(ceiling, array) == [2, -1, 2**63 - 1, None]
    assert values(call("Floor", pa.int64(), column(0, pa.float64())), array) == [1, -2, 2**63 - 1, None]
    edge = pa.array([9.223372036854775807e18, 1.0])
    assert condition(call("Ceil", pa.int64(), column(0, pa.float64()), failOnError=True), edge) == "ARITHMETIC_OVERFLOW"
    nan = pa.array([math.nan])
    assert values(call("Floor", pa.int64(), column(0, pa.float64()), failOnError=True), nan) == [0]


def test_places_are_constant() -> None:
    array = pa.array([1], pa.int32())
    with pytest.raises(UnsupportedError, match="literal"):
        array_of(call("Round", pa.int32(), column(0, pa.int32()), column(0, pa.int32())), array)
