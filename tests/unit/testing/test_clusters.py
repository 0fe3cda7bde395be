"""Clusters without Spark; jobs that lose slots and processes on them are in tests/integration/test_clusters.py."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.testing import ProcessCluster, ThreadCluster


def numbers(parallelism: int) -> sl.Stream:
    job = sl.Job("numbers", parallelism=parallelism)
    rows = sl.sources.Iterator([{"n": number} for number in range(10)])
    return job.source(rows, uid="rows").rebalance().map_batches(lambda batch: batch, uid="same")


def test_slots_are_free_again_after_a_job() -> None:
    cluster = ThreadCluster(slots=2)
    for _ in range(2):
        assert sorted(numbers(2).collect(cluster)["n"].to_pylist()) == list(range(10))


@pytest.mark.parametrize("kind", [ThreadCluster, ProcessCluster])
def test_a_job_that_needs_more_slots_is_refused(kind: type[ThreadCluster] | type[ProcessCluster]) -> None:
    with pytest.raises(ConfigurationError, match="needs 3 slots at the same time and the cluster has 2; lower"):
        numbers(3).collect(kind(slots=2))


def test_a_slot_is_lost_only_while_a_job_has_it() -> None:
    cluster = ThreadCluster()
    numbers(1).collect(cluster)
    with pytest.raises(AssertionError, match="no slots have been ordered"):
        cluster.lose_slot(0)


def test_a_job_says_how_it_gets_on(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO, "snapline")
    checkpoints = sl.Checkpoints(interval="20ms", storage=tmp_path / "checkpoints")
    execution = sl.Execution(health_interval="100ms", metrics_interval="20ms")
    job = sl.Job("clicks", checkpoints=checkpoints, execution=execution)
    rows = job.source(sl.sources.Rate(10_000), uid="rows", watermarks=sl.Watermarks("time"))
    rows.sink(sl.sinks.Files(tmp_path / "out"), uid="out")
    handle = job.start(ThreadCluster())
    line = re.compile(
        r"job clicks: RUNNING, [1-9][\d,]* rows/s, event time \d{4}-.*Z \(\d+ m?s ago\), checkpoint \d+ \d+ m?s ago "
        r"\(took \d+ m?s, [\d.]+ k?B\)"
    )
    deadline_s = time.monotonic() + 30
    while not any(line.fullmatch(record.getMessage()) for record in caplog.records):
        assert time.monotonic() < deadline_s, caplog.text
        handle.progress()
    handle.cancel("30s")
    assert "job clicks has ended: CANCELED" in caplog.text
