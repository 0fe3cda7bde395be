"""Dates and timestamps plus and minus intervals, and the intervals between them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import DAY_US, Integers, months_of, plus_months
from snapline.sql.expressions.calendar_intervals import from_parts, interval_parts
from snapline.sql.expressions.integers import Computed, from_integers, integers, strict
from snapline.sql.expressions.local_times import (
    local_days,
    moved,
    plus_interval,
    session_zone,
    starts_of_days,
    with_months_added,
)
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.timestamps import plus_day_time
from snapline.sql.expressions.values import of_arrays, valid
from snapline.sql.expressions.zone_offsets import zone
from snapline.sql.plans.trees import Expression

_FARTHEST_MONTHS = 12 * 290_000
"""Timestamps end before this many months from 1970."""


@kernel("TimestampAddInterval", "TimeAdd")
def _plus_interval(expression: Expression) -> Kernel:
    place = session_zone(expression, expression.type)
    if pa.types.is_duration(expression.children[1].type):
        return strict(lambda times, micros: plus_day_time(times, micros, place), expression.type)

    def compute(times: pa.Array, intervals: pa.Array) -> pa.Array:
        there = valid(times, intervals)
        months, days, micros = (np.where(there, part, 0) for part in interval_parts(intervals))
        start = np.where(there, integers(times), 0)
        _check_months(start, months)
        return from_integers(plus_interval(start, months, days, micros, place), there, expression.type)

    return of_arrays(compute)


def _check_months(times: Integers, months: Integers) -> None:
    if (np.abs(months_of(times // DAY_US) + months) > _FARTHEST_MONTHS).any():
        raise SparkError("ArithmeticException", "long overflow")


@kernel("TimestampAddYMInterval")
def _plus_months(expression: Expression) -> Kernel:
    place = session_zone(expression, expression.type)

    def compute(times: Integers, months: Integers) -> Computed:
        _check_months(times, months)
        return moved(times, place, lambda local: with_months_added(local, months))

    return strict(compute, expression.type)


@kernel("DateAddInterval")
def _date_plus_interval(expression: Expression) -> Kernel:
    name = expression.arguments.get("timeZoneId")
    place = zone(name or "UTC")
    fails = bool(expression.arguments.get("ansiEnabled"))

    def compute(dates: pa.Array, intervals: pa.Array) -> pa.Array:
        there = valid(dates, intervals)
        months, days, micros = (np.where(there, part, 0) for part in interval_parts(intervals))
        start = np.where(there, integers(dates), 0)
        if not micros.any():
            return from_integers(plus_months(start, months) + days, there, expression.type)
        if fails:
            message = "Cannot add an interval to a date because its microseconds part is not 0."
            raise SparkError("INVALID_INTERVAL_WITH_MICROSECONDS_ADDITION", message)
        moments = plus_interval(starts_of_days(start, place), months, days, micros, place)
        return from_integers(local_days(moments, place), there, expression.type)

    return of_arrays(compute)


@kernel("SubtractTimestamps")
def _between(expression: Expression) -> Kernel:
    if expression.type == pa.month_day_nano_interval():
        return of_arrays(_calendar_interval_between)
    place = session_zone(expression, expression.children[0].type)
    return strict(lambda end, start: place.local(end) - place.local(start), expression.type)


def _calendar_interval_between(ends: pa.Array, starts: pa.Array) -> pa.Array:
    none = np.zeros(len(ends), np.int64)
    there = valid(ends, starts)
    return from_parts(none, none, np.where(there, integers(ends) - integers(starts), 0), there)
