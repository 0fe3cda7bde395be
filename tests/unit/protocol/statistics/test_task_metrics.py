"""Task metrics are values that reach the driver as they were measured."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from snapline.protocol.statistics import TaskMetrics
from snapline.runtime.wire.control_messages import Metrics, decode_to_master, encode
from snapline.types import ExecutionId, SubtaskId

EXECUTION = ExecutionId(SubtaskId("counts", 1), 2)


@pytest.mark.parametrize(
    "metrics",
    [
        TaskMetrics(EXECUTION, 5, 4, 3, 2, 250, 100, 100, 50, 7, 8),
        TaskMetrics(EXECUTION, 5, 4, 3, 2, 250, 100, 100, 50, 7, 8, 1_000, (3, 4), 6),
    ],
)
def test_metrics_arrive_as_they_were_sent(metrics: TaskMetrics) -> None:
    received = decode_to_master(encode(Metrics([metrics], 77)))
    assert isinstance(received, Metrics)
    assert received.tasks == [metrics]
    assert str(received.tasks[0].execution) == "counts/1#2"


def test_metrics_do_not_change() -> None:
    metrics = TaskMetrics(EXECUTION, 5, 4, 3, 2, 250, 100, 100, 50, 7, 8)
    with pytest.raises(FrozenInstanceError):
        metrics.rows_in = 6  # type: ignore[misc]
