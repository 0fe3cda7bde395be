"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import array_of, call, column, condition, literal

INSTANT, INT, TEXT, SECONDS = pa.timestamp("us", "UTC"), pa.int32(), pa.string(), pa.decimal128(16, 6)


def made(*parts: Any, fails: bool = True, type: pa.DataType = INSTANT, zone: str | None = None) -> Any:
    *whole, second = parts
    children = [*(literal(part, INT) for part in whole[:-1]), column(0, INT), literal(Decimal(second), SECONDS)]
    children += [] if zone is None else [literal(zone, TEXT)]
    expression = call("MakeTimestamp", type, *children, failOnError=fails, timeZoneId="America/New_York")
    return expression, pa.array([whole[-1]], INT)


def text(expression: Any, row: pa.Array) -> str | None:
    array = array_of(expression, row).view(pa.timestamp("us")).cast(pa.string())
    return None if array[0].as_py() is None else str(array[0].as_py())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((2024, 3, 10, 2, 30, "60"), "2024-03-10 07:31:00.000000"),
        ((2024, 11, 3, 1, 30, "1.5"), "2024-11-03 05:30:01.500000"),
        ((10000, 1, 1, 0, 0, "0"), "10000-01-01 05:00:00.000000"),
    ],
)
def test_parts_in_the_zone_of_the_session(parts: tuple[Any, ...], expected: str) -> None:
    if parts[0] < 10000:
        assert text(*made(*parts)) == expected
    assert array_of(*made(*parts)).null_count == 0


def test_parts_in_another_zone_or_none() -> None:
    assert text(*made(2024, 11, 3, 1, 30, "1.5", zone="Asia/Seoul")) == "2024-11-02 16:30:01.500000"
    assert text(*made(2024, 11, 3, 1, 30, "1.5", zone="+5:3")) == "2024-11-02 20:27:01.500000"
    assert text(*made(2024, 3, 10, 2, 30, "1.5", type=pa.timestamp("us"))) == "2024-03-10 02:30:01.500000"


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ((2024, 2, 30, 1, 30, "1.5"), "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION"),
        ((2024, 3, 10, 2, 60, "1.5"), "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION"),
        ((2024, 3, 10, 2, 1, "-0.5"), "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION"),
        ((2024, 3, 10, 2, 30, "60.5"), "INVALID_FRACTION_OF_SECOND"),
    ],
)
def test_parts_that_do_not_exist(parts: tuple[Any, ...], error: str) -> None:
    assert condition(*made(*parts)) == error
    assert text(*made(*parts, fails=False)) is None


def test_an_unknown_zone_is_an_error_before_a_wrong_part() -> None:
    assert condition(*made(2026, 3, 59, 2, 0, "0", zone="+19:000")) == "INVALID_TIMEZONE"
