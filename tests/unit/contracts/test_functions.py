"""Functions put into streams: what comes out of them, and wrong use told at the line it is written in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.api.process_nodes import time_column
from snapline.errors import ConfigurationError
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


def test_what_functions_give_has_the_schema_they_say(rows: sl.Stream) -> None:
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


def test_side_outputs_are_streams(rows: sl.Stream) -> None:
    stream = rows.key_by("user").process(Same(), schema=OUT, side_outputs={"late": "n BIGINT"}, uid="x")
    assert stream.side_output("late").schema == pa.schema([("n", pa.int64())])


def test_event_time_is_told_from_the_only_column_it_is_made_of(job: sl.Job, rows: sl.Stream) -> None:
    assert time_column(rows._inputs) == "time"
    assert time_column(rows.drop("time")._inputs) is None
    assert time_column(job.source(sl.sources.Rate(rows=1), "more")._inputs) is None
    other = rows.rename({"time": "id", "id": "time"}).with_watermarks(sl.Watermarks("id"))
    assert time_column(other._inputs) == "id"


def test_keyed_functions_need_a_uid_and_others_do_not(job: sl.Job, rows: sl.Stream) -> None:
    rows.process(Same(), schema=OUT).sink(sl.sinks.Files("nowhere"), "out")
    assert not job.nodes[-2].has_state
    rows.key_by("user").process(Same(), schema=OUT)
    assert job.nodes[-1].needs_uid
    with pytest.raises(ConfigurationError, match="uid"):
        job.start(ThreadCluster())


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


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda rows: rows.map(5, schema=OUT), r"map\(5\): give a function"),
        (lambda rows: rows.map(print, schema=None), r"the schema of map\(\) is None"),
        (lambda rows: rows.flat_map(5, schema=OUT), r"flat_map\(5\): give a function"),
        (
            lambda rows: rows.map_batches(print, format="panda"),
            "map_batches: format='panda'; use one of 'arrow', 'pandas'",
        ),
        (lambda rows: rows.map_batches(print, format="rows"), "rows do not show their schema; give the schema"),
        (lambda rows: rows.filter(print, format="x"), "filter: format='x'; use one of"),
        (lambda rows: rows.process(Same, schema=OUT), "not the class"),
        (lambda rows: rows.process(print, schema=OUT), "for a plain function use map"),
        (lambda rows: rows.process(Same(), schema=OUT, side_outputs=["x"]), "give schemas by name"),
        (lambda rows: rows.process(Same(), schema=OUT, side_outputs={"": OUT}), "cannot be the name of a side output"),
        (lambda rows: rows.process(Same(), schema=OUT, side_outputs={"x": 5}), "the side output 'x' of process"),
        (lambda rows: rows.connect(rows).process(Same(), schema=OUT), "subclass of snapline.CoProcessFunction"),
        (
            lambda rows: rows.key_by("user").connect(rows).process(Both(), schema=OUT, uid="x"),
            r"the first stream is keyed and the second is not; .*connect\(other.broadcast\(\)\)",
        ),
        (
            lambda rows: rows.connect(rows.key_by("user")).process(Both(), schema=OUT, uid="x"),
            "the second stream is keyed and the first is not",
        ),
    ],
)
def test_mistakes_are_told_at_once(rows: sl.Stream, make: Callable[[Any], Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make(rows)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_not_there_is_told(rows: sl.Stream, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=rf"needs the package '{package}'.*pip install snapline\[{package}\]"):
        rows.map_batches(lambda frame: frame, format=package)


@pytest.mark.parametrize("format", ["pandas", "polars"])
def test_the_schema_of_data_frames_is_inferred(rows: sl.Stream, format: str) -> None:
    made = rows.select("user", "value").map_batches(lambda frame: frame, format=format).schema
    assert made.names == ["user", "value"]
    assert made.field("value").type == pa.int64()
