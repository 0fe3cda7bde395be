"""Data sources of PySpark in whole jobs: exactly once through killed processes, commits on time, aborts."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, override"
from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from tests.unit.connectors.data_source import sources_kit as kit

import snapline as sl
from snapline.api.job_handle import JobFailedError
from snapline.testing.clusters import ProcessCluster, ThreadCluster


def eventually(holds: Callable[[], Any], timeout_s: float = 120) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "it never came true"
        time.sleep(0.01)


def job_of(directory: Path, **options: Any) -> sl.Job:
    return sl.Job(
        "data sources",
        id="numbers",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="50ms", storage=str(directory / "chk")),
        restart=sl.FixedDelay(attempts=5, delay="10ms"),
        **options,
    )


def copying(directory: Path, source: sl.Source) -> sl.Job:
    """Reads numbers, and writes them with a data source too."""
    (directory / "out").mkdir(exist_ok=True)
    options: dict[str, Any] = {"directory": str(directory / "out"), "column": "number", "arrow": True}
    job = job_of(directory)
    sink = sl.sinks.DataSource(kit.Output, options, directory=directory / "messages")
    job.source(source, uid="numbers").sink(sink, uid="out")
    return job


def numbers_of(directory: Path, kind: Any, **options: str) -> sl.Source:
    return sl.sources.DataSource(kind, {"Directory": str(directory), **options}, poll_interval="20ms")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kit.Numbers, kit.SimpleNumbers])
def test_killed_processes_and_a_new_driver_lose_and_double_nothing(tmp_path: Path, kind: Any) -> None:
    out = tmp_path / "out"
    kit.offer(tmp_path, 400)
    cluster = ProcessCluster()
    handle = copying(tmp_path, numbers_of(tmp_path, kind, style="slow", step="150")).start(cluster)
    eventually(lambda: kit.output_numbers(out))
    os.kill(cluster.worker_pids()[0], signal.SIGKILL)
    kit.offer(tmp_path, 800)
    eventually(lambda: len(kit.output_numbers(out)) > 450)
    os.kill(cluster.worker_pids()[-1], signal.SIGKILL)
    eventually(lambda: len(kit.output_numbers(out)) == 800)
    eventually(lambda: kit.heard(tmp_path / "committed")[-1:] == [{"number": 800}])
    eventually(lambda: handle.attempt == 3 and handle.status() is sl.JobStatus.RUNNING)
    handle.suspend()
    kit.offer(tmp_path, 1200)
    assert len(kit.output_numbers(out)) == 800
    ids = [batch_id for batch_id, _, _ in kit.heard(out / ".commits")]
    assert len(ids) == len(set(ids)), "only a new driver commits again"
    handle = copying(tmp_path, numbers_of(tmp_path, kind, step="150")).start(ThreadCluster())
    eventually(lambda: len(kit.output_numbers(out)) == 1200)
    handle.cancel()
    handle.wait("120s")
    assert kit.output_numbers(out) == list(range(1200))
    commits = [(batch_id, rows) for batch_id, rows, _ in kit.heard(out / ".commits")]
    assert list(dict.fromkeys(commits)) == sorted(dict(commits).items()), "ids rise, each with the same rows"
    assert {pid for _, _, pid in kit.heard(out / ".commits")} == {os.getpid()}, "commits run on the driver"
    committed = [each["number"] for each in kit.heard(tmp_path / "committed")]
    assert committed == sorted(committed)


@pytest.mark.parametrize("kind", [kit.Numbers, kit.SimpleNumbers])
def test_offsets_are_committed_once_a_checkpoint_holds_their_rows(tmp_path: Path, kind: Any) -> None:
    kit.offer(tmp_path, 700)
    read = tmp_path / "read"
    job = sl.Job("numbers", parallelism=2, checkpoints=sl.Checkpoints(interval="1h", storage=str(tmp_path / "chk")))
    sink = sl.sinks.Foreach(lambda row: kit.said(read, row["number"]))
    job.source(numbers_of(tmp_path, kind, step="100"), uid="numbers").sink(sink, uid="out")
    handle = job.start(ThreadCluster())
    for available in (700, 1000):
        kit.offer(tmp_path, available)
        eventually(partial(has_rows, read, available))
        assert available not in committed(tmp_path)
        # Subtasks ask for more when they have read what they had; only then it is known to be read.
        eventually(partial(has_committed, handle, tmp_path, available))
    handle.cancel()
    assert committed(tmp_path) == [700, 1000]


def has_rows(read: Path, count: int) -> bool:
    return len(kit.heard(read)) == count


def has_committed(handle: sl.JobHandle, directory: Path, number: int) -> bool:
    """After one more checkpoint."""
    handle.checkpoint()
    return committed(directory)[-1:] == [number]


def committed(directory: Path) -> list[int]:
    return [each["number"] for each in kit.heard(directory / "committed")]


class FailingOutput(kit.RowOutput):
    """Fails once, when another subtask has its message already in the directory of messages."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        rows = [row[self.column] for row in iterator]
        failed = self.directory / ".failed"
        if 0 in rows and not failed.exists():
            deadline_s = time.monotonic() + 120
            while not any((self.directory.parent / "messages").rglob("1-*")):
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
            failed.touch()
            raise RuntimeError("the disk is on fire")
        return self.written(rows)


class Failing(kit.Output):
    def streamWriter(self, schema, overwrite: bool) -> DataSourceStreamWriter:
        return FailingOutput(self.options)


def test_what_can_never_be_committed_is_aborted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    job = job_of(tmp_path)
    sink = sl.sinks.DataSource(Failing, {"directory": str(out), "column": "value"}, directory=tmp_path / "messages")
    job.source(sl.sources.Sequence(0, 1000, 1, splits=2), uid="numbers").sink(sink, uid="out")
    assert job.run(ThreadCluster()) is sl.JobStatus.FINISHED
    assert kit.output_numbers(out) == list(range(1000))
    assert [rows > 0 for _, rows in kit.heard(out / ".aborts")] == [True]
    assert sorted(path.name for path in out.glob(".*")) == [".aborts", ".commits", ".failed"]
    assert not [path for path in (tmp_path / "messages").rglob("*") if path.is_file()]


class BrokenOutput(kit.RowOutput):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        next(iterator)
        raise RuntimeError("the disk is on fire")


class Broken(kit.Output):
    def streamWriter(self, schema, overwrite: bool) -> DataSourceStreamWriter:
        return BrokenOutput(self.options)


def test_an_error_in_write_fails_the_job_with_the_users_traceback(tmp_path: Path) -> None:
    job = sl.Job("broken", restart=sl.NoRestart())
    sink = sl.sinks.DataSource(Broken, {"directory": str(tmp_path)})
    job.source(sl.sources.Sequence(0, 10), uid="numbers").sink(sink, uid="out")
    with pytest.raises(JobFailedError) as failure:
        job.run(ThreadCluster())
    assert "sinks.DataSource(Broken): write() raised RuntimeError: the disk is on fire" in str(failure.value)
    assert 'raise RuntimeError("the disk is on fire")' in failure.value.trace


def test_a_dataframe_on_the_driver_needs_spark(tmp_path: Path) -> None:
    job = sl.Job("frames")
    job.source(sl.sources.Sequence(0, 10), uid="numbers").sink(
        sl.sinks.ForeachDataFrame(lambda frame, batch_id: None, tmp_path), uid="out"
    )
    with pytest.raises(sl.ConfigurationError, match="'out' cannot be written: ForeachDataFrame needs a SparkSession"):
        job.run(ThreadCluster())
