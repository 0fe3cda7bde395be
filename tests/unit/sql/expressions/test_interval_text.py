from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.sql.expressions.interval_text import parsed_interval, to_interval


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("5 seconds", (0, 0, 5_000_000)),
        ("interval 1 hour -30 minutes", (0, 0, 1_800_000_000)),
        ("INTERVAL 1 YEAR 2 months", (14, 0, 0)),
        ("2 weeks 1 day", (0, 15, 0)),
        ("1.5 seconds", (0, 0, 1_500_000)),
        (".5 second", (0, 0, 500_000)),
        ("- 3 milliseconds", (0, 0, -3000)),
        ("7 microsecond ", (0, 0, 7)),
    ],
)
def test_intervals(text: str, wanted: tuple[int, int, int]) -> None:
    assert parsed_interval(text) == wanted


@pytest.mark.parametrize(
    "text", ["", "5", "seconds", "5 parsecs", "1.5 days", "5 seconds x", "interval", ". seconds", "5seconds"]
)
def test_texts_that_are_none(text: str) -> None:
    assert parsed_interval(text) is None


def test_columns_with_nulls_and_nonsense() -> None:
    given = pa.array(["1 day", None, "nonsense", "1 day"])
    day = pa.MonthDayNano([0, 1, 0])
    assert to_interval(given).to_pylist() == [day, None, None, day]
    assert to_interval(pa.array([None], pa.string())).to_pylist() == [None]
    assert to_interval(pa.array([], pa.string())).to_pylist() == []
