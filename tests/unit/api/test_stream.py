"""Streams: schemas, and wrong use is reported where it is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.types import Partitioning

ROWS = pa.schema(
    [
        ("user", pa.string()),
        ("value", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float32()),
        ("tags", pa.list_(pa.string())),
        ("color", pa.dictionary(pa.int8(), pa.string())),
        ("ok", pa.bool_()),
    ]
)


class Rows(sl.Source):
    """A source without rows."""

    def __init__(self, schema: Any = ROWS) -> None:
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> list[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError("never read")


class Own(sl.Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(batch)


@pytest.fixture
def job() -> sl.Job:
    return sl.Job("test")


@pytest.fixture
def rows(job: sl.Job) -> sl.Stream:
    return job.source(Rows(), "rows")


def test_a_source_gives_its_schema_without_metadata(job: sl.Job) -> None:
    assert job.source(Rows(ROWS.with_metadata({"a": "b"})), "rows").schema.metadata is None


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (pa.schema([]), "the source 'rows' has no columns"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "has the column 'a' more than once"),
        (5, "give a pyarrow.Schema"),
    ],
)
def test_a_source_with_an_unusable_schema_is_refused(job: sl.Job, schema: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        job.source(Rows(schema), "rows")


def test_what_is_no_source_or_sink_or_operator_is_refused(job: sl.Job, rows: sl.Stream) -> None:
    wrong: Any = object()
    with pytest.raises(ConfigurationError, match=r"give a Source, for example snapline.sources.Rate"):
        job.source(wrong, "x")
    with pytest.raises(ConfigurationError, match=r"give a Sink, for example snapline.sinks.Files"):
        rows.sink(wrong, "x")
    with pytest.raises(ConfigurationError, match="give an Operator; for a function there is map_batches"):
        rows.apply(wrong, "x", schema=ROWS)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ((), "needs at least one column"),
        (("nowhere",), "no column 'nowhere'; there are 'user', 'value'"),
        (("user", "user"), "'user' is given twice"),
        (("tags",), "'tags' is list"),
    ],
)
def test_a_wrong_key_is_refused(rows: sl.Stream, columns: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        rows.key_by(*columns)


def test_a_key_of_a_type_that_state_cannot_hold_is_refused(job: sl.Job) -> None:
    stream = job.source(Rows(pa.schema([("nothing", pa.null())])), "rows")
    with pytest.raises(ConfigurationError, match="key_by: the column 'nothing' is null"):
        stream.key_by("nothing")


def test_a_union_needs_one_job_and_one_schema(job: sl.Job, rows: sl.Stream) -> None:
    other = sl.Job("other").source(Rows(), "rows")
    with pytest.raises(ConfigurationError, match="streams of the same job"):
        rows.union(other)
    with pytest.raises(ConfigurationError, match="the schemas differ"):
        rows.union(rows.map_batches(lambda batch: batch.select(["user"])))
    union = rows.union(rows.filter(pc.field("ok")), rows)
    assert len(union._inputs) == 3


def test_partitioning_is_that_of_the_last_call_and_of_all_parts_of_a_union(job: sl.Job, rows: sl.Stream) -> None:
    union = rows.broadcast().union(rows)
    assert [item.partitioning for item in union._inputs] == [Partitioning.BROADCAST, Partitioning.FORWARD]
    for stream, expected in (
        (union.rebalance(), Partitioning.REBALANCE),
        (union.global_(), Partitioning.GLOBAL),
        (union.broadcast(), Partitioning.BROADCAST),
        (union.rebalance().key_by("user"), Partitioning.HASH),
    ):
        assert [item.partitioning for item in stream._inputs] == [expected] * 2
    assert {item.key_columns for item in union.key_by("user", "ok")._inputs} == {("user", "ok")}


def test_the_sink_checks_the_schema(job: sl.Job, tmp_path: Any) -> None:
    stream = job.source(Rows(pa.schema([("t", pa.timestamp("ns"))])), "rows")
    with pytest.raises(ConfigurationError, match="nanoseconds"):
        stream.sink(sl.sinks.Files(tmp_path, format="jsonl"), "out")
    assert len(job.nodes) == 1
