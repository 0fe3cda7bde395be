"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
from tests.expression_kit import applied, array_of, condition, values

INSTANT, LOCAL, INT, DATE = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int32(), pa.date32()
NEW_YORK = {"timeZoneId": "America/New_York"}


def instants(*texts: str | None, type: pa.DataType = INSTANT) -> pa.Array:
    return pa.array(texts, pa.string()).cast(pa.timestamp("us")).view(type)


def texts(array: pa.Array) -> list[str | None]:
    written: list[str | None] = array.view(pa.timestamp("us")).cast(pa.string()).to_pylist()
    return [None if text is None else text.removesuffix(".000000") for text in written]


TIMES = instants("2024-01-31 12:34:56.789123", "2024-03-10 06:59:59.999999", "1883-11-18 17:00:00", None)


def test_durations_are_days_of_local_time_and_then_microseconds() -> None:
    durations = pa.array([93_784_500_000, -93_784_500_000, 8_640_000_000_000, 0], pa.int64()).view(pa.duration("us"))
    later = applied("TimestampAddInterval", INSTANT, TIMES, durations, **NEW_YORK)
    assert texts(array_of(later, TIMES, durations)) == [
        "2024-02-01 14:38:01.289123", "2024-03-09 04:56:55.499999", "1884-02-26 17:00:00", None
    ]  # fmt: skip


def test_months_keep_the_local_time() -> None:
    months = pa.array([14, -14, 30, 1], INT)
    later = applied("TimestampAddYMInterval", INSTANT, TIMES, months, **NEW_YORK)
    assert texts(array_of(later, TIMES, months)) == [
        "2025-03-31 11:34:56.789123", "2023-01-10 06:59:59.999999", "1886-05-18 17:00:00", None
    ]  # fmt: skip
    far = pa.array([2**31 - 1] * 4, INT)
    assert condition(later, TIMES, far) == "ArithmeticException"


def test_calendar_intervals() -> None:
    intervals = pa.array([pa.MonthDayNano([n, n, 3_723_500_000_000]) for n in (1, -1, 25, 0)])
    later = applied("TimestampAddInterval", INSTANT, TIMES, intervals, **NEW_YORK)
    assert texts(array_of(later, TIMES, intervals)) == [
        "2024-03-01 13:37:00.289123", "2024-02-09 08:02:03.499999", "1886-01-12 18:02:03.500000", None
    ]  # fmt: skip


def test_dates_and_calendar_intervals() -> None:
    dates = pa.array([date(2024, 1, 31), date(1970, 1, 1), None])
    intervals = pa.array([pa.MonthDayNano([n, n, 0]) for n in (1, 12, 0)])
    later = applied("DateAddInterval", DATE, dates, intervals, ansiEnabled=True, **NEW_YORK)
    assert values(later, dates, intervals) == [date(2024, 3, 1), date(1971, 1, 13), None]
    hours = pa.array([pa.MonthDayNano([0, 0, 25 * 3600 * 10**9])] * 3)
    assert condition(later, dates, hours) == "INVALID_INTERVAL_WITH_MICROSECONDS_ADDITION"
    lenient = applied("DateAddInterval", DATE, dates, intervals, ansiEnabled=False, **NEW_YORK)
    assert values(lenient, dates, hours) == [date(2024, 2, 1), date(1970, 1, 2), None]


def test_intervals_between_are_those_of_the_clocks() -> None:
    ends, starts = instants("2024-03-10 07:00:00"), instants("2024-03-10 06:00:00")
    between = applied("SubtractTimestamps", pa.duration("us"), ends, starts, **NEW_YORK)
    assert array_of(between, ends, starts).cast(pa.int64()).to_pylist() == [2 * 3_600_000_000]
    local_ends, local_starts = (array.view(LOCAL) for array in (ends, starts))
    plain = applied("SubtractTimestamps", pa.duration("us"), local_ends, local_starts, **NEW_YORK)
    assert array_of(plain, local_ends, local_starts).cast(pa.int64()).to_pylist() == [3_600_000_000]
