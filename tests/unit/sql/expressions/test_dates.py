"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from datetime import date, timedelta

import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, condition, literal, values

DATE, INT, TEXT = pa.date32(), pa.int32(), pa.string()
DATES = pa.array(
    [date(2024, 1, 31), date(2024, 2, 29), date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2021, 1, 3), None]
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Year", [2024, 2024, 1970, 1, 9999, 2021, None]),
        ("Quarter", [1, 1, 1, 1, 4, 1, None]),
        ("Month", [1, 2, 1, 1, 12, 1, None]),
        ("DayOfMonth", [31, 29, 1, 1, 31, 3, None]),
        ("DayOfYear", [31, 60, 1, 1, 365, 3, None]),
        ("DayOfWeek", [4, 5, 5, 2, 6, 1, None]),
        ("WeekDay", [2, 3, 3, 0, 4, 6, None]),
        ("WeekOfYear", [5, 9, 1, 1, 52, 53, None]),
        ("YearOfWeek", [2024, 2024, 1970, 1, 9999, 2020, None]),
    ],
)
def test_fields(kind: str, expected: list[int | None]) -> None:
    assert values(applied(kind, INT, DATES), DATES) == expected


def test_names() -> None:
    assert values(applied("MonthName", TEXT, DATES), DATES) == ["Jan", "Feb", "Jan", "Jan", "Dec", "Jan", None]
    assert values(applied("DayName", TEXT, DATES), DATES) == ["Wed", "Thu", "Thu", "Mon", "Fri", "Sun", None]
    assert values(call("DayName", TEXT, literal(date(2024, 1, 31), DATE)), DATES.slice(0, 1)) == ["Wed"]


def test_last_and_next_days() -> None:
    assert values(applied("LastDay", DATE, DATES), DATES)[:3] == [
        date(2024, 1, 31),
        date(2024, 2, 29),
        date(1970, 1, 31),
    ]
    names = pa.array(["MO", "tuesday", "We", "THU", "sa", "Sun", "fr"])
    three, their = DATES.slice(0, 4), names.slice(0, 4)
    following = values(applied("NextDay", DATE, three, their, failOnError=True), three, their)
    assert following == [date(2024, 2, 5), date(2024, 3, 5), date(1970, 1, 7), date(1, 1, 4)]
    wrong = pa.array(["xx"] * 7)
    assert condition(applied("NextDay", DATE, DATES, wrong, failOnError=True), DATES, wrong) == "ILLEGAL_DAY_OF_WEEK"
    assert values(applied("NextDay", DATE, DATES, wrong, failOnError=False), DATES, wrong) == [None] * 7


def test_arithmetic_with_months_and_days() -> None:
    counts = pa.array([1, -1, 12, 25, -13, 7, 2], INT)
    assert values(applied("AddMonths", DATE, DATES, counts), DATES, counts) == [
        *(date(2024, 2, 29), date(2024, 1, 29), date(1971, 1, 1), date(3, 2, 1), date(9998, 11, 30), date(2021, 8, 3)),
        None,
    ]
    assert values(applied("DateAdd", DATE, DATES, counts), DATES, counts)[:2] == [date(2024, 2, 1), date(2024, 2, 28)]
    few, two = DATES.slice(0, 2), counts.slice(0, 2)
    assert values(applied("DateSub", DATE, few, two), few, two) == [date(2024, 1, 30), date(2024, 3, 1)]
    others = pa.array([date(2000, 1, 1)] * 7)
    assert values(applied("DateDiff", INT, DATES, others), DATES, others)[:2] == [8796, 8825]
    between = applied("SubtractDates", pa.duration("us"), DATES, others, legacyInterval=False)
    assert values(between, DATES, others)[2] == timedelta(days=-10957)


def test_months_beyond_the_last_date_are_an_error() -> None:
    dates, months = pa.array([date(1, 1, 1)]), pa.array([2**31 - 1], INT)
    assert condition(applied("DateAddYMInterval", DATE, dates, months), dates, months) == "ARITHMETIC_OVERFLOW"


def test_months_between() -> None:
    utc = pa.timestamp("us", "UTC")
    later = pa.array([1_706_704_496_789_123, 1_710_053_999_999_999, 253_402_214_399_999_999], pa.int64()).view(utc)
    earlier = pa.array([1_706_677_200_000_000, 1_709_182_800_000_000, 253_402_232_400_000_000], pa.int64()).view(utc)
    for rounds, expected in (
        (True, [0.0, 0.38978457, -0.0067208]),
        (False, [0.0, 0.389784572879331, -0.006720803464755077]),
    ):
        between = call(
            "MonthsBetween",
            pa.float64(),
            column(0, utc),
            column(1, utc),
            literal(rounds, pa.bool_()),
            timeZoneId="America/New_York",
        )
        assert values(between, later, earlier) == expected


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("yy", [date(2024, 1, 1), date(9999, 1, 1)]),
        ("QUARTER", [date(2024, 1, 1), date(9999, 10, 1)]),
        ("mon", [date(2024, 1, 1), date(9999, 12, 1)]),
        ("week", [date(2024, 1, 29), date(9999, 12, 27)]),
        ("day", [None, None]),
        ("foo", [None, None]),
    ],
)
def test_truncation(unit: str, expected: list[date | None]) -> None:
    dates = pa.array([date(2024, 1, 31), date(9999, 12, 31)])
    assert values(call("TruncDate", DATE, column(0, DATE), literal(unit, TEXT)), dates) == expected


def test_what_an_unknown_unit_would_truncate_is_not_computed() -> None:
    texts = pa.array(["2024-01-31", "no date"])
    units = pa.array(["MM", "x"])
    dates = call("Cast", DATE, column(0, TEXT), evalMode="ANSI", timeZoneId="UTC")
    assert values(call("TruncDate", DATE, dates, column(1, TEXT)), texts, units) == [date(2024, 1, 1), None]


def test_dates_from_parts() -> None:
    years, months, days = (pa.array(each, INT) for each in ([2024, 2024, 2023], [2, 12, 2], [29, 31, 29]))
    made = applied("MakeDate", DATE, years, months, days, failOnError=False)
    assert values(made, years, months, days) == [date(2024, 2, 29), date(2024, 12, 31), None]
    strict = applied("MakeDate", DATE, years, months, days, failOnError=True)
    assert condition(strict, years, months, days) == "DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION"


def test_days_since_1970() -> None:
    assert values(applied("UnixDate", INT, DATES), DATES)[2:5] == [0, -719162, 2932896]
    assert values(applied("DateFromUnixDate", DATE, pa.array([1], INT)), pa.array([1], INT)) == [date(1970, 1, 2)]
