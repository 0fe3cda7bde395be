"""The calendar on whole arrays: days since 1970 to years and months and back, for all years."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

DAY_US = 86_400_000_000


def months_of(days: Integers) -> Integers:
    """Months since January 1970."""
    return np.asarray(days.astype("M8[D]").astype("M8[M]").astype(np.int64))


def first_days(months: Integers) -> Integers:
    """The first day of each month, months counted since January 1970."""
    return np.asarray(months.astype("M8[M]").astype("M8[D]").astype(np.int64))


def years_of(days: Integers) -> Integers:
    """Years; the one before year 1 is 0."""
    return months_of(days) // 12 + 1970


def month_numbers(days: Integers) -> Integers:
    """Months of the year, from 1."""
    return months_of(days) % 12 + 1


def days_of_month(days: Integers) -> Integers:
    """Days of the month, from 1."""
    return days - first_days(months_of(days)) + 1


def first_days_of_years(days: Integers) -> Integers:
    """The first of January of each day's year."""
    return first_days(months_of(days) // 12 * 12)


def days_of_year(days: Integers) -> Integers:
    """Days of the year, from 1."""
    return days - first_days_of_years(days) + 1


def weekdays(days: Integers) -> Integers:
    """Days of the week: 0 is Monday."""
    return (days + 3) % 7


def month_lengths(months: Integers) -> Integers:
    """How many days each month has."""
    return first_days(months + 1) - first_days(months)


def last_days(days: Integers) -> Integers:
    """The last day of each day's month."""
    return first_days(months_of(days) + 1) - 1


def plus_months(days: Integers, months: Integers) -> Integers:
    """The same day of another month, or that month's last one if it is shorter."""
    own = months_of(days)
    target = own + months
    return np.asarray(first_days(target) + np.minimum(days - first_days(own), month_lengths(target) - 1))


def iso_weeks(days: Integers) -> tuple[Integers, Integers]:
    """Year and number of each day's week; a week belongs to the year of its Thursday."""
    thursdays = days - weekdays(days) + 3
    return years_of(thursdays), (days_of_year(thursdays) - 1) // 7 + 1


def days_from(years: Integers, months: Integers, days: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Days since 1970 of these dates, and which of them exist."""
    exist = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31) & (np.abs(years) <= 999_999_999)
    number = np.where(exist, (years - 1970) * 12 + months - 1, 0)
    exist &= days <= month_lengths(number)
    return first_days(number) + np.where(exist, days, 1) - 1, exist


def truncated_division(left: Any, right: Any) -> Any:
    """The quotient of integers, rounded towards zero as in Java; no divisor may be zero."""
    quotient = left // right
    return quotient + ((quotient < 0) & (quotient * right != left))
