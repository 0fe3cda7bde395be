"""Arithmetic with timestamps in the local time of a zone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import DAY_US, Integers, plus_months
from snapline.sql.expressions.registry import SparkError
from snapline.sql.expressions.zone_offsets import UnknownZoneError, Zone, fixed, zone
from snapline.sql.plans.trees import Expression

UTC = fixed(0)


def session_zone(expression: Expression, type: pa.DataType) -> Zone:
    """The zone in which an expression reads values of this type: that of the session, or UTC where none matters."""
    name = expression.arguments.get("timeZoneId")
    return zone(name) if name and pa.types.is_timestamp(type) and type.tz else UTC


def named_zone(name: str) -> Zone:
    """The zone that a value names. Raises `SparkError`."""
    try:
        return zone(name)
    except UnknownZoneError as error:
        raise SparkError("INVALID_TIMEZONE", f"The timezone: {name} is invalid.") from error


def moved(times: Integers, place: Zone, move: Callable[[Integers], Integers]) -> Integers:
    """Times after `move` of their local times. Where a local time occurs twice, the offset stays as it was."""
    offsets = place.offsets(times)
    local = move(times + offsets)
    kept = local - offsets
    return np.where(place.offsets(kept) == offsets, kept, place.utc(local))


def local_days(times: Integers, place: Zone) -> Integers:
    """The local day of each time."""
    return place.local(times) // DAY_US


def starts_of_days(days: Integers, place: Zone) -> Integers:
    """When each day begins."""
    return place.utc(days * DAY_US)


def with_months_added(local: Integers, months: Integers) -> Integers:
    """Local times in other months; the time of day stays."""
    days = local // DAY_US
    return plus_months(days, months) * DAY_US + (local - days * DAY_US)


def plus_interval(times: Integers, months: Integers, days: Integers, micros: Integers, place: Zone) -> Integers:
    """Times after months, then days of local time, then microseconds."""
    if months.any():
        times = moved(times, place, lambda local: with_months_added(local, months))
    if days.any():
        times = moved(times, place, lambda local: local + days * DAY_US)
    return times + micros
