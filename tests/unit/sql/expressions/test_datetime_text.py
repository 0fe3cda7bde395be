"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.datetime_text import date_texts, timestamp_texts

DAY_US = 86_400_000_000


def test_dates_of_all_years() -> None:
    usual = pa.array([0, -719162, None, 2932896], pa.int32()).view(pa.date32())
    assert date_texts(usual).to_pylist() == ["1970-01-01", "0001-01-01", None, "9999-12-31"]
    beyond = pa.array([2932897, None, -719529], pa.int32()).view(pa.date32())
    assert date_texts(beyond).to_pylist() == ["+10000-01-01", None, "-0001-12-31"]


def test_fractions_end_without_zeros() -> None:
    times = np.array([0, 100_000, 1_000_001, 50_000_000, -1])
    assert timestamp_texts(times, np.ones(5, np.bool_)).to_pylist() == [
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:00.1",
        "1970-01-01 00:00:01.000001",
        "1970-01-01 00:00:50",
        "1969-12-31 23:59:59.999999",
    ]


def test_timestamps_beyond_the_year_9999() -> None:
    times = np.array([2932897 * DAY_US + 3_600_100_000, 0])
    assert timestamp_texts(times, np.array([True, False])).to_pylist() == ["+10000-01-01 01:00:00.1", None]
