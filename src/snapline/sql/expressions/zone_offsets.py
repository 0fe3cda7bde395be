"""Time zones on whole arrays: from UTC to local time and back, as Java does it, for all years."""

from __future__ import annotations

import re
import struct
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
"""Microseconds since 1970, in UTC or in local time."""

_SECOND_US = 1_000_000
_YEARS_400_S = 146_097 * 86_400
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9])|([0-9]{2})(?:([0-9]{2})([0-9]{2})?|:([0-9]{2})(?::([0-9]{2}))?)?)"
)
_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
_LINKS = {
    "EST5EDT": "America/New_York", "CST6CDT": "America/Chicago", "MST7MDT": "America/Denver",
    "PST8PDT": "America/Los_Angeles", "CET": "Europe/Brussels", "MET": "Europe/Brussels", "EET": "Europe/Athens",
    "WET": "Europe/Lisbon",
}  # fmt: skip
"""Other names of regions since version 2024b of the time zone database, which this machine's may be older than."""
_NOT_IN_JAVA = frozenset({"Factory", "ROC", "localtime", "posixrules"})
_SINGLE_HOUR = re.compile(r"([+-])([0-9]):")
_SINGLE_MINUTE = re.compile(r"([+-][0-9]{2}):([0-9])$")


class UnknownZoneError(Exception):
    """There is no such time zone."""


class Zone:
    """The offsets of one time zone: `offsets_s[n]` holds from `starts_s[n]` on, both in seconds.

    With `repeats`, the last 400 years of the table come again and again after it.
    """

    def __init__(self, starts_s: Times, offsets_s: Times, *, repeats: bool = False) -> None:
        self._repeats = repeats
        self._starts_us = starts_s * _SECOND_US
        self._offsets_us = offsets_s * _SECOND_US
        # In local time, a new offset begins where the clock stood before it changed or where it was put to, whichever
        # is later: a time that occurs twice counts as the first, and a skipped one is read with the offset before the
        # gap, which moves it on.
        before = np.concatenate([offsets_s[:1], offsets_s[:-1]])
        self._local_starts_us = self._starts_us + np.maximum(before, offsets_s) * _SECOND_US

    def offsets(self, utc: Times) -> Times:
        """What to add to UTC to get local time, in microseconds."""
        if len(self._starts_us) == 1:
            return np.full(len(utc), self._offsets_us[0])
        number = np.searchsorted(self._starts_us, self._folded(utc), side="right") - 1
        return self._offsets_us[np.maximum(number, 0)]

    def local(self, utc: Times) -> Times:
        """Local times."""
        return utc + self.offsets(utc)

    def utc(self, local: Times) -> Times:
        """UTC of local times: the earlier one of two, and a skipped one moved on by the length of the gap."""
        if len(self._starts_us) == 1:
            return np.asarray(local - self._offsets_us[0])
        number = np.searchsorted(self._local_starts_us, self._folded(local), side="right") - 1
        return local - self._offsets_us[np.maximum(number, 0)]

    def _folded(self, times: Times) -> Times:
        """Times beyond the table moved into its last 400 years, after which the calendar repeats."""
        last = self._starts_us[-1]
        beyond = times >= last
        if not self._repeats or not beyond.any():
            return times
        cycle = _YEARS_400_S * _SECOND_US
        return np.where(beyond, last - cycle + (times - last) % cycle, times)


def fixed(offset_s: int) -> Zone:
    """The zone with this offset from UTC at all times."""
    return Zone(np.array([-(2**43)]), np.array([offset_s]))


@cache
def zone(name: str) -> Zone:
    """The time zone of a region, or of an offset such as `+02:00` or `UTC-3`. Raises `UnknownZoneError`."""
    name = _SINGLE_HOUR.sub(r"\g<1>0\2:", name, count=1)
    name = _SINGLE_MINUTE.sub(r"\1:0\2", name, count=1)
    name = _SHORT.get(name) or _LINKS.get(name, name)
    if name in ("UTC", "Z", "GMT", "UT"):
        return fixed(0)
    if match := _OFFSET.fullmatch(name):
        sign, short_hour, hour, *parts = match.groups()
        hours = int(short_hour or hour)
        minutes, seconds = int(parts[0] or parts[2] or 0), int(parts[1] or parts[3] or 0)
        if hours > 18 or minutes > 59 or seconds > 59 or hours * 3600 + minutes * 60 + seconds > 18 * 3600:
            raise UnknownZoneError(f"the offset {name} is not between -18:00 and +18:00")
        return fixed((hours * 3600 + minutes * 60 + seconds) * (1 if sign == "+" else -1))
    data = _file(name)
    starts, offsets = _table(data)
    repeats = b"," in data.rstrip(b"\n").rpartition(b"\n")[2]
    if repeats:
        _extend(starts, offsets, zoneinfo.ZoneInfo(name))
    return Zone(np.array(starts, np.int64), np.array(offsets, np.int64), repeats=repeats)


def _file(name: str) -> bytes:
    is_name = re.fullmatch(r"[A-Za-z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+)*", name)
    if not is_name or name in _NOT_IN_JAVA or name.partition("/")[0] in ("posix", "right"):
        raise UnknownZoneError(f"{name} is not the name of a time zone")
    for folder in zoneinfo.TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    try:
        return (resources.files("tzdata") / "zoneinfo" / name).read_bytes()
    except (ModuleNotFoundError, OSError) as error:
        raise UnknownZoneError(f"there is no time zone {name}") from error


def _table(data: bytes) -> tuple[list[int], list[int]]:
    """Starts and offsets from a file in TZif format."""
    if data[:4] != b"TZif" or data[4:5] < b"2":
        raise UnknownZoneError("the file of the time zone has no 64-bit times")
    skipped = struct.unpack(">6l", data[20:44])
    at = 44 + skipped[3] * 5 + skipped[4] * 6 + skipped[5] + skipped[2] * 8 + skipped[1] + skipped[0]
    _, _, _, count, types, _ = struct.unpack(">6l", data[at + 20 : at + 44])
    at += 44
    times = struct.unpack(f">{count}q", data[at : at + 8 * count])
    at += 8 * count
    indices = data[at : at + count]
    at += count
    kinds = [struct.unpack(">lbb", data[at + 6 * n : at + 6 * n + 6]) for n in range(types)]
    first = next((kind[0] for kind in kinds if not kind[1]), kinds[0][0])
    starts, offsets = [-(2**43)], [kinds[0][0] if not kinds[0][1] else first]
    for start, index in zip(times, indices, strict=True):
        if kinds[index][0] != offsets[-1]:
            starts.append(start)
            offsets.append(kinds[index][0])
    return starts, offsets


def _extend(starts: list[int], offsets: list[int], region: zoneinfo.ZoneInfo) -> None:
    """Append the changes of 400 years and more after the last one, as the rule of the region has them."""

    def offset(time_s: int) -> int:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time_s)
        delta = moment.astimezone(region).utcoffset()
        assert delta is not None
        return int(delta.total_seconds())

    step, quarter = 20 * 86_400, 900
    end = int(datetime(2500, 1, 1, tzinfo=UTC).timestamp())
    low = (max(starts[-1], 0) // 86_400 + 1) * 86_400
    known = offset(low)
    while low < end:
        high = low + step
        next_known = offset(high)
        if next_known != known:
            # Rules change clocks at quarters of an hour.
            left, right = low // quarter, high // quarter
            while right - left > 1:
                middle = (left + right) // 2
                left, right = (middle, right) if offset(middle * quarter) == known else (left, middle)
            starts.append(right * quarter)
            offsets.append(next_known)
        low, known = high, next_known
    starts.append(end)
    offsets.append(offsets[-1])
