from __future__ import annotations

import datetime as dt
import zoneinfo

import numpy as np
import pytest

from snapline.sql.expressions.zone_offsets import UnknownZoneError, zone

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "name", ["America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca"]
)
def test_offsets_of_all_years(name: str) -> None:
    moments = np.arange(-62_000_000_000, 253_000_000_000, 7_777_777)
    expected = [
        int((EPOCH + dt.timedelta(seconds=int(moment))).astimezone(zoneinfo.ZoneInfo(name)).utcoffset().total_seconds())  # type: ignore[union-attr]
        for moment in moments
    ]
    assert (zone(name).offsets(moments * 1_000_000) // 1_000_000).tolist() == expected


def test_local_times_that_are_skipped_or_occur_twice() -> None:
    berlin = zone("Europe/Berlin")
    # 02:30 on 29 March 2026 is skipped and counts as 03:30; 02:30 on 25 October occurs twice.
    local = np.array([1_774_751_400_000_000, 1_792_895_400_000_000])
    assert berlin.utc(local).tolist() == [1_774_747_800_000_000, 1_792_888_200_000_000]


def test_offsets_as_names() -> None:
    for name, offset_s in (("+02:00", 7200), ("UTC-3", -10800), ("GMT+01:30", 5400), ("Z", 0), ("EST", -18000)):
        assert zone(name).offsets(np.array([0])).tolist() == [offset_s * 1_000_000]


@pytest.mark.parametrize("name", ["Nowhere/Else", "../etc/passwd", "+19:00", ""])
def test_unknown_zones(name: str) -> None:
    with pytest.raises(UnknownZoneError):
        zone(name)


def test_times_before_the_table_have_the_first_offset() -> None:
    assert zone("Europe/Paris").offsets(np.array([-(2**63)])).tolist() == [561_000_000]


def test_hours_and_minutes_of_one_digit() -> None:
    assert zone("+7:5").offsets(np.array([0])).tolist() == [(7 * 60 + 5) * 60_000_000]


@pytest.mark.parametrize(
    "name", ["-033:30", "+08:000", "\n+08:00", "America/New_York ", "utc", "posix/UTC", "localtime"]
)
def test_names_that_java_does_not_take(name: str) -> None:
    with pytest.raises(UnknownZoneError):
        zone(name)
