"""Expected values are what Java writes."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from snapline.sql.expressions.number_text import decimal_text, double_text, float_text, number_texts


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e-3, "0.001"),
        (9.999e-4, "9.999E-4"),
        (4.9e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles(value: float, expected: str) -> None:
    assert double_text(value) == expected


def test_single_precision() -> None:
    assert [float_text(value) for value in (0.1, 1.4e-45, 3.4028234663852886e38, 1e10, math.inf)] == [
        "0.1",
        "1.4E-45",
        "3.4028235E38",
        "1.0E10",
        "Infinity",
    ]


def test_decimals() -> None:
    assert decimal_text(Decimal("0.0000001"), plain=False) == "1E-7"
    assert decimal_text(Decimal("0.0000001"), plain=True) == "0.0000001"
    assert decimal_text(Decimal("-12.50"), plain=False) == "-12.50"
    assert decimal_text(Decimal("0E-18"), plain=False) == "0E-18"


def test_arrays() -> None:
    assert number_texts(pa.array([0.0, -0.0, None]), plain_decimals=True).to_pylist() == ["0.0", "-0.0", None]
    assert number_texts(pa.array([1, None]), plain_decimals=True).to_pylist() == ["1", None]


def test_columns_are_written_as_single_numbers_are() -> None:
    generator = random.Random(2)
    sizes = (1e-5, 1e-3, 1.0, 1e6, 1e7, 1e20)
    numbers = [generator.uniform(-2, 2) * generator.choice(sizes) for _ in range(500)]
    numbers += [0.0, -0.0, 1e7, 1e-3, 9999999.999999998, 5.0, -3.0, math.nan, math.inf, -math.inf]
    assert number_texts(pa.array([*numbers, None]), True).to_pylist() == [*map(double_text, numbers), None]
    single = pa.array(numbers, pa.float32())
    assert number_texts(single, True).to_pylist() == [float_text(number) for number in single.to_pylist()]


@pytest.mark.parametrize("scale", [0, 6, 7])
def test_columns_of_decimals(scale: int) -> None:
    numbers = [Decimal(digits).scaleb(-scale) for digits in (0, 1, -1, 123, 10**12, -(10**15) + 1)]
    for plain in (True, False):
        expected = [*(decimal_text(number, plain) for number in numbers), None]
        assert number_texts(pa.array([*numbers, None], pa.decimal128(38, scale)), plain).to_pylist() == expected
