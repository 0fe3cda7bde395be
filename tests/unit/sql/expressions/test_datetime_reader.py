"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.sql.expressions.datetime_reader import Reader
from snapline.sql.expressions.registry import SparkError, UnsupportedError
from snapline.sql.expressions.zone_offsets import zone


def read(pattern: str, *texts: str) -> list[str | None]:
    reading = Reader(pattern).read(pa.array(texts, pa.string()))
    times = pa.array(reading.times(zone("America/New_York")), pa.timestamp("us"), mask=~reading.right)
    written: list[str | None] = times.cast(pa.string()).to_pylist()
    return [None if text is None else text.removesuffix(".000000") for text in written]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyy-MM-dd", "2024-01-31", "2024-01-31 05:00:00"),
        ("yyyy-MM-dd", "2024-1-31", None),
        ("yyyy-MM-dd", "2024-02-30", None),
        ("yyyy-MM-dd", "10000-01-01", None),
        ("yyyy-M-d", "2024-1-31", "2024-01-31 05:00:00"),
        ("yyyy-MM-dd", " 2024-01-31", None),
        ("yyyy-MM-dd HH:mm:ss", "2024-03-10 02:30:00", "2024-03-10 07:30:00"),
        ("yyyy-MM-dd HH:mm:ss", "2024-11-03 01:30:00", "2024-11-03 05:30:00"),
        ("yyyy-MM-dd HH:mm:ss", "2024-01-31 24:00:00", None),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-01-31 12:34:56.7", "2024-01-31 17:34:56.700000"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-01-31 12:34:56.7891", None),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS]", "2024-01-31 12:34:56", "2024-01-31 17:34:56"),
        ("yyyyMMddHHmmss", "20240131123456", "2024-01-31 17:34:56"),
        ("hh:mm a", "01:02 PM", "1970-01-01 18:02:00"),
        ("hh:mm a", "12:00 am", "1970-01-01 05:00:00"),
        ("MMM d, yyyy", "JAN 5, 2024", "2024-01-05 05:00:00"),
        ("MMMM d, yyyy", "January 31, 2024", "2024-01-31 05:00:00"),
        ("dd.MM.yy", "31.01.70", "2070-01-31 05:00:00"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-01-31T12:34:56+01:00", "2024-01-31 11:34:56"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-01-31T12:34:56Z", "2024-01-31 12:34:56"),
        ("yyyy-MM-dd'T'HH:mm:ss VV", "2024-01-31T12:34:56 Europe/Paris", "2024-01-31 11:34:56"),
        ("yyyy-MM-dd HH:mm:ss z", "2024-01-31 12:34:56 PST", "2024-01-31 20:34:56"),
        ("yyyy-MM-dd HH:mm:ss z", "2024-07-31 12:34:56 IST", "2024-07-31 11:34:56"),
        ("D:dd", "135:15", "1970-05-15 04:00:00"),
        ("D:dd", "135:16", None),
        ("yyyy D:MM", "2024 32:02", "2024-02-01 05:00:00"),
        ("kk:mm", "24:00", "1970-01-01 05:00:00"),
        ("yyyy", "2024", "2024-01-01 05:00:00"),
    ],
)
def test_read_texts(pattern: str, text: str, expected: str | None) -> None:
    assert read(pattern, text) == [expected]


def test_rows_with_different_zones_and_none() -> None:
    texts = ("2024-01-31 +01:00", "2024-01-31", "2024-01-31 Z", "2024-01-31 +99:00")
    assert read("yyyy-MM-dd[ XXX]", *texts) == [
        "2024-01-30 23:00:00",
        "2024-01-31 05:00:00",
        "2024-01-31 00:00:00",
        None,
    ]


def test_patterns_without_fields() -> None:
    assert read("'now'", "NOW", "then") == ["1970-01-01 05:00:00", None]


def test_names_of_zones_that_only_java_has() -> None:
    assert read("z", "foo") == [None]
    for pattern, text in (("z", "AEST"), ("zzzz", "Pacific Standard Time")):
        with pytest.raises(UnsupportedError):
            read(pattern, text)


def test_years_that_no_timestamp_has() -> None:
    with pytest.raises(SparkError, match="ArithmeticException"):
        read("y", "20240131")
