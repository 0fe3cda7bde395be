"""Data sources as sinks: types that are written, retries, errors. The contract and whole jobs do the rest."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, override"
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from tests.unit.connectors.data_source import sources_kit as kit

import snapline as sl
from snapline.contracts.sink import CommitResult, Committable, Permit, SinkContext
from snapline.errors import ConfigurationError, UserCodeError

CONTEXT = SinkContext("job", "out", 0, 1, 1, "job.1")
seen: list[Any] = []


class Keeping(DataSource):
    """Keeps what it is given in this module."""

    def streamWriter(self, schema, overwrite: bool) -> DataSourceStreamWriter:
        seen.append((schema.simpleString(), overwrite))
        return KeepingWriter(self.options.get("message", "good"))


class KeepingWriter(DataSourceStreamWriter):
    def __init__(self, message: str) -> None:
        self.message = message

    def write(self, iterator: Iterator[Row]) -> Any:
        seen.extend(iterator)
        return {"good": WriterCommitMessage(), "none": None, "wrong": 42}[self.message]

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        if batchId == 13:
            raise ConnectionResetError("away")
        if batchId == 14:
            raise KeyError("broken")
        seen.append((batchId, len(messages)))


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def test_rows_reach_the_writer_as_spark_gives_them() -> None:
    sink = sl.sinks.DataSource(Keeping, overwrite=True)
    kind = pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.large_string()))])
    schema = pa.schema([("n", pa.uint32()), ("s", kind), ("d", pa.dictionary(pa.int8(), pa.string()))])
    sink.check(schema)
    writer = sink.writer(CONTEXT)
    rows = [{"n": 2**32 - 1, "s": {"a": 1, "b": ["x"]}, "d": "y"}, {"n": None, "s": None, "d": None}]
    writer.write(pa.RecordBatch.from_pylist(rows, schema))
    assert len(writer.prepare(1)) == 1
    assert seen == [
        ("struct<n:bigint,s:struct<a:smallint,b:array<string>>,d:string>", True),
        Row(n=2**32 - 1, s=Row(a=1, b=["x"]), d="y"),
        Row(n=None, s=None, d=None),
    ]
    assert writer.prepare(2) == ()


def test_types_that_spark_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"sinks.DataSource\(Keeping\): the column 'x' is duration"):
        sl.sinks.DataSource(Keeping).check(pa.schema([("x", pa.duration("s"))]))
    with pytest.raises(ConfigurationError, match="has no method streamWriter"):
        sl.sinks.DataSource(kit.Numbers)
    with pytest.raises(ConfigurationError, match="give one of the local file system"):
        sl.sinks.DataSource(Keeping, directory="s3://bucket/x")


@pytest.mark.parametrize("message", ["none", "wrong"])
def test_messages_are_none_or_of_the_class_for_them(message: str) -> None:
    sink = sl.sinks.DataSource(Keeping, {"message": message})
    sink.check(pa.schema([("x", pa.int64())]))
    writer = sink.writer(CONTEXT)
    writer.write(pa.record_batch({"x": [1]}))
    if message == "wrong":
        with pytest.raises(UserCodeError, match=r"write\(\) gave 42; it must give a WriterCommitMessage"):
            writer.prepare(1)
        return
    (payload,) = writer.prepare(1)
    committer = sink.global_committer(CONTEXT)
    result = committer.commit(Committable("job.1/out.commit/0/1/1/0", 1, [payload, payload]), Permit(1, 1))
    assert result is CommitResult.COMMITTED
    assert seen[-1] == (1, 2)


def test_commits_are_tried_again_while_something_outside_is_away(tmp_path: Path) -> None:
    sink = sl.sinks.DataSource(Keeping)
    sink.check(pa.schema([("x", pa.int64())]))
    committer = sink.global_committer(CONTEXT)
    permit = Permit(1, 20)
    assert committer.commit(Committable("job.1/out.commit/0/1/13/0", 13, []), permit) is CommitResult.RETRY_LATER
    with pytest.raises(UserCodeError, match=r"sinks.DataSource\(Keeping\): commit\(\) raised KeyError: 'broken'"):
        committer.commit(Committable("job.1/out.commit/0/1/14/0", 14, []), permit)


def test_what_another_sink_prepared_is_refused() -> None:
    sink = sl.sinks.DataSource(Keeping)
    sink.check(pa.schema([("x", pa.int64())]))
    with pytest.raises(UserCodeError, match="was prepared by another kind of sink"):
        sink.global_committer(CONTEXT).commit(Committable("job.1/out.commit/0/1/1/0", 1, ["/x"]), Permit(1, 1))


def test_messages_that_cannot_be_kept_for_aborts_are_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    sink = sl.sinks.DataSource(Keeping, directory=tmp_path / "file")
    sink.check(pa.schema([("x", pa.int64())]))
    writer = sink.writer(CONTEXT)
    writer.write(pa.record_batch({"x": [1]}))
    assert [payload["entry"] for payload in writer.prepare(1)] == [""]
    assert "a message is not kept for aborts" in caplog.text


def test_a_driver_commits_a_batch_once(tmp_path: Path) -> None:
    sink = sl.sinks.DataSource(Keeping)
    sink.check(pa.schema([("x", pa.int64())]))
    for attempt in (1, 2):
        committer = sink.global_committer(SinkContext("job", "out", 0, 1, attempt, "job.1"))
        for number in (1, 2):
            committer.commit(Committable(f"job.1/out.commit/0/1/{number}/0", number, []), Permit(attempt, 2))
    committer.commit(Committable("job.2/out.commit/0/1/1/0", 1, []), Permit(1, 1))
    assert [entry for entry in seen if isinstance(entry[0], int)] == [(1, 0), (2, 0), (1, 0)]
