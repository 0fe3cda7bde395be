"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, array_of, call, column, condition, literal, values

INT, DAYS, CALENDAR, SECONDS = pa.int32(), pa.duration("us"), pa.month_day_nano_interval(), pa.decimal128(18, 6)
DAY_US = 86_400_000_000
DURATIONS = pa.array([93_784_500_000, -93_784_500_000, 0, 86_399_999_999, -1, None], pa.int64()).view(DAYS)
MONTHS = pa.array([14, -14, 0, 30, 1, None], INT)


def made(kind: str, type: pa.DataType, count: int, second: str | None = "1.5", **arguments: Any) -> Any:
    numbers = [column(0, INT)] * count
    seconds = [] if second is None else [literal(Decimal(second), SECONDS)]
    return call(kind, type, *numbers, *seconds, **arguments)


def test_calendar_intervals_from_parts() -> None:
    interval = made("MakeInterval", CALENDAR, 6, failOnError=True)
    assert values(interval, pa.array([1, -1, None], INT)) == [
        pa.MonthDayNano([13, 8, 3_661_500_000_000]), pa.MonthDayNano([-13, -8, -3_658_500_000_000]), None
    ]  # fmt: skip
    large = pa.array([200_000_000], INT)
    assert condition(interval, large) == "ARITHMETIC_OVERFLOW"
    assert values(made("MakeInterval", CALENDAR, 6, failOnError=False), large) == [None]


def test_other_intervals_from_parts() -> None:
    assert values(made("MakeDTInterval", DAYS, 3), pa.array([1, None], INT)) == [
        timedelta(days=1, hours=1, minutes=1, seconds=1.5), None
    ]  # fmt: skip
    overflow = "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION"
    assert condition(made("MakeDTInterval", DAYS, 3), pa.array([1_200_000_000], INT)) == overflow
    assert values(made("MakeYMInterval", INT, 2, None), pa.array([1, -1], INT)) == [13, -13]
    assert condition(made("MakeYMInterval", INT, 2, None), pa.array([1_200_000_000], INT)) == overflow


@pytest.mark.parametrize(
    ("part", "expected"),
    [("Days", [1, -1, 0, 0, 0, None]), ("Hours", [2, -2, 0, 23, 0, None]), ("Minutes", [3, -3, 0, 59, 0, None])],
)
def test_parts_of_day_time_intervals(part: str, expected: list[int | None]) -> None:
    assert values(applied(f"ExtractANSIInterval{part}", INT, DURATIONS), DURATIONS) == expected


def test_other_parts() -> None:
    seconds = values(applied("ExtractANSIIntervalSeconds", pa.decimal128(8, 6), DURATIONS), DURATIONS)
    assert seconds == [Decimal("4.5"), Decimal("-4.5"), 0, Decimal("59.999999"), Decimal("-0.000001"), None]
    assert values(applied("ExtractANSIIntervalYears", INT, MONTHS), MONTHS) == [1, -1, 0, 2, 0, None]
    assert values(applied("ExtractANSIIntervalMonths", INT, MONTHS), MONTHS) == [2, -2, 0, 6, 1, None]
    calendar = pa.array([pa.MonthDayNano([14, 25, 25 * 3600 * 10**9])], CALENDAR)
    assert values(applied("ExtractIntervalYears", INT, calendar), calendar) == [1]
    assert values(applied("ExtractIntervalDays", INT, calendar), calendar) == [26]
    assert values(applied("ExtractIntervalHours", pa.int8(), calendar), calendar) == [1]


@pytest.mark.parametrize(
    ("kind", "factor", "expected"),
    [
        ("MultiplyYMInterval", pa.scalar(1.5), [21, -21, 0, 45, 2, None]),
        ("MultiplyYMInterval", pa.scalar(Decimal("0.3")), [4, -4, 0, 9, 0, None]),
        ("DivideYMInterval", pa.scalar(2, INT), [7, -7, 0, 15, 1, None]),
        ("DivideYMInterval", pa.scalar(Decimal("0.7")), [20, -20, 0, 43, 1, None]),
    ],
)
def test_months_are_rounded_half_up(kind: str, factor: pa.Scalar, expected: list[int | None]) -> None:
    assert values(call(kind, INT, column(0, INT), literal(factor.as_py(), factor.type)), MONTHS) == expected


def test_durations_multiplied_and_divided() -> None:
    third = call("DivideDTInterval", DAYS, column(0, DAYS), literal(3, INT))
    micros = array_of(third, DURATIONS).cast(pa.int64()).to_pylist()
    assert micros == [31_261_500_000, -31_261_500_000, 0, 28_800_000_000, 0, None]
    more = call("MultiplyDTInterval", DAYS, column(0, DAYS), literal(1.5, pa.float64()))
    assert array_of(more, DURATIONS).cast(pa.int64()).to_pylist()[-2:] == [-2, None]
    zero = call("DivideDTInterval", DAYS, column(0, DAYS), literal(0, INT))
    assert condition(zero, DURATIONS) == "INTERVAL_DIVIDED_BY_ZERO"
    large = call("MultiplyDTInterval", DAYS, column(0, DAYS), literal(10**12, pa.int64()))
    assert condition(large, DURATIONS) == "ArithmeticException"
    nothing = call("MultiplyDTInterval", DAYS, column(0, DAYS), literal(float("nan"), pa.float64()))
    assert condition(nothing, DURATIONS) == "ArithmeticException"


def test_what_is_left_of_a_day_goes_to_the_time() -> None:
    intervals = pa.array([pa.MonthDayNano([14, 25, 18_367_500_000_000])], CALENDAR)
    less = call("DivideInterval", CALENDAR, column(0, CALENDAR), literal(1.5, pa.float64()), failOnError=True)
    assert values(less, intervals) == [pa.MonthDayNano([9, 16, (19 * 3600 + 24 * 60 + 5) * 10**9])]
    more = call("MultiplyInterval", CALENDAR, column(0, CALENDAR), literal(1.5, pa.float64()), failOnError=True)
    assert values(more, intervals) == [pa.MonthDayNano([21, 37, 70_751_250_000_000])]
    zero = call("DivideInterval", CALENDAR, column(0, CALENDAR), literal(0.0, pa.float64()), failOnError=True)
    assert condition(zero, intervals) == "INTERVAL_DIVIDED_BY_ZERO"


def test_the_opposite_of_the_longest_interval_does_not_exist() -> None:
    interval, divisor = pa.array([-(2**63)], pa.int64()).view(pa.duration("us")), pa.array([-1], pa.int32())
    quotient = applied("DivideDTInterval", pa.duration("us"), interval, divisor)
    assert condition(quotient, interval, divisor) == "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION"
