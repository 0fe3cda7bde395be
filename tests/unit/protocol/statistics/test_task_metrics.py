"""The figures of a task travel between processes and threads."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from snapline.protocol.statistics.task_metrics import TaskMetrics, bad_rows_event
from snapline.types import ExecutionId, SubtaskId

METRICS = TaskMetrics(ExecutionId(SubtaskId("map", 1), 3), 10, 8, 100, 80, 1_000, 600, 300, 100, 5, 6)


def test_they_survive_a_pickle_and_cannot_be_changed() -> None:
    assert pickle.loads(pickle.dumps(METRICS)) == METRICS
    with pytest.raises(FrozenInstanceError):
        METRICS.rows_in = 11  # type: ignore[misc]


def test_before_the_first_watermark_there_is_none() -> None:
    assert METRICS.watermark_ms is None
    assert METRICS.latency_ms == ()


def test_bad_rows_are_an_event_at_growing_intervals_in_each_attempt() -> None:
    one, two, ten = (replace(METRICS, bad_rows=count, last_bad_row="too large") for count in (1, 2, 10))
    assert bad_rows_event(None, METRICS) == ""
    assert bad_rows_event(METRICS, one) == "map/1: bad rows so far: 1, and the last one: too large"
    assert bad_rows_event(None, two) != ""
    assert bad_rows_event(one, two) == ""
    assert bad_rows_event(two, ten) != ""
    again = replace(one, execution=ExecutionId(SubtaskId("map", 1), 4))
    assert bad_rows_event(ten, again) != ""


def test_they_are_shown_in_one_line() -> None:
    assert repr(METRICS) == "<map/1#3: 10 rows in, 8 out, 60% busy, 10% back-pressured>"
