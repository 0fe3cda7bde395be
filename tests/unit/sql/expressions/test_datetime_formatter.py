"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import numpy as np
import pytest

from snapline.sql.expressions.datetime_formatter import Formatter, offset_text, zone_text
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.expressions.zone_offsets import zone

NAME = "America/New_York"
TIMES = np.array([1_706_704_496_789_123, -62_135_424_000_000_000, 253_402_127_999_999_999, 1_720_137_909_000_001])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", ["2024-01-31 07:34:56.789", "0001-01-02 19:03:58.000", "9999-12-29 18:59:59.999",
                                     "2024-07-04 20:05:09.000"]),
        ("E EEE EEEE", ["Wed Wed Wednesday", "Tue Tue Tuesday", "Wed Wed Wednesday", "Thu Thu Thursday"]),
        ("M MM MMM MMMM", ["1 01 Jan January", "1 01 Jan January", "12 12 Dec December", "7 07 Jul July"]),
        ("D DDD", ["31 031", "2 002", "363 363", "186 186"]),
        ("y yy yyy yyyy yyyyy", ["2024 24 2024 2024 02024", "1 01 001 0001 00001", "9999 99 9999 9999 09999",
                                 "2024 24 2024 2024 02024"]),
        ("Q QQ QQQ QQQQ", ["1 01 Q1 1st quarter", "1 01 Q1 1st quarter", "4 04 Q4 4th quarter", "3 03 Q3 3rd quarter"]),
        ("S SS SSSSSSSSS", ["7 78 789123000", "0 00 000000000", "9 99 999999000", "0 00 000001000"]),
        ("K k kk", ["7 7 07", "7 19 19", "6 18 18", "8 20 20"]),
        ("h a", ["7 AM", "7 PM", "6 PM", "8 PM"]),
        ("F", ["3", "2", "1", "4"]),
        ("O OOOO", ["GMT-5 GMT-05:00", "GMT-4:56:02 GMT-04:56:02", "GMT-5 GMT-05:00", "GMT-4 GMT-04:00"]),
        ("X XX XXX XXXX XXXXX", ["-05 -0500 -05:00 -0500 -05:00", "-0456 -0456 -04:56 -045602 -04:56:02",
                                 "-05 -0500 -05:00 -0500 -05:00", "-04 -0400 -04:00 -0400 -04:00"]),
        ("Z ZZZ ZZZZ ZZZZZ", ["-0500 -0500 GMT-05:00 -05:00", "-0456 -0456 GMT-04:56:02 -04:56:02",
                              "-0500 -0500 GMT-05:00 -05:00", "-0400 -0400 GMT-04:00 -04:00"]),
        ("z", ["EST", "EST", "EST", "EDT"]),
        ("'at' VV", ["at America/New_York"] * 4),
        ("", [""] * 4),
    ],
)  # fmt: skip
def test_written_times(pattern: str, expected: list[str]) -> None:
    assert Formatter(pattern).texts(TIMES, zone(NAME), NAME).to_pylist() == expected


def test_years_outside_four_digits() -> None:
    times = np.array([-62_198_755_200_000_000, 253_402_300_800_000_000])
    assert Formatter("yyyy").texts(times, zone("UTC"), "UTC").to_pylist() == ["-0001", "+10000"]
    assert Formatter("yyyy G").texts(times[:1], zone("UTC"), "UTC").to_pylist() == ["0002 BC"]


def test_offsets_of_zero() -> None:
    assert [offset_text(letter, count, 0) for letter, count in (("X", 3), ("x", 3), ("Z", 1), ("Z", 5), ("O", 1))] == [
        *("Z", "+00:00", "+0000", "Z", "GMT"),
    ]


def test_names_that_only_java_has() -> None:
    assert zone_text(0, "+08:00") == "+08:00"
    with pytest.raises(UnsupportedError):
        zone_text(0, "America/Sao_Paulo")
    with pytest.raises(UnsupportedError):
        Formatter("zzzz")


def test_names_of_zones_at_times_beyond_all_dates() -> None:
    assert zone_text(10**12, "UTC") == zone_text(-(10**12), "UTC") == "UTC"
