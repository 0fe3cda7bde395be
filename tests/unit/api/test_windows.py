"""Windows and triggers: how they are shown, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.api.windows import bounds_type
from snapline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (sl.Tumbling("90s"), "Tumbling('90s')"),
        (sl.Tumbling("24h", "30min", processing_time=True), "Tumbling('1d', offset='30min', processing_time=True)"),
        (sl.Sliding("1500ms", every="1s"), "Sliding('1500ms', every='1s')"),
        (sl.Session("60min"), "Session('1h')"),
        (sl.WhenComplete(), "WhenComplete()"),
        (sl.WhenComplete(early_rows=5, early_every="2s"), "WhenComplete(early_rows=5, early_every='2s')"),
        (sl.EveryRows(3, purge=True), "EveryRows(3, purge=True)"),
        (sl.EventTimeInterval("120s"), "EventTimeInterval('2min')"),
    ],
)
def test_windows_and_triggers_are_shown_as_they_are_written(made: object, shown: str) -> None:
    assert repr(made) == shown
    assert eval(shown, vars(sl)) == made


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: sl.Tumbling("0s"), "Tumbling: size='0s': must be longer than nothing"),
        (lambda: sl.Sliding("1s", every=0), "Sliding: every=0: must be longer than nothing"),
        (lambda: sl.Session(10), "Session: gap=10.*has no unit"),
        (lambda: sl.EveryRows(0), "EveryRows: n=0"),
        (lambda: sl.WhenComplete(early_rows=True), "WhenComplete: early_rows=True"),
        (lambda: sl.EventTimeInterval("0s"), "EventTimeInterval: every='0s': must be longer than nothing"),
    ],
)
def test_wrong_durations_and_counts_are_refused(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make()


def test_bounds_have_the_type_of_the_time_column_but_at_least_milliseconds() -> None:
    assert bounds_type(pa.int32()) == pa.int64()
    assert bounds_type(pa.timestamp("s", tz="UTC")) == pa.timestamp("ms", tz="UTC")
    assert bounds_type(pa.timestamp("ns")) == pa.timestamp("ns")


def test_gaps_between_windows_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    sl.Sliding("10s", every="10s")
    assert caplog.records == []
    sl.Sliding("2s", every="5s")
    (record,) = caplog.records
    assert record.getMessage() == "Sliding('2s', every='5s') leaves gaps between windows: rows in them are dropped"
