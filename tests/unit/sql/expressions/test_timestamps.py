"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import time
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.expression_kit import applied, array_of, call, column, condition, literal, values

INSTANT, LOCAL, INT, LONG, TEXT = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int32(), pa.int64(), pa.string()
NEW_YORK = "America/New_York"


def instants(*texts: str | None, type: pa.DataType = INSTANT) -> pa.Array:
    return pa.array(texts, pa.string()).cast(pa.timestamp("us")).view(type)


def texts(array: pa.Array) -> list[str | None]:
    written: list[str | None] = array.view(pa.timestamp("us")).cast(pa.string()).to_pylist()
    return [None if text is None else text.removesuffix(".000000") for text in written]


TIMES = instants(
    *("2024-01-31 12:34:56.789123", "2024-03-10 06:59:59.999999", "2024-03-10 07:00:00", "1883-11-18 17:00:00"),
    *("1582-10-15 00:00:00", None, "1969-12-31 23:59:59.999999"),
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Hour", [7, 1, 3, 12, 19, None, 18]),
        ("Minute", [34, 59, 0, 0, 3, None, 59]),
        ("Second", [56, 59, 0, 0, 58, None, 59]),
    ],
)
def test_fields_in_the_time_zone_of_the_session(kind: str, expected: list[int | None]) -> None:
    assert values(applied(kind, INT, TIMES, timeZoneId=NEW_YORK), TIMES) == expected


def test_seconds_with_their_fraction() -> None:
    seconds = applied("SecondWithFraction", pa.decimal128(8, 6), TIMES, timeZoneId=NEW_YORK)
    assert values(seconds, TIMES)[:2] == [Decimal("56.789123"), Decimal("59.999999")]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("YEAR", ["2024-01-01 05:00:00", "2024-01-01 05:00:00"]),
        ("week", ["2024-10-28 04:00:00", "2024-10-28 04:00:00"]),
        ("DAY", ["2024-11-03 04:00:00", "2024-11-03 04:00:00"]),
        ("hour", ["2024-11-03 05:00:00", "2024-11-03 06:00:00"]),
        ("minute", ["2024-11-03 05:30:00", "2024-11-03 06:30:00"]),
        ("foo", [None, None]),
    ],
)
def test_truncation_keeps_the_second_of_two_equal_hours(unit: str, expected: list[str | None]) -> None:
    times = instants("2024-11-03 05:30:00", "2024-11-03 06:30:00")
    truncated = call("TruncTimestamp", INSTANT, literal(unit, TEXT), column(0, INSTANT), timeZoneId=NEW_YORK)
    assert texts(array_of(truncated, times)) == expected


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("MONTH", ["2024-02-29 12:34:56.789123", "2024-02-10 06:59:59.999999", "2025-03-10 07:00:00"]),
        ("DAY", ["2024-02-01 12:34:56.789123", "2024-03-09 06:59:59.999999", "2024-03-22 07:00:00"]),
        ("HOUR", ["2024-01-31 13:34:56.789123", "2024-03-10 05:59:59.999999", "2024-03-10 19:00:00"]),
    ],
)
def test_units_are_added_in_local_time(unit: str, expected: list[str]) -> None:
    counts, times = pa.array([1, -1, 12], LONG), TIMES.slice(0, 3)
    added = applied("TimestampAdd", INSTANT, counts, times, unit=unit, timeZoneId=NEW_YORK)
    assert texts(array_of(added, counts, times)) == expected


@pytest.mark.parametrize("unit", ["YEAR", "DAY"])
def test_sums_beyond_the_last_timestamp(unit: str) -> None:
    counts, times = pa.array([2147483647], LONG), TIMES.slice(0, 1)
    added = applied("TimestampAdd", INSTANT, counts, times, unit=unit, timeZoneId=NEW_YORK)
    assert condition(added, counts, times) == "DATETIME_OVERFLOW"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("YEAR", [0, 0, 0, 140, 441]),
        ("QUARTER", [0, 0, 0, 560, 1765]),
        ("MONTH", [0, -1, -1, 1682, 5295]),
        ("WEEK", [0, -5, -5, 7315, 23025]),
        ("DAY", [0, -39, -39, 51207, 161180]),
        ("HOUR", [-7, -937, -939, 1228980, 3868324]),
        ("MICROSECOND", [-27296789123, -3376799999999, -3380400000000, 4424328000000000, 13925969762000000]),
    ],
)
def test_whole_units_between(unit: str, expected: list[int]) -> None:
    starts, ends = TIMES.slice(0, 5), instants(*["2024-01-31 05:00:00"] * 5)
    between = applied("TimestampDiff", LONG, starts, ends, unit=unit, timeZoneId=NEW_YORK)
    assert values(between, starts, ends) == expected


def test_numbers_since_1970_round_down() -> None:
    assert values(applied("UnixSeconds", LONG, TIMES), TIMES)[-2:] == [None, -1]
    assert values(applied("UnixMillis", LONG, TIMES), TIMES)[0] == 1706704496789
    assert values(applied("UnixMicros", LONG, TIMES), TIMES)[0] == 1706704496789123


def test_timestamps_from_numbers() -> None:
    whole = pa.array([1, None, -1], LONG)
    assert texts(array_of(applied("SecondsToTimestamp", INSTANT, whole), whole)) == [
        "1970-01-01 00:00:01", None, "1969-12-31 23:59:59"
    ]  # fmt: skip
    doubles = pa.array([1.5, float("nan"), -0.1])
    assert texts(array_of(applied("SecondsToTimestamp", INSTANT, doubles), doubles)) == [
        "1970-01-01 00:00:01.500000", None, "1969-12-31 23:59:59.900000"
    ]  # fmt: skip
    decimals = pa.array([Decimal("1.5000000"), Decimal("0.0000010")], pa.decimal128(20, 7))
    assert values(call("UnixMicros", LONG, applied("SecondsToTimestamp", INSTANT, decimals)), decimals) == [1500000, 1]
    fine = pa.array([Decimal("0.0000001")], pa.decimal128(20, 7))
    assert condition(applied("SecondsToTimestamp", INSTANT, fine), fine) == "ArithmeticException"
    large = pa.array([9 * 10**15], LONG)
    assert condition(applied("SecondsToTimestamp", INSTANT, large), large) == "DATETIME_OVERFLOW"


def test_time_zones() -> None:
    names = pa.array(["Asia/Seoul", "+08:00", "GMT+1"])
    times = TIMES.slice(0, 3)
    assert texts(array_of(applied("FromUTCTimestamp", INSTANT, times, names), times, names)) == [
        *("2024-01-31 21:34:56.789123", "2024-03-10 14:59:59.999999", "2024-03-10 08:00:00"),
    ]
    gap = instants("2024-03-10 02:30:00")
    shifted = call("ToUTCTimestamp", INSTANT, column(0, INSTANT), literal(NEW_YORK, TEXT))
    assert texts(array_of(shifted, gap)) == ["2024-03-10 07:30:00"]
    local = instants("2024-03-31 02:30:00", type=LOCAL)
    sources, targets = pa.array(["Europe/Berlin"]), pa.array([NEW_YORK])
    converted = applied("ConvertTimezone", LOCAL, sources, targets, local)
    assert texts(array_of(converted, sources, targets, local)) == ["2024-03-30 21:30:00"]


def test_the_last_timestamp_has_none_after_it() -> None:
    last, name = pa.array([2**63 - 1], LONG).view(INSTANT), pa.array(["+08:00"])
    assert condition(applied("FromUTCTimestamp", INSTANT, last, name), last, name) == "ArithmeticException"


def test_the_last_timestamp_stays_in_its_zone() -> None:
    last, name = pa.array([2**63 - 1], LONG).view(LOCAL), pa.array(["EST5EDT"])
    same = applied("ConvertTimezone", LOCAL, name, name, last)
    assert array_of(same, name, name, last).view(LONG).to_pylist() == [2**63 - 1]
    later = pa.array(["Asia/Seoul"])
    assert condition(applied("ConvertTimezone", LOCAL, name, later, last), name, later, last) == "ArithmeticException"


def test_now_is_the_time_of_the_batch() -> None:
    row = pa.array([0])
    before = time.time_ns() // 1000
    now = array_of(call("CurrentTimestamp", INSTANT), row).view(pa.int64())[0].as_py()
    assert before <= now <= time.time_ns() // 1000
    today = values(call("CurrentDate", pa.date32(), timeZoneId="UTC"), row)[0]
    assert isinstance(today, date)
    assert array_of(call("LocalTimestamp", LOCAL, timeZoneId="UTC"), row).type == LOCAL


def test_the_last_moment_of_a_window() -> None:
    windows = pa.StructArray.from_arrays([TIMES, TIMES], names=["start", "end"])
    assert texts(array_of(applied("WindowTime", INSTANT, windows), windows))[2] == "2024-03-10 06:59:59.999999"


def test_unknown_zones_are_an_error_before_times_that_do_not_fit() -> None:
    zones, last = pa.array(["America/Los_Angeles"]), pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us"))
    moved = call("ConvertTimezone", last.type, column(0, pa.string()), literal("x", pa.string()), column(1, last.type))
    assert condition(moved, zones, last) == "INVALID_TIMEZONE"
