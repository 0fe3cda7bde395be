"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, values

DOUBLE = pa.float64()


def of(kind: str, *columns: list[Any]) -> list[Any]:
    arrays = [pa.array(column, DOUBLE) for column in columns]
    return values(applied(kind, DOUBLE, *arrays), *arrays)


@pytest.mark.parametrize("kind", ["Log", "Log10", "Log2"])
def test_logarithms_of_what_is_not_positive_are_null(kind: str) -> None:
    assert of(kind, [1.0, 0.0, -1.0, None]) == [0.0, None, None, None]
    assert of("Log1p", [0.0, -1.0]) == [0.0, None]
    assert of("Logarithm", [2.0, 0.0, 2.0], [8.0, 8.0, 0.0]) == [pytest.approx(3.0), None, None]


def test_roots() -> None:
    result = of("Sqrt", [4.0, -1.0, None])
    assert result[0] == 2.0
    assert math.isnan(result[1])
    assert of("Cbrt", [-27.0]) == [-3.0]


def test_powers_as_java_has_them() -> None:
    result = of("Pow", [2.0, 1.0, -1.0, math.nan], [10.0, math.nan, math.inf, 0.0])
    assert result[0] == 1024.0
    assert math.isnan(result[1])
    assert math.isnan(result[2])
    assert result[3] == 1.0


def test_angles() -> None:
    assert of("Atan2", [-0.0], [-1.0]) == [math.pi]
    assert of("ToDegrees", [math.pi]) == [180.0]
    assert of("Signum", [-5.0, 0.0]) == [-1.0, 0.0]
    assert of("Cot", [1.0]) == [pytest.approx(0.6420926159343306)]


def test_factorials() -> None:
    array = pa.array([0, 5, 20, 21, -1, None], pa.int32())
    expected = [1, 120, math.factorial(20), None, None, None]
    assert values(applied("Factorial", pa.int64(), array), array) == expected


def test_buckets_in_both_directions() -> None:
    columns = [
        pa.array(each) for each in ([5.0, -1.0, 10.0, 5.0, 5.0], [0.0] * 3 + [10.0, 2.0], [10.0] * 3 + [0.0, 2.0])
    ]
    columns.append(pa.array([4] * 5, pa.int64()))
    assert values(applied("WidthBucket", pa.int64(), *columns), *columns) == [3, 0, 5, 3, None]
