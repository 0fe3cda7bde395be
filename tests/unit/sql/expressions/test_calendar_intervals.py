from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_intervals import from_parts, interval_parts


def test_parts_come_back() -> None:
    months, days, micros = np.array([14, 0, -1]), np.array([-3, 0, 7]), np.array([5_500_000, 0, -1])
    array = from_parts(months, days, micros, np.array([True, False, True]))
    assert array.to_pylist() == [pa.MonthDayNano([14, -3, 5_500_000_000]), None, pa.MonthDayNano([-1, 7, -1000])]
    assert [part.tolist() for part in interval_parts(array)] == [[14, 0, -1], [-3, 0, 7], [5_500_000, 0, -1]]


def test_slices_keep_their_place() -> None:
    array = from_parts(np.arange(4), np.arange(4), np.arange(4), np.ones(4, np.bool_)).slice(2)
    assert [part.tolist() for part in interval_parts(array)] == [[2, 3], [2, 3], [2, 3]]
