from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.sql.query import StreamingQuery
from snapline.storage.storage_factory import has_checkpoints
from snapline.testing import ThreadCluster


def started(job: sl.Job) -> StreamingQuery:
    plan = job.explain()
    return StreamingQuery(job.start(ThreadCluster()), plan, name="rows", is_stored=True)


def job(directory: Path, rows: int | None) -> sl.Job:
    made = sl.Job("rows", checkpoints=sl.Checkpoints(interval="50ms", storage=directory / "checkpoints"))
    source = sl.sources.Rate(rows=rows, rows_per_second=None if rows else 1000)
    made.source(source, uid="rows").sink(sl.sinks.Files(directory / "out"), uid="sink")
    return made


def test_a_bounded_query_ends_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = started(job(tmp_path, 100))
    assert query.awaitTermination(30) is True
    for wrong in (-1, "a"):
        with pytest.raises(sl.ConfigurationError, match="give seconds"):
            query.awaitTermination(wrong)  # type: ignore[arg-type]
    assert not query.isActive
    assert query.status["message"] == "FINISHED"
    assert query.exception() is None
    last = query.lastProgress
    assert last is not None
    assert last["id"] == query.id
    assert sum(entry.numInputRows for entry in query.recentProgress) == 100
    query.explain()
    assert "rows" in capsys.readouterr().out


def test_a_query_that_is_stopped_goes_on_later(tmp_path: Path) -> None:
    made = job(tmp_path, None)
    query = started(made)
    assert query.isActive
    assert query.awaitTermination(0.01) is False
    query.handle.checkpoint()
    query.stop()
    assert query.handle.status() is sl.JobStatus.SUSPENDED
    assert has_checkpoints(made.checkpoints, query.handle.id)
    assert not has_checkpoints(made.checkpoints, "another")
    again = started(job(tmp_path, None))
    assert again.id == query.id
    assert again.runId != query.runId
    assert again.stop(savepoint=tmp_path / "savepoint") is not None
    assert again.stop() is None


def test_a_failure_is_told(tmp_path: Path) -> None:
    made = sl.Job("fails", restart=sl.NoRestart())

    def fails(row: sl.Row) -> sl.Row:
        raise ValueError("no such luck")

    rows = made.source(sl.sources.Rate(rows=1), uid="rows").map(fails, schema="id BIGINT")
    rows.sink(sl.sinks.Files(tmp_path), uid="sink")
    query = started(made)
    with pytest.raises(sl.JobFailedError, match="no such luck"):
        query.awaitTermination()
    with pytest.raises(StreamingQueryException, match="no such luck"):
        query.awaitTermination(1)
    with pytest.raises(StreamingQueryException) as raised:
        query.processAllAvailable()
    for error in (query.exception(), raised.value, pickle.loads(pickle.dumps(query.exception()))):
        assert isinstance(error, sl.JobFailedError)
        assert isinstance(error, StreamingQueryException)
        assert "no such luck" in str(error)
        assert error.getMessage() == str(error)
        assert "ValueError" in error.trace


def test_a_query_that_ends_when_everything_is_read_goes_on_later(tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()

    def run(start: int) -> None:
        pq.write_table(pa.table({"id": list(range(start, start + 10))}), directory / f"{start}.parquet")
        checkpoints = sl.Checkpoints(interval="50ms", storage=tmp_path / "checkpoints")
        made = sl.Job("files", checkpoints=checkpoints)
        rows = made.source(sl.sources.Files(directory, watch="1h"), uid="rows")
        rows.sink(sl.sinks.Files(tmp_path / "out"), uid="sink")
        plan = made.explain()
        query = StreamingQuery(made.start(ThreadCluster()), plan, name=None, is_stored=True, ends_when_read=True)
        assert query.awaitTermination(60) is True
        assert not query.isActive
        assert sorted(read_files(tmp_path / "out")["id"].to_pylist()) == list(range(start + 10))

    run(0)
    run(10)
