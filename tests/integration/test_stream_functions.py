"""Functions of all kinds in one job: their schemas, and their results."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

OUT = pa.schema([("user", pa.string()), ("n", pa.int64())])
Row = dict[str, Any]


class Same(sl.ProcessFunction):
    def process(self, row: Row, context: sl.ProcessContext) -> None:
        context.emit({"user": row["user"], "n": row["value"]})


class Both(sl.CoProcessFunction):
    def process_first(self, row: Row, context: sl.ProcessContext) -> None: ...

    def process_second(self, row: Row, context: sl.ProcessContext) -> None: ...


@pytest.fixture
def job() -> sl.Job:
    return sl.Job("test")


@pytest.fixture
def rows(job: sl.Job) -> sl.Stream:
    return job.source(sl.sources.Rate(rows=100, users=5), "rows", watermarks=sl.Watermarks("time"))


def test_results_of_functions_have_the_declared_schema(rows: sl.Stream) -> None:
    ddl = "user STRING, n BIGINT"
    for stream in (
        rows.map(lambda row: row, schema=ddl),
        rows.flat_map(lambda row: [], schema=ddl),
        rows.map_batches(lambda batch: batch, schema=ddl),
        rows.process(Same(), schema=ddl),
        rows.async_map(lambda row: row, schema=ddl, uid="x"),
        rows.key_by("user").process(Same(), schema=ddl, uid="x"),
        rows.key_by("user").map_with_state(lambda state, row: (state, row), state=int, schema=ddl, uid="x"),
        rows.key_by("user").update_state(lambda old, groups, batch: (old, None), state=int, schema=ddl, uid="x"),
        rows.connect(rows).process(Both(), schema=ddl),
    ):
        assert stream.schema == OUT
    assert rows.select("user", n=pc.field("value")).drop("n").rename({"user": "who"}).schema.names == ["who"]
    assert rows.with_columns(n=pc.field("value") + 1).schema.names == ["id", "user", "value", "time", "n"]


def test_all_of_them_run(job: sl.Job, rows: sl.Stream, tmp_path: Any) -> None:
    def user_and_value(row: Row) -> Row:
        return {"user": row["user"], "n": row["value"]}

    (
        rows.filter(lambda row: row["id"] % 2 == 0)
        .map(user_and_value, schema=OUT)
        .flat_map(lambda row: [row, row], schema=OUT)
        .with_columns(value=pc.field("n") * 0 + 1)
        .process(Same(), schema=OUT)
        .key_by("user")
        .map_with_state(lambda state, n: ((state or 0) + n,) * 2, state=int, schema=OUT, columns=("n",), uid="sums")
        .async_map(lambda row: row, schema=OUT, uid="asked")
        .sink(sl.sinks.Files(tmp_path), uid="out")
    )
    assert job.run(ThreadCluster()) is JobStatus.FINISHED
    table = sl.sinks.read_files(tmp_path).group_by("user").aggregate([("n", "max")])
    assert pc.sum(table["n_max"]).as_py() == 100
