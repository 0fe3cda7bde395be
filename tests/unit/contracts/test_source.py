"""Sources: defaults, and watermarks that fit their rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.contracts.source import Watermarks, checked_watermarks
from snapline.errors import ConfigurationError

ROWS = pa.schema([("time", pa.timestamp("us")), ("at", pa.int64()), ("user", pa.string())])


class Rows(sl.Source):
    def __init__(self, is_bounded: bool) -> None:
        self._is_bounded = is_bounded

    @property
    def schema(self) -> pa.Schema:
        return ROWS

    @property
    def is_bounded(self) -> bool:
        return self._is_bounded

    def splits(self, parallelism: int) -> list[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError("never read")


def test_endless_splits_are_read_in_step_and_none_are_discovered() -> None:
    assert Rows(is_bounded=False).in_step
    assert not Rows(is_bounded=True).in_step
    source = Rows(is_bounded=False)
    assert source.discovery_interval_ms is None
    assert source.discover("known") == ((), "known")


def test_watermarks_hold_milliseconds() -> None:
    made = Watermarks("time", delay="5s", idle_after="1min")
    assert (made.column, made.delay_ms, made.idle_after_ms) == ("time", 5_000, 60_000)
    assert Watermarks("time") == Watermarks("time", delay=0, idle_after=0)


@pytest.mark.parametrize("column", ["time", "at"])
def test_watermarks_take_timestamps_and_milliseconds(column: str) -> None:
    watermarks = Watermarks(column)
    assert checked_watermarks(watermarks, ROWS, "it") is watermarks


@pytest.mark.parametrize(
    ("watermarks", "complaint"),
    [
        (Watermarks("tim"), "watermarks of it: there is no column 'tim'.*Did you mean 'time'"),
        (Watermarks("user"), "watermarks of it: the column 'user' is string; use a timestamp"),
        ("at", r"watermarks of it: 'at' does not say.*give snapline.Watermarks\('at', delay='5s'\)"),
        (5, r"give snapline.Watermarks\('time', delay='5s'\)"),
    ],
)
def test_watermarks_that_do_not_fit_are_refused(watermarks: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        checked_watermarks(watermarks, ROWS, "it")
