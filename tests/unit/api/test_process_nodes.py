"""Functions with state and timers in streams: event time, side outputs, and wrong use is reported at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.api.process_nodes import time_column
from snapline.errors import ConfigurationError
from snapline.testing.clusters import ThreadCluster

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


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
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
