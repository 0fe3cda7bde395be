"""Connectors in whole jobs: exactly once through failures, files that appear, event time that advances in step."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import snapline as sl
from snapline.devtools.kit.exactly_once import FailOnDemand, Slow
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

SCHEMA = pa.schema([("x", pa.int64())])


def eventually(holds: Callable[[], bool], timeout_s: float = 120) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "it never came true"
        time.sleep(0.01)


def job_of(directory: Path, **options: Any) -> sl.Job:
    return sl.Job(
        "connectors",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="50ms", storage=str(directory / "chk")),
        restart=sl.FixedDelay(attempts=5, delay="10ms"),
        **options,
    )


def values(sink: sl.sinks.Collect) -> list[int]:
    found: list[int] = sorted(sink.table().column(0).to_pylist())
    return found


def put(directory: Path, name: str, start: int, count: int = 1000) -> None:
    """A file appears, complete."""
    hidden = directory / f".{name}"
    pyarrow.csv.write_csv(pa.table({"x": np.arange(start, start + count)}), hidden)
    hidden.rename(directory / name)


@pytest.mark.slow
def test_files_that_appear_are_read_once_through_failures_and_restarts(tmp_path: Path) -> None:
    incoming, fail = tmp_path / "in", tmp_path / "fail"
    incoming.mkdir()
    sink = sl.sinks.Collect(tmp_path / "out")

    def start(into: sl.sinks.Collect) -> sl.JobHandle:
        job = job_of(tmp_path, id="files")
        source = sl.sources.Files(incoming, format="csv", schema=SCHEMA, watch="20ms")
        stream = job.source(source, uid="files")
        stream.apply(FailOnDemand(str(fail)), uid="failing", schema=SCHEMA).sink(into, uid="out")
        return job.start(ThreadCluster())

    put(incoming, "a.csv", 0)
    handle = start(sink)
    eventually(lambda: len(values(sink)) == 1000)
    put(incoming, "b.csv", 1000)
    put(incoming, "c.csv", 2000)
    eventually(lambda: len(values(sink)) == 3000)
    fail.touch()
    put(incoming, "d.csv", 3000)
    eventually(lambda: len(values(sink)) == 4000)
    assert handle.attempt == 2
    put(incoming, "a.csv", 10**6)  # it is known
    handle.suspend()
    assert handle.wait() is JobStatus.SUSPENDED
    put(incoming, "e.csv", 4000)
    again = sl.sinks.Collect(tmp_path / "out")
    handle = start(again)
    eventually(lambda: len(values(again)) == 5000)
    handle.cancel()
    handle.wait()
    assert values(again) == list(range(5000))


@pytest.mark.slow
def test_draining_a_watched_directory_reads_what_was_there(tmp_path: Path) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    sink = sl.sinks.Collect()
    job = job_of(tmp_path)
    source = sl.sources.Files(incoming, format="csv", schema=SCHEMA, watch="1h")
    job.source(source, uid="files").rebalance().apply(Slow(0.02), uid="slow", schema=SCHEMA).sink(sink, uid="out")
    put(incoming, "a.csv", 0)
    handle = job.start(ThreadCluster())
    eventually(lambda: len(values(sink)) == 1000)
    for number in range(1, 9):
        put(incoming, f"{number}.csv", 1000 * number)
    handle.stop(tmp_path / "savepoints", drain=True, timeout="120s")
    assert handle.status() is JobStatus.FINISHED
    assert values(sink) == list(range(9000))


@pytest.mark.slow
def test_a_directory_that_goes_away_fails_the_attempt_and_is_read_on_when_it_is_back(tmp_path: Path) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    sink = sl.sinks.Collect()
    job = job_of(tmp_path)
    source = sl.sources.Files(incoming, format="csv", schema=SCHEMA, watch="20ms")
    job.restart = sl.FixedDelay(attempts=1000, delay="10ms")
    job.source(source, uid="files").sink(sink, uid="out")
    put(incoming, "a.csv", 0)
    handle = job.start(ThreadCluster())
    eventually(lambda: len(values(sink)) == 1000)
    incoming.rename(tmp_path / "away")
    eventually(lambda: handle.attempt > 1)
    (tmp_path / "away").rename(incoming)
    put(incoming, "b.csv", 1000)
    eventually(lambda: len(values(sink)) >= 2000)
    handle.cancel()
    handle.wait()
    assert values(sink) == list(range(2000))


class NothingLate(sl.Operator):
    """Fails if a row is older than event time."""

    _watermark_ms = -1

    def watermark(self, timestamp_ms: int) -> None:
        self._watermark_ms = timestamp_ms

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        oldest = pc.min(batch.column("at")).as_py()
        if oldest <= self._watermark_ms:
            raise ValueError(f"a row of {oldest} is late, event time is {self._watermark_ms}")
        self.context.emit(batch)


def times(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"at": pa.array(np.arange(start, start + count, dtype=np.int64))})


@pytest.mark.parametrize("splits", [None, 1, 5])
def test_event_time_advances_alike_in_all_splits(splits: int | None, tmp_path: Path) -> None:
    """Without that rows would be late as soon as one subtask has read to its end before another has begun."""
    job = sl.Job("times", parallelism=2, restart=sl.NoRestart())
    source = sl.sources.Generate(times, 50_000, schema=times(0, 0).schema, splits=splits, batch_rows=100)
    stream = job.source(source, uid="times", watermarks=sl.Watermarks("at"))
    sink = sl.sinks.Collect()
    stream.rebalance().apply(NothingLate(), uid="check", schema=source.schema).sink(sink, uid="out")
    assert job.run(ThreadCluster()) is JobStatus.FINISHED
    assert values(sink) == list(range(50_000))


def test_sources_without_rows_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for source in (
        sl.sources.Sequence(5, 5),
        sl.sources.Rate(rows=0),
        sl.sources.Iterator([], SCHEMA),
        sl.sources.Files(tmp_path / "in", schema=SCHEMA),
    ):
        job, sink = sl.Job("nothing", parallelism=2), sl.sinks.Collect()
        job.source(source, uid="source").sink(sink, uid="out")
        assert job.run(ThreadCluster()) is JobStatus.FINISHED
        assert sink.table() == source.schema.empty_table()


class Log:
    """Writes down what it is called with, one line each, in a file of its own for each subtask."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, context: sl.SinkContext) -> None:
        self._path = self._directory / f"{context.subtask}"

    def __call__(self, *arguments: Any) -> None:
        with open(self._path, "a") as file:
            rows = [arguments[0]["x"]] if len(arguments) == 1 else arguments[0].column("x").to_pylist()
            file.write(f"{arguments[-1] if len(arguments) > 1 else ''};{rows}\n")

    def lines(self) -> list[tuple[str, list[int]]]:
        found = [line.split(";") for path in self._directory.iterdir() for line in path.read_text().splitlines()]
        return [(commit_id, [int(x) for x in rows.strip("[]").split(",")]) for commit_id, rows in found]


@pytest.mark.parametrize("kind", [sl.sinks.Foreach, sl.sinks.ForeachBatch])
def test_functions_get_every_row(kind: Any, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    (tmp_path / "log").mkdir()
    job = job_of(tmp_path)
    numbers = job.source(sl.sources.Sequence(0, 2000, batch_rows=50), uid="numbers")
    numbers.map_batches(lambda batch: batch.rename_columns(["x"]), schema=SCHEMA).sink(kind(log), uid="log")
    assert job.run(ThreadCluster()) is JobStatus.FINISHED
    lines = log.lines()
    assert sorted(x for _, rows in lines for x in rows) == list(range(2000))
    if kind is sl.sinks.ForeachBatch:
        assert len({commit_id for commit_id, _ in lines}) == len(lines)
        assert all("/log/" in commit_id for commit_id, _ in lines)


def test_rows_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    job = sl.Job("print")
    job.source(sl.sources.Iterator([{"x": 1}, {"x": 2}]), uid="rows").sink(sl.sinks.Print(), uid="shown")
    assert job.run(ThreadCluster()) is JobStatus.FINISHED
    assert capfd.readouterr().out == "shown> {'x': 1}\nshown> {'x': 2}\n"


@pytest.mark.slow
def test_rows_come_back_and_are_printed_from_other_processes(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = job_of(tmp_path)
    sink = sl.sinks.Collect()
    numbers = job.source(sl.sources.Sequence(0, 3000), uid="numbers")
    numbers.sink(sink, uid="all")
    numbers.filter(pc.field("value") < 3).sink(sl.sinks.Print(), uid="shown")
    assert job.run(ProcessCluster()) is JobStatus.FINISHED
    assert values(sink) == list(range(3000))
    assert "{'value': 2}" in capfd.readouterr().err


def test_a_later_file_that_does_not_fit_ends_the_job_with_its_name(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", 0)
    (tmp_path / "b.csv").write_text("x\noops\n")
    job = sl.Job("files", restart=sl.NoRestart())
    job.source(sl.sources.Files(f"{tmp_path}/*.csv", format="csv"), uid="files").sink(sl.sinks.Print(0), uid="out")
    with pytest.raises(sl.JobFailedError, match=r"b\.csv', line 2, column 'x', cannot be read as csv"):
        job.run(ThreadCluster())
