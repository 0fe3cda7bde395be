"""The figures of a task travel between processes and threads."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest

from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import ExecutionId, SubtaskId

METRICS = TaskMetrics(ExecutionId(SubtaskId("map", 1), 3), 10, 8, 100, 80, 1_000, 600, 300, 100, 5, 6)


def test_they_survive_a_pickle_and_cannot_be_changed() -> None:
    assert pickle.loads(pickle.dumps(METRICS)) == METRICS
    with pytest.raises(FrozenInstanceError):
        METRICS.rows_in = 11  # type: ignore[misc]


def test_before_the_first_watermark_there_is_none() -> None:
    assert METRICS.watermark_ms is None
    assert METRICS.latency_ms == ()
