"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, array_of, call, column, condition, literal, values

INT, DATE, INSTANT = pa.int32(), pa.date32(), pa.timestamp("us", "UTC")
INTS = pa.list_(INT)
NEW_YORK = {"timeZoneId": "America/New_York"}


def test_numbers_go_up_or_down() -> None:
    starts, stops = pa.array([1, 0, 3, None], INT), pa.array([2, -1, 1, 1], INT)
    plain = applied("Sequence", INTS, starts, stops, stepOpt=None, **NEW_YORK)
    assert values(plain, starts, stops) == [[1, 2], [0, -1], [3, 2, 1], None]


@pytest.mark.parametrize(
    ("start", "stop", "step", "expected"),
    [(1, 10, 3, [1, 4, 7, 10]), (10, 1, -3, [10, 7, 4, 1]), (5, 9, 3, [5, 8]), (1, 1, 0, [1])],
)
def test_steps(start: int, stop: int, step: int, expected: list[int]) -> None:
    stepped = call("Sequence", INTS, column(0, INT), literal(stop, INT), literal(step, INT), **NEW_YORK)
    assert values(stepped, pa.array([start], INT)) == [expected]


@pytest.mark.parametrize(("stop", "step"), [(10, -1), (2, 0)])
def test_steps_that_never_arrive(stop: int, step: int) -> None:
    stepped = call("Sequence", INTS, column(0, INT), literal(stop, INT), literal(step, INT), **NEW_YORK)
    assert condition(stepped, pa.array([1], INT)) == "IllegalArgumentException"


def test_too_many_elements() -> None:
    longs = pa.list_(pa.int64())
    stepped = call("Sequence", longs, column(0, pa.int64()), literal(10**12, pa.int64()), **NEW_YORK)
    assert condition(stepped, pa.array([1])) == "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER"


def sequence_of_dates(stop: date, step: Any, type: pa.DataType) -> Any:
    return call("Sequence", pa.list_(DATE), column(0, DATE), literal(stop, DATE), literal(step, type), **NEW_YORK)


def test_dates_by_days_and_months() -> None:
    starts = pa.array([date(2024, 1, 31), None])
    days = sequence_of_dates(date(2024, 2, 4), 2 * 86_400_000_000, pa.duration("us"))
    assert values(days, starts) == [[date(2024, 1, 31), date(2024, 2, 2), date(2024, 2, 4)], None]
    months = sequence_of_dates(date(2024, 4, 30), 1, INT)
    assert values(months, starts)[0] == [date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31), date(2024, 4, 30)]
    hours = sequence_of_dates(date(2024, 4, 30), 3_600_000_000, pa.duration("us"))
    assert condition(hours, starts) == "_LEGACY_ERROR_TEMP_3242"


def test_days_of_timestamps_are_local_ones() -> None:
    starts, stops = (pa.array([each], pa.int64()).view(INSTANT) for each in (1710053999999999, 1710309599999999))
    days = call(
        "Sequence",
        pa.list_(INSTANT),
        column(0, INSTANT),
        column(1, INSTANT),
        literal(86_400_000_000, pa.duration("us")),
        **NEW_YORK,
    )
    assert array_of(days, starts, stops)[0].values.view(pa.int64()).to_pylist() == [
        1710053999999999, 1710136799999999, 1710223199999999, 1710309599999999
    ]  # fmt: skip
