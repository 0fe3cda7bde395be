"""Savepoints and retained checkpoints: stopped, restored and rescaled, every row counts exactly once over all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    Harm,
    Start,
    settings,
    small,
    wait_for_checkpoints,
    wait_until,
)

from snapline.api.job import Job
from snapline.api.job_handle import SnapshotFailedError
from snapline.connectors.files.file_sink import Files, read_files
from snapline.connectors.rate import Rate
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering, NumberingJob, Slow, numbering_job, prove
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

ROWS = 20_000


def run_of(number: int, directory: Path, parallelism: int, mode: str = "aligned", **checkpoints: Any) -> NumberingJob:
    """One run of a pipeline: a job of its own, with the output of all. Four splits can be read by any number."""
    slow = checkpoints.pop("slow", 0.0)
    rows_per_second = checkpoints.pop("rows_per_second", 12_000)
    earlier_outputs = checkpoints.pop("earlier_outputs", ())
    return numbering_job(
        f"run {number}",
        directory,
        id=f"run-{number}",
        rows=ROWS,
        rows_per_second=None if slow else rows_per_second,
        slow=slow,
        splits=4,
        parallelism=parallelism,
        checkpoints=settings(mode, **checkpoints),
        restart=RESTART,
        execution=small(),
        earlier_outputs=earlier_outputs,
    )


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_stop_and_restore_with_other_parallelisms(start: Start, tmp_path: Path, mode: str) -> None:
    path: str | None = None
    for number, parallelism in enumerate((2, 3, 1)):
        job = run_of(number, tmp_path, parallelism, mode, restore_from=path, rows_per_second=1_500)
        handle = start(job.job, ThreadCluster())
        wait_for_checkpoints(handle, 2)
        path = handle.stop(tmp_path / "savepoints", timeout="120s")
        assert handle.status() is JobStatus.FINISHED
        assert not job.prove().is_exactly_once, "the job was to be stopped before its end"
    last = run_of(9, tmp_path, 2, mode, restore_from=path)
    assert start(last.job, ThreadCluster()).wait("120s") is JobStatus.FINISHED
    assert last.prove().problems == ()


def test_stop_with_drain(start: Start, tmp_path: Path) -> None:
    first = run_of(1, tmp_path, 2)
    handle = start(first.job, ThreadCluster())
    wait_for_checkpoints(handle, 1)
    path = handle.stop(tmp_path / "savepoints", drain=True, timeout="120s")
    assert handle.status() is JobStatus.FINISHED
    second = run_of(2, tmp_path, 2, restore_from=path)
    assert start(second.job, ThreadCluster()).wait("120s") is JobStatus.FINISHED
    assert second.prove().problems == ()


def test_a_savepoint_does_not_disturb_and_can_be_gone_back_to(start: Start, tmp_path: Path) -> None:
    """The run that goes on from the savepoint has an output of its own, as both have written what comes after it."""
    first = run_of(1, tmp_path / "a", 2, "unaligned")
    handle = start(first.job, ThreadCluster())
    wait_for_checkpoints(handle, 1)
    path = handle.savepoint(tmp_path / "savepoints", timeout="120s")
    assert handle.wait("120s") is JobStatus.FINISHED
    assert first.prove().problems == ()
    before = set(read_files(first.output)["id"].to_pylist())
    second = run_of(2, tmp_path / "b", 3, restore_from=path, earlier_outputs=[first.output])
    assert start(second.job, ThreadCluster()).wait("120s") is JobStatus.FINISHED
    after = read_files(second.output)["id"].to_pylist()
    assert len(after) == len(set(after))
    assert 0 < len(after) < len(before)
    assert Path(path).is_dir()


@pytest.mark.parametrize("claim_mode", ["NO_CLAIM", "CLAIM"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_retained_unaligned_checkpoint_is_restored_with_another_parallelism(
    start: Start, tmp_path: Path, parallelism: int, claim_mode: str
) -> None:
    first = run_of(1, tmp_path, 2, "unaligned", externalized="RETAIN_ON_CANCELLATION", slow=0.1)
    handle = start(first.job, ThreadCluster())
    wait_until(lambda: handle.checkpoints().summary.persisted_bytes.max > 0, "in-flight data in a checkpoint")
    wait_for_checkpoints(handle, 1)
    handle.cancel("120s")
    latest = handle.checkpoints().latest.completed
    assert latest is not None
    assert latest.totals.persisted_bytes > 0
    assert latest.completion is not None
    assert latest.completion.external_path is not None
    path = Path(latest.completion.external_path)
    assert path.is_dir()
    second = run_of(
        2, tmp_path, parallelism, "unaligned", restore_from=str(path), claim_mode=claim_mode, slow=0.02 * parallelism
    )
    assert start(second.job, ThreadCluster()).wait("120s") is JobStatus.FINISHED
    assert second.prove().problems == ()
    assert path.exists() == (claim_mode == "NO_CLAIM")


def test_a_failure_right_after_a_rescaled_restore(start: Start, tmp_path: Path) -> None:
    first = run_of(1, tmp_path, 2, "unaligned", slow=0.1)
    handle = start(first.job, ProcessCluster())
    wait_for_checkpoints(handle, 2)
    path = handle.stop(tmp_path / "savepoints", timeout="120s")
    second = run_of(2, tmp_path, 3, "unaligned", restore_from=path, slow=0.05)
    cluster = ProcessCluster()
    handle = start(second.job, cluster)
    wait_until(lambda: handle.status() is JobStatus.RUNNING, "it runs")
    Harm(cluster).kill(handle)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt > 1
    assert second.prove().problems == ()


def test_a_stop_that_fails_leaves_the_job_running(start: Start, tmp_path: Path) -> None:
    job = run_of(1, tmp_path, 2)
    handle = start(job.job, ThreadCluster())
    wait_for_checkpoints(handle, 1)
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotFailedError):
        handle.stop(tmp_path / "file", timeout="120s")
    assert handle.wait("120s") is JobStatus.FINISHED
    assert job.prove().problems == ()


def changed_edge(number: int, directory: Path, slow_parallelism: int, *, forked: bool, **options: Any) -> Job:
    """A source of two subtasks ahead of a slow operator: a rebalanced edge, or at the same parallelism a forward one.

    That is chained, unless the source is `forked` and has another consumer.
    """
    checkpoints = settings("unaligned", **options)(str(directory / "chk"))
    made = Job(
        f"run {number}", id=f"run-{number}", parallelism=2, checkpoints=checkpoints, restart=RESTART, execution=small()
    )
    rows = made.source(Rate(rows=ROWS, users=20, splits=4, batch_rows=200), uid="rows")
    slow = rows.apply(Slow(0.1 if number == 1 else 0.0), uid="slow", schema=rows.schema, parallelism=slow_parallelism)
    numbered = slow.key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED, has_state=True)
    numbered.sink(Files(directory / "out"), uid="out")
    if forked:
        rows.sink(Files(directory / "all"), uid="all")
    return made


@pytest.mark.parametrize("forked", [False, True], ids=["chained", "forward"])
def test_in_flight_data_of_an_edge_that_is_no_longer_rebalanced(start: Start, tmp_path: Path, forked: bool) -> None:
    first = changed_edge(1, tmp_path, 3, forked=forked, externalized="RETAIN_ON_CANCELLATION")
    handle = start(first, ThreadCluster())
    wait_until(lambda: handle.checkpoints().summary.persisted_bytes.max > 0, "in-flight data in a checkpoint")
    wait_for_checkpoints(handle, 1)
    handle.cancel("120s")
    latest = handle.checkpoints().latest.completed
    assert latest is not None
    assert latest.totals.persisted_bytes > 0
    assert latest.completion is not None
    second = changed_edge(2, tmp_path, 2, forked=forked, restore_from=latest.completion.external_path)
    assert start(second, ThreadCluster()).wait("120s") is JobStatus.FINISHED
    assert prove(tmp_path / "out", ROWS).problems == ()
