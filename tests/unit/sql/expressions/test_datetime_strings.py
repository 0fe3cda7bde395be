"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import datetime as dt

import pytest

from snapline.sql.expressions.datetime_strings import date_days, days, local_timestamp_us, text_zone, timestamp_us
from snapline.sql.expressions.zone_offsets import zone

EPOCH = dt.date(1970, 1, 1)


def test_days_of_any_year() -> None:
    for date in (dt.date(1, 1, 1), dt.date(2000, 2, 29), dt.date(9999, 12, 31)):
        assert days(date.year, date.month, date.day) == (date - EPOCH).days
    assert days(2023, 2, 29) is None
    assert days(2023, 13, 1) is None
    assert days(10000, 1, 1) == (dt.date(9999, 12, 31) - EPOCH).days + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-1-2", dt.date(2026, 1, 2)),
        (" 2026 ", dt.date(2026, 1, 1)),
        ("2026-02", dt.date(2026, 2, 1)),
        ("2026-01-01T25 o'clock", dt.date(2026, 1, 1)),
        ("2026-02-30", None),
        ("20260101", None),
        ("2026/01/01", None),
        ("", None),
    ],
)
def test_dates(text: str, expected: dt.date | None) -> None:
    assert date_days(text) == (None if expected is None else (expected - EPOCH).days)


def _us(*parts: int) -> int:
    return (dt.datetime(*parts, tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-1-1 1:2:3", _us(2026, 1, 1, 0, 2, 3)),
        ("2026-01-01 12:34:56.123456789", _us(2026, 1, 1, 11, 34, 56, 123456)),
        ("2026-01-01T12:34:56Z", _us(2026, 1, 1, 12, 34, 56)),
        ("2026-01-01 12:34:56+02:00", _us(2026, 1, 1, 10, 34, 56)),
        ("2026-01-01 12:34:56 America/New_York", _us(2026, 1, 1, 17, 34, 56)),
        ("2026-03-29 02:30:00", _us(2026, 3, 29, 1, 30)),
        ("2026-01-01 24:00:00", None),
        ("now", None),
        ("2026-01-01 a", None),
    ],
)
def test_timestamps(text: str, expected: int | None) -> None:
    assert timestamp_us(text, zone("Europe/Berlin")) == expected


def test_timestamps_without_zone() -> None:
    assert local_timestamp_us("2026-03-29 02:30:00") == _us(2026, 3, 29, 2, 30)
    assert local_timestamp_us("12:34:56") is None


def test_zones_in_texts() -> None:
    assert text_zone("+1:30") is not None
    assert text_zone("Nowhere/Else") is None
