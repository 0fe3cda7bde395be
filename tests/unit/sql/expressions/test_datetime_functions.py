"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, condition, literal, values

from snapline.sql.expressions.registry import UnsupportedError

INSTANT, LONG, TEXT = pa.timestamp("us", "UTC"), pa.int64(), pa.string()
NEW_YORK = {"timeZoneId": "America/New_York"}


def test_formats_of_timestamps() -> None:
    times = pa.array([1_706_704_496_789_123, None], LONG).view(INSTANT)
    constant = call("DateFormatClass", TEXT, column(0, INSTANT), literal("MMM d, HH:mm", TEXT), **NEW_YORK)
    assert values(constant, times) == ["Jan 31, 07:34", None]
    patterns = pa.array(["yyyy", "QQQQQ"])
    assert values(applied("DateFormatClass", TEXT, times, patterns, **NEW_YORK), times, patterns) == ["2024", None]


def test_seconds_since_1970_as_text() -> None:
    seconds = pa.array([0, -1, 253402300799, None, -(2**63)], LONG)
    pattern = literal("yyyy-MM-dd HH:mm:ss", TEXT)
    assert values(call("FromUnixTime", TEXT, column(0, LONG), pattern, **NEW_YORK), seconds) == [
        "1969-12-31 19:00:00", "1969-12-31 18:59:59", "9999-12-31 18:59:59", None, "1969-12-31 19:00:00"
    ]  # fmt: skip


def test_texts_that_cannot_be_read_are_null_or_errors() -> None:
    texts = pa.array(["2024-01-31", "foo", None])
    pattern = literal("yyyy-MM-dd", TEXT)
    lenient = call("GetTimestamp", INSTANT, column(0, TEXT), pattern, failOnError=False, **NEW_YORK)
    assert values(call("UnixSeconds", LONG, lenient), texts) == [1706677200, None, None]
    strict = call("GetTimestamp", INSTANT, column(0, TEXT), pattern, failOnError=True, **NEW_YORK)
    assert condition(strict, texts) == "CANNOT_PARSE_TIMESTAMP"


def test_local_timestamps_have_no_zone() -> None:
    texts = pa.array(["2024-01-31"])
    local = call("GetTimestamp", pa.timestamp("us"), column(0, TEXT), literal("yyyy-MM-dd", TEXT), **NEW_YORK)
    assert values(local, texts)[0].isoformat() == "2024-01-31T00:00:00"


def test_unix_timestamps() -> None:
    pattern = literal("yyyy-MM-dd HH:mm:ss", TEXT)
    times = pa.array([1_706_704_496_789_123, -1], LONG).view(INSTANT)
    of_times = call("UnixTimestamp", LONG, column(0, INSTANT), pattern, failOnError=True, **NEW_YORK)
    assert values(of_times, times) == [1706704496, 0]
    dates = pa.array([date(2024, 1, 31)])
    of_dates = call("ToUnixTimestamp", LONG, column(0, pa.date32()), pattern, failOnError=True, **NEW_YORK)
    assert values(of_dates, dates) == [1706677200]
    texts = pa.array(["2024-01-31 12:34:56"])
    of_texts = call("UnixTimestamp", LONG, column(0, TEXT), pattern, failOnError=True, **NEW_YORK)
    assert values(of_texts, texts) == [1706722496]


def test_constant_patterns_are_refused_before_the_start() -> None:
    times = pa.array([0], LONG).view(INSTANT)
    with pytest.raises(UnsupportedError):
        values(call("DateFormatClass", TEXT, column(0, INSTANT), literal("zzzz", TEXT), **NEW_YORK), times)


def test_a_wrong_pattern_has_one_error_for_times_without_a_zone() -> None:
    texts = pa.array(["2026"])
    for type, name in (
        (pa.timestamp("us"), "INVALID_DATETIME_PATTERN.WITH_SUGGESTION"),
        (INSTANT, "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION"),
    ):
        assert condition(call("GetTimestamp", type, column(0, TEXT), literal("Y", TEXT), **NEW_YORK), texts) == name
