"""Jobs on clusters without Spark."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.program_kit import programs

import snapline as sl
from snapline.devtools.kit.processes import descendants
from snapline.errors import ConfigurationError
from snapline.testing import ABORT, AWAIT_CHECKPOINT, ProcessCluster, ScriptedSource, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow


def eventually(condition: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline_s, "not in time"
        time.sleep(0.01)


def make_job(directory: Path, *, rows: int | None = 2000, parallelism: int = 2) -> sl.Job:
    job = sl.Job(
        "clicks",
        parallelism=parallelism,
        checkpoints=sl.Checkpoints(interval="100ms", storage=directory / "checkpoints"),
        execution=sl.Execution(heartbeat_interval="100ms"),
        restart=sl.FixedDelay(attempts=3, delay="10ms"),
    )
    stream = job.source(sl.sources.Rate(rows_per_second=2000, rows=rows), uid="source")
    stream.key_by("user").aggregate(n=sl.count(), uid="count").sink(sl.sinks.Files(directory / "out"), uid="out")
    return job


@pytest.mark.parametrize("kind", [ThreadCluster, ProcessCluster])
def test_a_job_runs_and_leaves_nothing_behind(kind: type[ThreadCluster] | type[ProcessCluster], tmp_path: Path) -> None:
    before = set(threading.enumerate())
    cluster = kind(slots=2)
    assert make_job(tmp_path).run(cluster) is JobStatus.FINISHED
    deadline_s = time.monotonic() + 30
    while not set(threading.enumerate()) <= before:  # threads of pools end when they next look for work
        assert time.monotonic() < deadline_s, set(threading.enumerate()) - before
        time.sleep(0.01)
    assert descendants(programs().pid) == []


def test_slots_are_limited_and_shared(tmp_path: Path) -> None:
    cluster = ThreadCluster(slots=4)
    with pytest.raises(ConfigurationError, match="needs 5 slots at the same time and the cluster has 4; lower"):
        make_job(tmp_path / "a", parallelism=5).start(cluster)
    first = make_job(tmp_path / "a", rows=None, parallelism=3).start(cluster)
    try:
        with pytest.raises(ConfigurationError, match="of which other jobs hold 3"):
            make_job(tmp_path / "b", parallelism=2).start(cluster)
    finally:
        first.cancel("60s")
    assert make_job(tmp_path / "b", parallelism=4).run(cluster) is JobStatus.FINISHED


def test_an_operator_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    cluster = ProcessCluster()
    handle = make_job(tmp_path, rows=8000).start(cluster)
    eventually(lambda: handle.checkpoints().counts.completed >= 2)
    pids = cluster.worker_pids()
    assert len(pids) == 2
    os.kill(pids[0], signal.SIGKILL)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert cluster.worker_pids() == []


@pytest.mark.parametrize("kind", [ThreadCluster, ProcessCluster])
def test_a_lost_slot_leads_to_a_new_order(kind: type[ThreadCluster] | type[ProcessCluster], tmp_path: Path) -> None:
    cluster = kind()
    handle = make_job(tmp_path, rows=8000).start(cluster)
    eventually(lambda: handle.checkpoints().counts.completed >= 2)
    cluster.lose_slot(1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2


@pytest.mark.parametrize("kind", [ThreadCluster, ProcessCluster])
def test_a_script_aborts_once_and_every_row_counts_once(
    kind: type[ThreadCluster] | type[ProcessCluster], tmp_path: Path
) -> None:
    script = [[{"user": "ann"}], AWAIT_CHECKPOINT, {"user": "ann"}, ABORT, AWAIT_CHECKPOINT, {"user": "ann"}, ABORT]
    job = sl.Job(
        "script",
        checkpoints=sl.Checkpoints(interval="50ms", storage=tmp_path / "checkpoints"),
        restart=sl.FixedDelay(attempts=2, delay="10ms"),
    )
    rows = job.source(ScriptedSource(script), uid="script")
    rows.key_by("user").aggregate(n=sl.count(), uid="n").sink(sl.sinks.Files(tmp_path / "n"), uid="out")
    handle = job.start(kind())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 3
    assert sorted(sl.sinks.read_files(tmp_path / "n")["n"].to_pylist()) == [1, 2, 3]
