"""What checkpoints and restarts can be set to, each seen at work in a job that runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.integration.runtime.runtime_kit import (
    RESTART,
    AlwaysFails,
    BadSnapshot,
    Harm,
    Pass,
    SlowSnapshot,
    Start,
    completed,
    settings,
    small,
    wait_for_checkpoints,
    wait_for_restart,
    wait_until,
)

from snapline.api.job import Job
from snapline.api.job_handle import JobFailedError
from snapline.config import Checkpoints, FixedDelay, NoRestart, RestartStrategy
from snapline.connectors.files.file_sink import Files
from snapline.connectors.rate import Rate
from snapline.contracts.operator import Operator
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering, numbering_job, prove
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow


def job_with(
    directory: Path,
    operator: Operator,
    checkpoints: Checkpoints,
    restart: RestartStrategy = RESTART,
    rows: int = 10_000,
    **execution: Any,
) -> Job:
    """A job with one more operator ahead of the numbering."""
    job = Job("settings", parallelism=2, checkpoints=checkpoints, restart=restart, execution=small(**execution))
    source = Rate(10_000, rows=rows, users=20, batch_rows=200)
    stream = job.source(source, uid="rows")
    stream = stream.rebalance().apply(operator, uid="special", schema=stream.schema)
    numbered = stream.key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED)
    numbered.sink(Files(directory / "out"), uid="out")
    return job


def test_without_checkpoints_all_is_committed_at_the_end(start: Start, tmp_path: Path) -> None:
    job = numbering_job("none", tmp_path, rows=20_000, checkpoints=lambda _: Checkpoints(), execution=small())
    handle = start(job.job, ProcessCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert job.prove().problems == ()
    assert handle.checkpoints().counts.total == 0
    assert not (tmp_path / "chk").exists()


def test_without_checkpoints_the_first_failure_is_the_last(start: Start, tmp_path: Path) -> None:
    job = numbering_job(
        "none", tmp_path, rows=20_000, checkpoints=lambda _: Checkpoints(), execution=small(), fail_after_rows=3000
    )
    handle = start(job.job, ThreadCluster())
    with pytest.raises(JobFailedError, match="user code fails on purpose"):
        handle.wait("120s")
    assert job.prove().rows == 0


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"storage": None}, id="in the driver"),
        pytest.param({"storage": None, "unaligned": True}, id="in the driver, unaligned"),
        pytest.param({"max_concurrent": 2, "interval": "20ms"}, id="two at once"),
        pytest.param({"min_pause": "100ms", "interval": "10ms"}, id="pause"),
        pytest.param({"local": True, "inline_threshold": 0}, id="local copies"),
        pytest.param({"local": True, "rocksdb": True, "incremental": True}, id="local copies of rocksdb"),
        pytest.param({"rocksdb": True, "incremental": True}, id="rocksdb, incremental"),
        pytest.param({"rocksdb": True, "unaligned": True}, id="rocksdb"),
        pytest.param({"inline_threshold": 0, "compress": True, "retained": 3}, id="all in files"),
        pytest.param({"pause_sources_until_first": True}, id="sources wait for the first checkpoint"),
        pytest.param({"create_subdirectory": False, "parallel_cleanup": False}, id="no subdirectory"),
    ],
)
def test_exactly_once_whatever_the_settings(
    start: Start, tmp_path: Path, nothing_left: Path, options: dict[str, Any]
) -> None:
    options = dict(options)
    execution = small(
        state_backend="rocksdb" if options.pop("rocksdb", False) else "memory", state_directory=str(nothing_left)
    )
    if options.pop("local", False):
        options["local_directory"] = tmp_path / "local"
    job = numbering_job(
        "settings",
        tmp_path,
        rows=20_000,
        rows_per_second=12_000,
        checkpoints=settings(**options),
        restart=RESTART,
        execution=execution,
    )
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_for_checkpoints(handle)
    Harm(cluster).kill(handle)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert handle.checkpoints().counts.restored == 1
    assert job.prove().problems == ()
    assert not list((tmp_path / "local").glob("*")), "copies go with the job"


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_a_task_restarts_from_its_local_copies_alone(
    start: Start, tmp_path: Path, nothing_left: Path, backend: str
) -> None:
    """Whatever state is in storage is gone when a task fails: only the copies can bring it back."""
    fail_file = tmp_path / "fail"
    job = numbering_job(
        "local",
        tmp_path,
        rows=40_000,
        rows_per_second=10_000,
        checkpoints=settings(interval=None, inline_threshold=0, local_directory=tmp_path / "local"),
        restart=RESTART,
        execution=small(state_backend=backend, state_directory=str(nothing_left)),
        fail_file=str(fail_file),
    )
    cluster = ProcessCluster()
    handle = start(job.job, cluster)
    wait_until(lambda: handle.status() is JobStatus.RUNNING, "the job runs")
    path = Path(handle.checkpoint(timeout="120s"))
    state = [file for file in (*path.iterdir(), *path.parent.glob("shared/*")) if file.name != "_metadata"]
    assert any("numbering" in file.name for file in state)
    for file in state:
        file.unlink()
    fail_file.touch()
    wait_for_restart(handle, 1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert handle.checkpoints().counts.restored == 1
    assert job.prove().problems == ()


def test_a_pause_between_checkpoints_is_kept(start: Start, tmp_path: Path) -> None:
    checkpoints = settings(interval="10ms", min_pause="150ms")(str(tmp_path / "chk"))
    handle = start(job_with(tmp_path, Pass(), checkpoints, rows=100_000), ThreadCluster())
    wait_for_checkpoints(handle, 5)
    handle.cancel("120s")
    records = [record for record in reversed(handle.checkpoints().history) if record.completion is not None]
    assert len(records) > 3
    for before, after in itertools.pairwise(records):
        assert before.completion is not None
        assert after.trigger_ms - before.completion.completed_ms >= 149


def test_a_checkpoint_that_takes_too_long_is_given_up(start: Start, tmp_path: Path) -> None:
    checkpoints = settings(interval="100ms", timeout="1s")(str(tmp_path / "chk"))
    handle = start(job_with(tmp_path, SlowSnapshot(1.5, until_checkpoint=1), checkpoints, rows=30_000), ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 1
    failures = [record.failure.reason.value for record in handle.checkpoints().history if record.failure is not None]
    assert "CHECKPOINT_EXPIRED" in failures
    assert completed(handle) > 1
    assert prove(tmp_path / "out", 30_000).problems == ()


def test_too_many_failed_checkpoints_restart_the_job(start: Start, tmp_path: Path) -> None:
    checkpoints = settings(interval="100ms", timeout="1s", tolerable_failures=0)(str(tmp_path / "chk"))
    handle = start(job_with(tmp_path, SlowSnapshot(1.5, until_checkpoint=1), checkpoints, rows=30_000), ThreadCluster())
    wait_for_restart(handle, 1)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt >= 2
    assert prove(tmp_path / "out", 30_000).problems == ()


def test_a_snapshot_that_raises_restarts_the_job(start: Start, tmp_path: Path) -> None:
    checkpoints = settings(interval="50ms")(str(tmp_path / "chk"))
    operator = BadSnapshot(str(tmp_path / "failures"), times=2)
    handle = start(job_with(tmp_path, operator, checkpoints), ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 3
    assert prove(tmp_path / "out", 10_000).problems == ()


@pytest.mark.parametrize(("restart", "attempts"), [(NoRestart(), 1), (FixedDelay(attempts=2, delay="10ms"), 3)])
def test_the_first_cause_is_told_when_the_job_fails(
    start: Start, tmp_path: Path, restart: RestartStrategy, attempts: int
) -> None:
    checkpoints = settings()(str(tmp_path / "chk"))
    job = job_with(tmp_path, AlwaysFails(str(tmp_path / "failures")), checkpoints, restart)
    handle = start(job, ProcessCluster())
    with pytest.raises(JobFailedError) as failed:
        handle.wait("120s")
    assert handle.status() is JobStatus.FAILED
    assert handle.attempt == attempts
    text, way_on = str(failed.value).splitlines()
    assert "ValueError: bad row, time" in text
    assert way_on.startswith("Mend the cause and start the job again under the id")
    assert "_deep_in_user_code" in failed.value.trace
    assert "special/" in text
