"""Collect: committed rows return to the program that started the job."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, StorageError, UserCodeError

PERMIT = sl.Permit(9, 99)
SCHEMA = pa.schema([("x", pa.int64())])
CONTEXT = sl.SinkContext("job", "out", 0, 1, 1)


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def committed(sink: sl.Sink, *values: int) -> None:
    sink.starting("job")
    writer = sink.writer(CONTEXT)
    writer.write(rows(*values))
    for payload in writer.prepare(1):
        writer.commit(sl.Committable("name", 1, payload), PERMIT)
    writer.close()


def test_collected_rows_have_exactly_the_schema_of_the_stream() -> None:
    schema = pa.schema(
        [("d", pa.dictionary(pa.int8(), pa.string())), ("t", pa.time32("s")), ("u", pa.uint32()), ("n", pa.null())]
    )
    sink = sl.sinks.Collect()
    sink.check(schema)
    assert sink.table() == schema.empty_table()
    sink.starting("job")
    assert sink.table() == schema.empty_table()
    batch = pa.RecordBatch.from_pylist([{"d": "a", "t": None, "u": 1, "n": None}], schema=schema)
    other = pa.RecordBatch.from_pylist([{"d": "b", "t": None, "u": 2, "n": None}], schema=schema)
    writer = sink.writer(CONTEXT)
    writer.write(batch)
    writer.write(other)
    for payload in writer.prepare(1):
        writer.commit(sl.Committable("name", 1, payload), PERMIT)
    assert sink.table().schema == schema
    assert sink.table().to_pylist() == [*batch.to_pylist(), *other.to_pylist()]


def test_a_temporary_directory_goes_with_its_sink() -> None:
    sink = sl.sinks.Collect()
    sink.check(SCHEMA)
    committed(sink, 1)
    directory = Path(sink._directory)
    assert directory.exists()
    del sink
    gc.collect()
    assert not directory.exists()


def test_a_directory_that_is_given_stays_and_adds_up(tmp_path: Path) -> None:
    for value in (1, 2):
        sink = sl.sinks.Collect(tmp_path / "rows")
        sink.check(SCHEMA)
        committed(sink, value)
    assert sorted(sink.table().column("x").to_pylist()) == [1, 2]


def test_rows_are_those_of_the_job_that_was_started_last(tmp_path: Path) -> None:
    sink = sl.sinks.Collect(tmp_path / "rows")
    sink.check(SCHEMA)
    committed(sink, 1)
    sink.starting("job-2")
    assert sink.table() == SCHEMA.empty_table()
    writer = sink.writer(replace(CONTEXT, job_id="job-2"))
    writer.write(rows(2))
    for payload in writer.prepare(1):
        writer.commit(sl.Committable("name", 1, payload), PERMIT)
    assert sink.table().column("x").to_pylist() == [2]
    sink.starting("job")  # it goes on
    assert sink.table().column("x").to_pylist() == [1]


def test_a_directory_that_is_not_shared_is_an_error(tmp_path: Path) -> None:
    sink = sl.sinks.Collect(tmp_path / "rows")
    sink.check(SCHEMA)
    (tmp_path / "rows").rename(tmp_path / "elsewhere")
    (tmp_path / "rows").mkdir()
    with pytest.raises(StorageError, match="give a directory that all executors share"):
        sink.writer(CONTEXT)


def test_too_many_rows_are_an_error_where_they_are_written_and_where_they_are_read() -> None:
    sink = sl.sinks.Collect(max_rows=3)
    sink.check(SCHEMA)
    committed(sink, 1, 2)
    with pytest.raises(UserCodeError, match="there are more than 3 rows"):
        committed(sink, 1, 2, 3, 4)
    committed(sink, 3, 4)
    with pytest.raises(UserCodeError, match="there are more than 3 rows"):
        sink.table()


def test_wrong_use_of_collect_is_refused() -> None:
    sink = sl.sinks.Collect()
    with pytest.raises(ConfigurationError, match="not a sink of any job yet"):
        sink.table()
    sink.check(SCHEMA)
    with pytest.raises(ConfigurationError, match="takes the rows of one stream"):
        sink.check(SCHEMA)
    with pytest.raises(ConfigurationError, match="max_rows=0"):
        sl.sinks.Collect(max_rows=0)
    with pytest.raises(ConfigurationError, match="use a directory of a local file system"):
        sl.sinks.Collect("s3://bucket/x")
