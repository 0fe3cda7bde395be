"""Checkpoints and savepoints somebody asks for, several at once, late, or instead of periodic ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    Start,
    Uneven,
    completed,
    has_ended,
    runs,
    settings,
    small,
    wait_for_restart,
    wait_until,
)

from snapline.api.job import Job
from snapline.api.job_handle import SnapshotFailedError
from snapline.connectors.files.file_sink import Files, read_files
from snapline.devtools.kit.exactly_once import NumberingJob, numbering_job
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow


def job_of(directory: Path, interval: str | None, mode: str = "aligned", rows: int = 20_000) -> NumberingJob:
    return numbering_job(
        "asked",
        directory,
        rows=rows,
        rows_per_second=12_000,
        checkpoints=settings(mode, interval),
        restart=RESTART,
        execution=small(),
    )


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_only_checkpoints_that_somebody_asks_for(start: Start, tmp_path: Path, mode: str) -> None:
    job = job_of(tmp_path, None, mode, rows=35_000)
    cluster = ThreadCluster()
    handle = start(job.job, cluster)
    wait_until(lambda: runs(handle), "it runs")
    for _ in range(2):
        handle.checkpoint(timeout="120s")
    assert completed(handle) == 2
    cluster.lose_slot(0)
    wait_for_restart(handle, 1)
    for _ in range(2):
        handle.checkpoint(timeout="120s")
    assert handle.wait("120s") is JobStatus.FINISHED
    assert job.prove().problems == ()


def test_a_failure_after_one_subtask_has_ended_without_periodic_checkpoints(start: Start, tmp_path: Path) -> None:
    output = tmp_path / "out"
    checkpoints = settings(interval=None)(str(tmp_path / "chk"))
    job = Job("uneven", parallelism=2, checkpoints=checkpoints, restart=RESTART, execution=small())
    job.source(Uneven([100, 6000]), uid="rows").sink(Files(output), uid="out")
    cluster = ThreadCluster()
    handle = start(job, cluster)

    def read() -> list[int]:
        return sorted(task.rows_in for name, task in handle.metrics().items() if name.startswith("rows/"))

    wait_until(lambda: len(read()) == 2 and read()[0] == 100 and read()[1] > 3000, "one has ended, the other is far")
    cluster.lose_slot(1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert sorted(read_files(output)["id"].to_pylist()) == list(range(6100))


def test_many_requests_at_once(start: Start, tmp_path: Path) -> None:
    job = job_of(tmp_path, "50ms", "unaligned", rows=100_000)
    handle = start(job.job, ProcessCluster())
    wait_until(lambda: runs(handle), "it runs")
    with ThreadPoolExecutor(8) as users:
        asked = [users.submit(handle.savepoint, tmp_path / "savepoints", timeout="120s") for _ in range(6)]
        asked += [users.submit(handle.checkpoint, timeout="120s") for _ in range(2)]
        paths = [request.result() for request in asked]
    assert len(set(paths)) == 8
    assert handle.wait("120s") is JobStatus.FINISHED
    assert job.prove().problems == ()


def test_stop_and_cancel_at_the_same_time(start: Start, tmp_path: Path) -> None:
    for number in range(4):
        job = job_of(tmp_path / str(number), "50ms")
        handle = start(job.job, ThreadCluster())
        wait_until(lambda: completed(handle) > 0, "it runs")  # noqa: B023
        with ThreadPoolExecutor(4) as users:
            stops = [users.submit(handle.stop, tmp_path / "savepoints", timeout="120s") for _ in range(2)]
            cancels = [users.submit(handle.cancel, "20s") for _ in range(number % 2)]
            for cancel in cancels:
                cancel.result()
            for stop in stops:
                assert isinstance(stop.exception(), SnapshotFailedError | None)
        assert has_ended(handle)
        assert handle.status() is not JobStatus.FAILED


def test_requests_after_the_end(start: Start, tmp_path: Path) -> None:
    handle = start(job_of(tmp_path, "50ms", rows=100).job, ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    for ask in (handle.savepoint, handle.stop):
        with pytest.raises(SnapshotFailedError, match="FINISHED"):
            ask(tmp_path / "savepoints")
    handle.cancel("120s")
    assert handle.status() is JobStatus.FINISHED
    assert handle.wait("120s") is JobStatus.FINISHED
