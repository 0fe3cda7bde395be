"""However a job ends, it ends soon and leaves nothing; what is left is looked for after every test here."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    Hang,
    Start,
    operator_pids,
    runs,
    settings,
    small,
    wait_for_checkpoints,
    wait_until,
)

from snapline.api.job import Job
from snapline.api.job_handle import JobFailedError
from snapline.config import NoRestart
from snapline.connectors.files.file_sink import Files
from snapline.connectors.rate import Rate
from snapline.devtools.kit.exactly_once import NumberingJob, numbering_job
from snapline.errors import ConfigurationError
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("launched_operators")]


def job_of(
    name: str, directory: Path, rows: int = 20_000, policy: str | None = None, **options: object
) -> NumberingJob:
    return numbering_job(
        name,
        directory,
        rows=rows,
        rows_per_second=12_000,
        checkpoints=settings("unaligned", externalized=policy),
        **{"restart": RESTART, "execution": small(state_backend="rocksdb"), **options},  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("policy", "kept"), [(None, 1), ("DELETE_ON_CANCELLATION", 0)])
def test_cancel_leaves_only_the_checkpoint_to_go_on_from(
    start: Start, tmp_path: Path, nothing_left: Path, policy: str | None, kept: int
) -> None:
    handle = start(job_of("cancelled", tmp_path, policy=policy).job, ProcessCluster())
    wait_for_checkpoints(handle, 1)
    assert len(operator_pids()) == 2
    assert list(nothing_left.iterdir()) != []
    handle.cancel("120s")
    assert handle.status() is JobStatus.CANCELED
    assert operator_pids() == set()
    assert len([path for path in (tmp_path / "chk").rglob("*") if path.name == "_metadata"]) == kept


def test_failure_leaves_nothing(start: Start, tmp_path: Path) -> None:
    handle = start(job_of("failing", tmp_path, restart=NoRestart(), fail_after_rows=3000).job, ProcessCluster())
    with pytest.raises(JobFailedError):
        handle.wait("120s")
    assert operator_pids() == set()


def test_cancel_before_the_job_runs(start: Start, tmp_path: Path) -> None:
    for number in range(3):
        handle = start(job_of(f"early {number}", tmp_path).job, ProcessCluster())
        if number:
            wait_until(lambda: len(operator_pids()) >= number, "processes have been started")  # noqa: B023
        handle.cancel("120s")
        assert handle.status() is JobStatus.CANCELED
        assert operator_pids() == set()


def test_cancel_between_two_attempts(start: Start, tmp_path: Path) -> None:
    handle = start(job_of("between", tmp_path, execution=small()).job, ProcessCluster())
    wait_for_checkpoints(handle, 1)
    for pid in operator_pids():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not runs(handle), "the failure is noticed")
    handle.cancel("120s")
    assert handle.status() is JobStatus.CANCELED


def test_cancel_while_user_code_does_not_return(start: Start, tmp_path: Path) -> None:
    marker = tmp_path / "hangs"
    job = Job(
        "hanging",
        parallelism=2,
        checkpoints=settings()(str(tmp_path / "chk")),
        execution=small(cancel_timeout="500ms"),
    )
    stream = job.source(Rate(rows=1000), uid="rows")
    stream.rebalance().apply(Hang(str(marker)), uid="hang", schema=stream.schema).sink(
        Files(tmp_path / "out"), uid="out"
    )
    handle = start(job, ProcessCluster())
    wait_until(marker.exists, "user code hangs")
    began_s = time.monotonic()
    handle.cancel("120s")
    assert time.monotonic() - began_s < 50, "it did not wait for user code, which takes a minute"
    assert handle.status() is JobStatus.CANCELED


def test_a_hanging_task_does_not_keep_the_job_from_restarting(start: Start, tmp_path: Path) -> None:
    """One subtask does not let go when another fails: its process is killed."""
    marker = tmp_path / "hangs"
    job = Job(
        "hanging",
        parallelism=2,
        checkpoints=settings()(str(tmp_path / "chk")),
        execution=small(cancel_timeout="300ms"),
        restart=RESTART,
    )
    stream = job.source(Rate(rows=1000, splits=1), uid="rows")
    stream.global_().apply(Hang(str(marker)), uid="hang", schema=stream.schema).sink(Files(tmp_path / "out"), uid="out")
    cluster = ProcessCluster()
    handle = start(job, cluster)
    wait_until(marker.exists, "user code hangs")
    marker.unlink()
    cluster.lose_slot(1)
    wait_until(lambda: handle.attempt > 1 and marker.exists(), "the next attempt has come as far", 120.0)
    handle.cancel("120s")


def never(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(3600)
    return row


def test_calls_that_hang_leak_no_thread_over_restarts(start: Start, tmp_path: Path) -> None:
    """Their threads cannot be ended, so a restart replaces each process that has some."""
    capacity = 30
    job = Job(
        "hanging calls",
        parallelism=2,
        checkpoints=settings()(str(tmp_path / "chk")),
        execution=small(cancel_timeout="200ms"),
        restart=RESTART,
    )
    stream = job.source(Rate(rows_per_second=1000), uid="rows")
    stream.async_map(never, schema=stream.schema, capacity=capacity, on_timeout=dict, uid="asks").sink(
        Files(tmp_path / "out"), uid="out"
    )
    cluster = ProcessCluster()
    handle = start(job, cluster)

    def threads() -> list[int]:
        with contextlib.suppress(OSError):
            return [len(os.listdir(f"/proc/{pid}/task")) for pid in cluster.worker_pids()]
        return []

    for attempt in (1, 2):
        wait_until(lambda: len(threads()) == 2 and min(threads()) > capacity, "all calls hang in both processes")
        os.kill(max(cluster.worker_pids()), signal.SIGKILL)
        wait_until(lambda attempt=attempt: handle.attempt > attempt, "the next attempt")  # type: ignore[misc]
    wait_until(lambda: len(threads()) == 2 and min(threads()) > capacity, "all calls hang in both processes")
    assert max(threads()) < 2 * capacity
    handle.cancel("120s")


def test_two_jobs_side_by_side(start: Start, tmp_path: Path) -> None:
    cluster = ProcessCluster(slots=4)
    jobs = [job_of(f"job {number}", tmp_path / str(number)) for number in range(2)]
    handles = [start(job.job, cluster) for job in jobs]
    with pytest.raises(ConfigurationError, match="other jobs hold 4"):
        job_of("too many", tmp_path / "3").job.start(cluster)
    wait_for_checkpoints(handles[0], 1)
    cluster.lose_slot(1, 0)
    for handle, job in zip(handles, jobs, strict=True):
        assert handle.wait("120s") is JobStatus.FINISHED
        assert job.prove().problems == ()
    assert [handle.attempt for handle in handles] == [2, 1]


def test_the_same_cluster_again_and_again(start: Start, tmp_path: Path) -> None:
    cluster = ThreadCluster(slots=2)
    for number in range(5):
        job = numbering_job(
            f"job {number}", tmp_path / str(number), rows=2000, checkpoints=settings("unaligned"), execution=small()
        )
        assert start(job.job, cluster).wait("120s") is JobStatus.FINISHED
        assert job.prove().problems == ()
