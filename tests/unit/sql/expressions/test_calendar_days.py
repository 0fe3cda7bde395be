"""Expected values are those of Python's calendar and of Spark 4.3."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np

from snapline.sql.expressions import calendar_days as cal

EPOCH = date(1970, 1, 1)
DATES = [
    date(1, 1, 1),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(2000, 2, 29),
    date(2020, 12, 31),
    date(9999, 12, 31),
]
DAYS = np.array([(each - EPOCH).days for each in DATES])


def test_fields_of_all_years() -> None:
    assert cal.years_of(DAYS).tolist() == [each.year for each in DATES]
    assert cal.month_numbers(DAYS).tolist() == [each.month for each in DATES]
    assert cal.days_of_month(DAYS).tolist() == [each.day for each in DATES]
    assert cal.days_of_year(DAYS).tolist() == [each.timetuple().tm_yday for each in DATES]
    assert cal.weekdays(DAYS).tolist() == [each.weekday() for each in DATES]


def test_weeks_belong_to_the_year_of_their_thursday() -> None:
    years, weeks = cal.iso_weeks(DAYS)
    expected = [each.isocalendar() for each in DATES]
    assert list(zip(years.tolist(), weeks.tolist(), strict=True)) == [(each.year, each.week) for each in expected]


def test_the_last_day_of_a_month_stays_inside_a_shorter_one() -> None:
    start = np.array([(date(2024, 1, 31) - EPOCH).days] * 3)
    moved = cal.plus_months(start, np.array([1, -2, 13]))
    assert [EPOCH + timedelta(days=int(day)) for day in moved] == [
        date(2024, 2, 29), date(2023, 11, 30), date(2025, 2, 28)
    ]  # fmt: skip


def test_dates_that_do_not_exist() -> None:
    days, exist = cal.days_from(np.array([2024, 2023, 2024, 2024]), np.array([2, 2, 13, 0]), np.array([29, 29, 1, 1]))
    assert exist.tolist() == [True, False, False, False]
    assert days[0] == (date(2024, 2, 29) - EPOCH).days


def test_division_rounds_towards_zero() -> None:
    assert cal.truncated_division(np.array([-7, 7, -6]), 3).tolist() == [-2, 2, -2]
