from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.operators.sql_projection import WindowShape, end_times_ms, window_starts


@pytest.mark.parametrize(
    ("shape", "time", "starts"),
    [
        (WindowShape(10, 10, 0), 25, [20]),
        (WindowShape(10, 10, 3), 25, [23]),
        (WindowShape(10, 10, 0), -1, [-10]),
        (WindowShape(10, 5, 0), 25, [20, 25]),
        (WindowShape(10, 4, 0), 25, [16, 20, 24]),
        (WindowShape(10, 3, 1), 25, [16, 19, 22, 25]),
        (WindowShape(4, 10, 0), 25, []),
    ],
)
def test_windows_of_a_time(shape: WindowShape, time: int, starts: list[int]) -> None:
    rows, found = window_starts(np.array([time]), shape)
    assert sorted(found.tolist()) == starts
    assert rows is None or rows.tolist() == [0] * len(starts)


def test_a_window_ends_in_the_last_millisecond_before_its_end() -> None:
    windows = pa.array([{"start": 0, "end": 10_000}, {"start": 0, "end": 10_001}, None], kit.WINDOW)
    times, valid = end_times_ms(windows)
    assert times.tolist()[:2] == [9, 10]
    assert valid.to_pylist() == [True, True, False]
