"""Functions of dates: their fields, arithmetic with days and months, truncation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import (
    DAY_US,
    Integers,
    days_from,
    days_of_month,
    days_of_year,
    first_days,
    iso_weeks,
    last_days,
    month_numbers,
    months_of,
    plus_months,
    weekdays,
    years_of,
)
from snapline.sql.expressions.calendar_intervals import from_parts
from snapline.sql.expressions.frame import Frame, Value, as_array, spread
from snapline.sql.expressions.input_limits import within_calendar
from snapline.sql.expressions.integers import Computed, by_text, integers, strict, strict_array
from snapline.sql.expressions.local_times import local_days, session_zone
from snapline.sql.expressions.registry import Evaluator, Kernel, SparkError, form, kernel
from snapline.sql.expressions.spark_errors import raise_overflow
from snapline.sql.expressions.values import of_arrays, valid
from snapline.sql.plans.trees import Expression

_FIELDS: dict[str, Callable[[Integers], Integers]] = {
    "Year": years_of,
    "Quarter": lambda days: (month_numbers(days) + 2) // 3,
    "Month": month_numbers,
    "DayOfMonth": days_of_month,
    "DayOfYear": days_of_year,
    "DayOfWeek": lambda days: (days + 4) % 7 + 1,
    "WeekDay": weekdays,
    "WeekOfYear": lambda days: iso_weeks(days)[1],
    "YearOfWeek": lambda days: iso_weeks(days)[0],
}

_DAYS = ("THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY")
_DAY_NAMES = {name[:size]: number for number, name in enumerate(_DAYS) for size in (2, 3, len(name))}

_MONTH_TEXTS = pa.array(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
_DAY_TEXTS = pa.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])

_LEVELS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    "WEEK": "WEEK",
}


def fails(expression: Expression) -> bool:
    """Whether wrong values are errors, not null."""
    return bool(expression.arguments.get("failOnError"))


@kernel(*_FIELDS)
def _field(expression: Expression) -> Kernel:
    field = _FIELDS[expression.kind]
    source = expression.children[0].type
    if not pa.types.is_timestamp(source):
        return strict(field, expression.type)
    place = session_zone(expression, source)
    return strict(lambda times: field(local_days(times, place)), expression.type)


@kernel("MonthName", "DayName")
def _name(expression: Expression) -> Kernel:
    names, numbers = (_MONTH_TEXTS, month_numbers) if expression.kind == "MonthName" else (_DAY_TEXTS, weekdays)
    shift = 1 if expression.kind == "MonthName" else 0
    numbered = strict(lambda days: numbers(days) - shift, pa.int32())

    def compute(values: Sequence[Value], rows: int) -> Value:
        found = numbered(values, rows)
        return (
            names.take(found) if isinstance(found, pa.Array) else names.take(pa.array([found.as_py()], pa.int32()))[0]
        )

    return compute


@kernel("LastDay")
def _last_day(expression: Expression) -> Kernel:
    return strict(last_days, expression.type)


@kernel("NextDay")
def _next_day(expression: Expression) -> Kernel:
    def make(name: str) -> Callable[..., pa.Array]:
        number = _DAY_NAMES.get(name.upper())

        def compute(dates: pa.Array) -> pa.Array:
            if number is not None:
                return strict_array(lambda days: days + 1 + (number - 1 - days) % 7, [dates], expression.type)
            if fails(expression) and dates.null_count < len(dates):
                raise SparkError("ILLEGAL_DAY_OF_WEEK", f"Illegal input for day of week: {name}.")
            return pa.nulls(len(dates), expression.type)

        return compute

    return by_text(1, make, expression.type)


@kernel("AddMonths", "DateAddYMInterval")
def _add_months(expression: Expression) -> Kernel:
    def compute(days: Integers, months: Integers) -> Computed:
        result = plus_months(days, months)
        if len(result) and (result.max() > 2**31 - 1 or result.min() < -(2**31)):
            raise_overflow(pa.int32(), "+")
        return result

    return strict(compute, expression.type)


@kernel("DateAdd", "DateSub")
def _add_days(expression: Expression) -> Kernel:
    sign = 1 if expression.kind == "DateAdd" else -1
    # The sum wraps as Java's does.
    return strict(lambda days, count: (days + sign * count).astype(np.int32), expression.type)


@kernel("DateDiff")
def _difference(expression: Expression) -> Kernel:
    return strict(lambda end, start: (end - start).astype(np.int32), expression.type)


@kernel("SubtractDates")
def _interval_between(expression: Expression) -> Kernel:
    if expression.type == pa.month_day_nano_interval():
        return of_arrays(_calendar_interval_between)
    return strict(lambda end, start: (end - start) * DAY_US, expression.type)


def _calendar_interval_between(ends: pa.Array, starts: pa.Array) -> pa.Array:
    end, start = integers(ends), integers(starts)
    months = months_of(end) - months_of(start)
    days = days_of_month(end) - days_of_month(start)
    back = (months > 0) & (days < 0)
    on = (months < 0) & (days > 0)
    days = np.where(back, end - plus_months(start, months - 1), days)
    days = np.where(on, end - plus_months(start, months + 1), days)
    return from_parts(months - back + on, days, np.zeros(len(end), np.int64), valid(ends, starts))


def truncated_days(level: str, days: Integers) -> Integers:
    """The first day of each day's year, quarter, month or week."""
    if level == "WEEK":
        return days - weekdays(days)
    size = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}[level]
    return first_days(months_of(days) // size * size)


def truncation_level(text: str) -> str | None:
    """The unit that a text means to `trunc`, or None."""
    return _LEVELS.get(text.upper())


@form("TruncDate")
def _truncated(expression: Expression, compiled: Callable[[Expression], Evaluator]) -> Evaluator:
    dates, unit = (compiled(child) for child in expression.children)

    def truncation(text: str) -> Callable[[Integers], Integers] | None:
        level = truncation_level(text)
        return None if level is None else lambda days: truncated_days(level, days)

    return by_unit(unit, dates, truncation, expression)


def by_unit(
    unit: Evaluator,
    instants: Evaluator,
    truncation: Callable[[str], Callable[[Integers], Integers] | None],
    expression: Expression,
) -> Evaluator:
    """What truncates dates or times to a unit; null for an unknown unit, and then Spark does not compute the time."""

    def make(text: str) -> Callable[..., pa.Array]:
        truncate = truncation(text)
        if truncate is None:
            return lambda array: pa.nulls(len(array), type)
        return lambda array: strict_array(truncate, [within_calendar(array, expression)], type)

    type = expression.type
    compute = by_text(0, make, type)

    def evaluate(frame: Frame) -> Value:
        units = unit(frame)
        if not frame.careful:
            return compute([units, instants(frame)], frame.rows)
        texts = as_array(units, frame.rows).to_pylist()
        rows = pa.array([n for n, text in enumerate(texts) if text and truncation(text)], pa.int64())
        known = spread(instants(frame.take(rows)), rows, frame.rows)
        return compute([units, known], frame.rows)

    return evaluate


@kernel("MakeDate")
def _make_date(expression: Expression) -> Kernel:
    def compute(years: Integers, months: Integers, days: Integers) -> Computed:
        result, exist = days_from(years, months, days)
        if fails(expression) and not exist.all():
            raise_field_out_of_bounds()
        return result, exist

    return strict(compute, expression.type)


def raise_field_out_of_bounds() -> None:
    """Raise what Spark does for parts of a date or time that do not exist."""
    raise SparkError("DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION", "There is no such date or time.")


@kernel("UnixDate", "DateFromUnixDate")
def _same_days(expression: Expression) -> Kernel:
    return strict(lambda days: days, expression.type)


@kernel("MonthsBetween")
def _months_between(expression: Expression) -> Kernel:
    place = session_zone(expression, expression.children[0].type)

    def compute(later: Integers, earlier: Integers, rounds: Integers) -> Computed:
        first, second = local_days(later, place), local_days(earlier, place)
        months = (months_of(first) - months_of(second)).astype(np.float64)
        day, other = days_of_month(first), days_of_month(second)
        whole = (day == other) | ((last_days(first) == first) & (last_days(second) == second))
        seconds = (later - place.utc(first * DAY_US)) // 1_000_000 - (earlier - place.utc(second * DAY_US)) // 1_000_000
        exact = months + ((day - other) * 86_400 + seconds) / (31 * 86_400)
        rounded = np.floor(exact * 1e8 + 0.5) / 1e8
        return np.where(whole, months, np.where(rounds != 0, rounded, exact))

    return of_arrays(
        lambda later, earlier, rounds: strict_array(compute, [later, earlier, rounds.cast(pa.int8())], expression.type)
    )
