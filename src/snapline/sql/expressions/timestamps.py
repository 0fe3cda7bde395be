"""Functions of timestamps: fields, truncation, arithmetic with units, numbers since 1970, time zones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.calendar_days import DAY_US, Integers, months_of, truncated_division
from snapline.sql.expressions.dates import by_unit, truncated_days, truncation_level
from snapline.sql.expressions.frame import Frame, Value
from snapline.sql.expressions.integers import Computed, by_text, strict, strict_array
from snapline.sql.expressions.local_times import (
    local_days,
    moved,
    named_zone,
    plus_interval,
    session_zone,
    starts_of_days,
)
from snapline.sql.expressions.registry import Evaluator, Kernel, SparkError, form, kernel
from snapline.sql.expressions.unscaled import digits, wide
from snapline.sql.expressions.values import Bools, first, of_arrays, valid, with_nulls
from snapline.sql.expressions.zone_offsets import Zone, zone
from snapline.sql.plans.trees import Expression

SECOND_US = 1_000_000
_SIZES_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": SECOND_US,
    "MINUTE": 60 * SECOND_US,
    "HOUR": 3600 * SECOND_US,
    "DAY": DAY_US,
    "DAYOFYEAR": DAY_US,
    "WEEK": 7 * DAY_US,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}

_FIELDS: dict[str, Callable[[Integers], Integers]] = {
    "Hour": lambda local: local // _SIZES_US["HOUR"] % 24,
    "Minute": lambda local: local // _SIZES_US["MINUTE"] % 60,
    "Second": lambda local: local // SECOND_US % 60,
    "SecondWithFraction": lambda local: local % _SIZES_US["MINUTE"],
}


@kernel(*_FIELDS)
def _field(expression: Expression) -> Kernel:
    field = _FIELDS[expression.kind]
    place = session_zone(expression, expression.children[0].type)
    if not pa.types.is_decimal(expression.type):
        return strict(lambda times: field(place.local(times)), expression.type)
    micros = strict(lambda times: field(place.local(times)), pa.int64())
    return lambda values, rows: decimal_seconds(micros(values, rows), expression.type)


def decimal_seconds(micros: Value, type: pa.DataType) -> Value:
    """Microseconds as seconds with six decimals."""
    return pc.multiply(pc.cast(micros, pa.decimal128(19, 0)), pa.scalar("0.000001").cast(pa.decimal128(6, 6))).cast(
        type
    )


@form("TruncTimestamp")
def _truncated(expression: Expression, compiled: Callable[[Expression], Evaluator]) -> Evaluator:
    place = session_zone(expression, expression.type)
    unit, times = (compiled(child) for child in expression.children)
    return by_unit(unit, times, lambda text: _truncation(text, place), expression)


def _truncation(text: str, place: Zone) -> Callable[[Integers], Integers] | None:
    level = truncation_level(text)
    if level is not None:
        return lambda times: starts_of_days(truncated_days(level, local_days(times, place)), place)
    unit = "DAY" if text.upper() == "DD" else text.upper()
    if unit not in _SIZES_US or unit == "DAYOFYEAR":
        return None
    size = _SIZES_US[unit]
    if size <= SECOND_US:
        return lambda times: times - times % size
    return lambda times: moved(times, place, lambda local: local - local % size)


@kernel("TimestampAdd")
def _plus_units(expression: Expression) -> Kernel:
    unit = str(expression.arguments["unit"]).upper()
    place = session_zone(expression, expression.type)

    def compute(counts: Integers, times: Integers) -> Computed:
        none = np.zeros(len(times), np.int64)
        if unit in _MONTHS:
            months = counts * _MONTHS[unit]
            _check(np.abs(months) < 2**31)
            _check(np.abs(months + months_of(times // DAY_US)) < 12 * 300_000)
            return plus_interval(times, months, none, none, place)
        size = _SIZES_US[unit]
        _check(np.abs(counts) <= (2**63 - 1) // size)
        if size >= DAY_US:
            try:
                return plus_day_time(times, counts * size, place)
            except SparkError:
                _raise_overflow()
        result = times + counts * size
        _check((result >= times) == (counts >= 0))
        return result

    return strict(compute, expression.type)


def plus_day_time(times: Integers, micros: Integers, place: Zone) -> Integers:
    """Times after whole days of local time, then what is left of the interval."""
    days = truncated_division(micros, DAY_US)
    result = plus_interval(times, np.zeros(len(times), np.int64), days, micros - days * DAY_US, place)
    fits = ((result >= times) == (micros >= 0)) & (np.abs(result - times - micros) < 2 * DAY_US)
    if not fits.all():
        raise SparkError("ArithmeticException", "long overflow")
    return result


def _check(*conditions: npt.NDArray[np.bool_]) -> None:
    for condition in conditions:
        if not condition.all():
            _raise_overflow()


def _raise_overflow() -> NoReturn:
    raise SparkError("DATETIME_OVERFLOW", "Datetime operation overflow.")


@kernel("TimestampDiff")
def _units_between(expression: Expression) -> Kernel:
    unit = str(expression.arguments["unit"]).upper()
    place = session_zone(expression, expression.children[0].type)

    def compute(start: Integers, end: Integers) -> Computed:
        first, last = place.local(start), place.local(end)
        if unit in _SIZES_US:
            return np.asarray(truncated_division(last - first, _SIZES_US[unit]))
        return np.asarray(truncated_division(_whole_months(first, last), _MONTHS[unit]))

    return strict(compute, expression.type)


def _whole_months(first: Integers, last: Integers) -> Integers:
    """Months from the first local time to the last, rounded towards zero."""
    day, time_of_day = first // DAY_US, first % DAY_US
    other, other_time = last // DAY_US, last % DAY_US
    other = other - ((other > day) & (other_time < time_of_day)) + ((other < day) & (other_time > time_of_day))
    packed, other_packed = (
        months * 32 + date - months.astype("M8[M]").astype("M8[D]").astype(np.int64)
        for date, months in ((day, months_of(day)), (other, months_of(other)))
    )
    return np.asarray(truncated_division(other_packed - packed, 32))


@kernel("UnixSeconds", "UnixMillis", "UnixMicros")
def _since_1970(expression: Expression) -> Kernel:
    size = {"UnixSeconds": SECOND_US, "UnixMillis": 1000, "UnixMicros": 1}[expression.kind]
    return strict(lambda times: times // size, expression.type)


@kernel("SecondsToTimestamp", "MillisToTimestamp", "MicrosToTimestamp")
def _from_number(expression: Expression) -> Kernel:
    size = {"SecondsToTimestamp": SECOND_US, "MillisToTimestamp": 1000, "MicrosToTimestamp": 1}[expression.kind]
    source = expression.children[0].type
    if pa.types.is_floating(source):
        return of_arrays(lambda numbers: _from_floats(numbers, expression.type))
    if pa.types.is_decimal(source):
        return of_arrays(lambda numbers: _from_decimals(numbers, expression.type))

    def compute(numbers: Integers) -> Computed:
        if size > 1 and (np.abs(numbers.astype(np.float64)) * size >= 2.0**63).any():
            _raise_overflow()
        return numbers * size

    return strict(compute, expression.type)


def _from_floats(numbers: pa.Array, type: pa.DataType) -> pa.Array:
    data = np.asarray(numbers.cast(pa.float64()).fill_null(np.nan)) * SECOND_US
    there = np.isfinite(data)
    data = np.where(there, data, 0.0)
    inside = np.abs(data) < 2.0**63
    limits = np.where(data < 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    whole = np.where(inside, np.trunc(np.where(inside, data, 0.0)).astype(np.int64), limits)
    return pa.array(whole, pa.int64(), mask=~there).view(type)


def _from_decimals(numbers: pa.Array, type: pa.DataType) -> pa.Array:
    places = numbers.type.scale - 6
    given = wide(digits(numbers)) * 10 ** max(-places, 0)
    micros = given // 10 ** max(places, 0)
    overflows = exceeds_long(micros)
    inexact = micros * 10 ** max(places, 0) != given
    if (overflows | inexact).any():
        if overflows[first(overflows | inexact)]:
            _raise_overflow()
        raise SparkError("ArithmeticException", "Rounding necessary")
    return with_nulls(micros.astype(np.int64), valid(numbers), pa.int64()).view(type)


def exceeds_long(values: npt.NDArray[Any]) -> Bools:
    """Which of Python's integers do not fit 64 bits."""
    return np.array([not -(2**63) <= value < 2**63 for value in values.tolist()], np.bool_)


@kernel("FromUTCTimestamp", "ToUTCTimestamp")
def _between_utc_and_zone(expression: Expression) -> Kernel:
    from_utc = expression.kind == "FromUTCTimestamp"

    def make(name: str) -> Callable[..., pa.Array]:
        def compute(times: pa.Array) -> pa.Array:
            if times.null_count == len(times):
                return times
            place = named_zone(name)
            return strict_array(_shift(place.local if from_utc else place.utc), [times], expression.type)

        return compute

    return by_text(1, make, expression.type)


def _shift(move: Callable[[Integers], Integers]) -> Callable[[Integers], Integers]:
    """The same function with an error where the result does not fit."""

    def shifted(times: Integers) -> Integers:
        result = move(times)
        if _has_wrapped(result, times).any():
            raise SparkError("ArithmeticException", "long overflow")
        return result

    return shifted


def _has_wrapped(moved: Integers, times: Integers) -> Bools:
    """Which of times that were moved by some hours did not fit 64 bits."""
    return np.asarray(np.abs(moved.astype(np.float64) - times) > 2 * DAY_US)


@kernel("ConvertTimezone")
def _between_zones(expression: Expression) -> Kernel:
    def into(target: str) -> Callable[..., pa.Array]:
        def compute(sources: pa.Array, times: pa.Array) -> pa.Array:
            there = times.is_valid()
            known = pc.if_else(there, sources, pa.scalar(None, pa.string()))
            # An unknown zone is an error before one that the time does not fit.
            for name in (*known.unique().drop_null().to_pylist(), *([target] if known.null_count < len(known) else [])):
                named_zone(name)
            utc = by_text(0, _to_utc, expression.type)([known, times], len(times))
            if utc.null_count == len(utc):
                return utc
            return strict_array(_from_utc(target), [utc, times], expression.type)

        return compute

    def _to_utc(name: str) -> Callable[[pa.Array], pa.Array]:
        def compute(times: pa.Array) -> pa.Array:
            return strict_array(named_zone(name).utc, [times], expression.type)

        return compute

    def _from_utc(name: str) -> Callable[[Integers, Integers], Integers]:
        def compute(utc: Integers, times: Integers) -> Integers:
            # Only the result has to fit: UTC in between may have wrapped, and wraps back.
            near = np.where(_has_wrapped(utc, times), times, utc)
            result = utc + named_zone(name).offsets(near)
            if _has_wrapped(result, times).any():
                raise SparkError("ArithmeticException", "long overflow")
            return np.asarray(result)

        return compute

    return by_text(1, into, expression.type)


@form("CurrentTimestamp", "Now", "CurrentBatchTimestamp", "LocalTimestamp", "CurrentDate")
def _processing_time(expression: Expression, _compiled: Any) -> Evaluator:
    name = expression.arguments.get("timeZoneId")
    place = zone(name) if name else zone("UTC")
    type = expression.type

    def evaluate(frame: Frame) -> Value:
        now = np.array([frame.now_us], np.int64)
        if pa.types.is_timestamp(type) and type.tz:
            return pa.scalar(int(now[0]), pa.int64()).cast(type)
        local = int(place.local(now)[0])
        if pa.types.is_timestamp(type):
            return pa.scalar(local, pa.int64()).cast(type)
        return pa.scalar(local // DAY_US, pa.int32()).cast(type)

    return evaluate


@kernel("PreciseTimestampConversion")
def _same_integers(expression: Expression) -> Kernel:
    return strict(lambda times: times, expression.type)


@kernel("WindowTime")
def _last_moment_of_window(expression: Expression) -> Kernel:
    return _end_of_window(expression.type)


def _end_of_window(type: pa.DataType) -> Kernel:
    def compute(windows: pa.Array) -> pa.Array:
        ends = pc.struct_field(windows, "end")
        return strict_array(lambda times: times - 1, [ends], type)

    return of_arrays(compute)
