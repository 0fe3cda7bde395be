"""Texts that Spark reads as dates and timestamps."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import numpy as np

from snapline.sql.expressions.number_strings import SPACES
from snapline.sql.expressions.zone_offsets import UnknownZoneError, Zone, zone

_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
_TIME = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?"
_TIMESTAMP = re.compile(rf"([+-]?)(\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_TIME})?)?)?", re.DOTALL | re.ASCII)
_TIME_ONLY = re.compile(
    r"(?:T(\d{1,2})|(\d{1,2})(?=:))(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?", re.DOTALL | re.ASCII
)

_DAY_US = 86_400_000_000
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH_DAYS = 719_468


def days(year: int, month: int, day: int) -> int | None:
    """Days since 1970 in the calendar of today, for any year; None if there is no such day."""
    if not 1 <= month <= 12 or day < 1:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _MONTH_DAYS[month - 1] + (1 if leap and month == 2 else 0):
        return None
    # Years that begin in March have their leap day at the end.
    year -= month < 3
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + day_of_year - _EPOCH_DAYS


def date_days(text: str) -> int | None:
    """The date of a text, as days since 1970, or None."""
    match = _DATE.fullmatch(text.strip(SPACES))
    if match is None:
        return None
    sign, year, month, day = match.groups()
    return days(int(sign + year), int(month or 1), int(day or 1))


def timestamp_us(text: str, session: Zone) -> int | None:
    """The timestamp of a text, in the zone that it names or else in that of the session, or None."""
    found = _local_us(text, lambda: int(session.local(np.array([time.time_ns() // 1000]))[0] // _DAY_US))
    if found is None:
        return None
    local, zone_name = found
    if zone_name is not None:
        named = text_zone(zone_name)
        if named is None:
            return None
        session = named
    if abs(local) > 2**63 - _DAY_US:
        return None
    return int(session.utc(np.array([local]))[0])


def local_timestamp_us(text: str, zones: bool = True) -> int | None:
    """The timestamp without time zone of a text, or None; a zone in it is disregarded if `zones` may be in it."""
    found = _local_us(text, None)
    if found is None or (found[1] is not None and (not zones or text_zone(found[1]) is None)):
        return None
    return found[0] if -(2**63) <= found[0] < 2**63 else None


def text_zone(name: str) -> Zone | None:
    """The time zone that a text names after a time, or None."""
    try:
        return zone(name.strip(SPACES))
    except UnknownZoneError:
        return None


def _local_us(text: str, today: Callable[[], int] | None) -> tuple[int, str | None] | None:
    text = text.strip(SPACES)
    if match := _TIMESTAMP.fullmatch(text):
        sign, year, month, day, *clock, zone_name = match.groups()
        whole = days(int(sign + year), int(month or 1), int(day or 1))
    elif today is not None and (match := _TIME_ONLY.fullmatch(text)):
        first, second, *clock, zone_name = match.groups()
        clock = [first or second, *clock]
        whole = today()
    else:
        return None
    micros = _clock_us(*clock)
    if whole is None or micros is None:
        return None
    return whole * _DAY_US + micros, zone_name


def _clock_us(hour: str | None, minute: str | None, second: str | None, fraction: str | None) -> int | None:
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = int((fraction or "")[:6].ljust(6, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
