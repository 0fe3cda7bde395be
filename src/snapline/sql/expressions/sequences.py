"""`sequence`: arrays of numbers, dates or timestamps between two bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.array_functions import MAX_LENGTH, raise_too_long
from snapline.sql.expressions.calendar_days import DAY_US, Integers, truncated_division
from snapline.sql.expressions.calendar_intervals import interval_parts
from snapline.sql.expressions.integers import from_integers, integers
from snapline.sql.expressions.lists import list_array, ranges
from snapline.sql.expressions.local_times import plus_interval, session_zone, starts_of_days
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.values import Bools, of_arrays, valid
from snapline.sql.expressions.zone_offsets import Zone, zone
from snapline.sql.plans.trees import Expression

_MONTH_US = 28 * DAY_US
"""The shortest month, by which Spark estimates how many steps there may be."""


@kernel("Sequence")
def _sequence(expression: Expression) -> Kernel:
    element = expression.type.value_type
    if pa.types.is_integer(element):
        return of_arrays(lambda *arrays: _numbers(arrays, expression.type))
    name = expression.arguments.get("timeZoneId")
    is_date = pa.types.is_date(element)
    # Dates step as timestamps of the session's zone do.
    place = zone(name or "UTC") if is_date else session_zone(expression, element)
    return of_arrays(lambda *arrays: _times(arrays, expression.type, place))


def _numbers(arrays: tuple[pa.Array, ...], type: pa.DataType) -> pa.Array:
    there = valid(*arrays)
    start, stop, *given = (integers(array) for array in arrays)
    step = given[0] if given else np.where(start <= stop, 1, -1)
    counts = _counts(start, stop, step, there)
    rows = np.repeat(np.arange(len(start)), counts)
    data = start[rows] + ranges(np.zeros(len(start), np.int64), counts) * step[rows]
    elements = from_integers(data, np.ones(len(data), np.bool_), type.value_type)
    return list_array(elements, counts, there, type)


def _counts(start: Integers, stop: Integers, step: Integers, there: Bools) -> Integers:
    right = ((step > 0) & (start <= stop)) | ((step < 0) & (start >= stop)) | ((step == 0) & (start == stop))
    if not right[there].all():
        raise_illegal_boundaries()
    divisor = np.where(step == 0, 1, step)
    counts = np.where(there, (stop - start) // divisor + 1, 0)
    if counts.max(initial=0) > MAX_LENGTH or (there & ((stop > start) != (stop - start > 0))).any():
        raise_too_long()
    return counts


def raise_illegal_boundaries() -> None:
    """Raise what Spark does if the steps never lead from the start to the stop."""
    raise SparkError("IllegalArgumentException", "requirement failed: Illegal sequence boundaries")


def _times(arrays: tuple[pa.Array, ...], type: pa.DataType, place: Zone) -> pa.Array:
    there = valid(*arrays)
    element = type.value_type
    is_date = pa.types.is_date(element)
    bounds = [integers(array) for array in arrays[:2]]
    start, stop = (starts_of_days(bound, place) for bound in bounds) if is_date else bounds
    months, days, micros = _step(arrays, start, stop)
    if is_date and (there & (months == 0) & (days == 0)).any():
        raise SparkError("_LEGACY_ERROR_TEMP_3242", "sequence step must be an interval of whole days or months")
    if is_date and not micros.any() and not months.any():
        counts = _counts(bounds[0], bounds[1], days, there)
        rows = np.repeat(np.arange(len(start)), counts)
        data = bounds[0][rows] + ranges(np.zeros(len(start), np.int64), counts) * days[rows]
        return list_array(from_integers(data, np.ones(len(data), np.bool_), element), counts, there, type)
    size = months * _MONTH_US + days * DAY_US + micros
    # Days of local time may be shorter than others, so there may be one more than their size says.
    upper = _counts(start, stop, size, there) + (there & (days != 0))
    rows = np.repeat(np.arange(len(start)), upper)
    number = ranges(np.zeros(len(start), np.int64), upper)
    data = plus_interval(start[rows], months[rows] * number, days[rows] * number, micros[rows] * number, place)
    inside = np.where(size[rows] >= 0, data <= stop[rows], data >= stop[rows])
    data = data[inside]
    if is_date:
        data = place.local(data) // DAY_US
    counts = np.bincount(rows[inside], minlength=len(start))
    return list_array(from_integers(data, np.ones(len(data), np.bool_), element), counts, there, type)


def _step(arrays: tuple[pa.Array, ...], start: Integers, stop: Integers) -> tuple[Integers, Integers, Integers]:
    none = np.zeros(len(start), np.int64)
    if len(arrays) < 3:
        return none, np.where(start <= stop, 1, -1), none
    step = arrays[2]
    if step.type == pa.month_day_nano_interval():
        return interval_parts(step)
    if pa.types.is_duration(step.type):
        micros = integers(step)
        days = truncated_division(micros, DAY_US)
        return none, days, micros - days * DAY_US
    return integers(step), none, none
