"""Nodes of the logical graph: where event time comes from, and what needs a uid."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.api.graph_nodes import Node


@pytest.fixture
def rows() -> sl.Stream:
    return sl.Job("test").source(sl.sources.Rate(rows=1), "rows", watermarks=sl.Watermarks("time"))


def node_of(stream: sl.Stream) -> Node:
    return stream._inputs[0].node


def test_event_time_follows_its_column_through_new_names(rows: sl.Stream) -> None:
    for stream, columns in (
        (rows, {"time"}),
        (rows.filter(pc.field("value") > 0), {"time"}),
        (rows.rename({"time": "at"}), {"at"}),
        (rows.rename({"time": "at"}).rename({"at": "when"}), {"when"}),
        (rows.select("user", at="time"), {"at"}),
        (rows.with_columns(at=pc.field("time")), {"time"}),
        (rows.with_columns(at=pc.field("time")).drop("time"), {"at"}),
        (rows.drop("time"), {"time"}),
        (rows.with_watermarks(sl.Watermarks("id")), {"id"}),
    ):
        assert node_of(stream).event_time == frozenset(columns)


def test_event_time_needs_watermarks_on_all_inputs(rows: sl.Stream) -> None:
    more = rows._job.source(sl.sources.Rate(rows=1), "more")
    assert node_of(more).event_time is None
    assert node_of(rows.union(more).filter(pc.field("value") > 0)).event_time is None
    timed = more.with_watermarks(sl.Watermarks("id"))
    assert node_of(rows.union(timed).filter(pc.field("value") > 0)).event_time == frozenset({"time", "id"})


def test_what_is_stored_under_a_uid_needs_one(rows: sl.Stream) -> None:
    rows.filter(pc.field("value") > 0).key_by("user").aggregate(n=sl.count()).sink(sl.sinks.Print(), "out")
    source, stateless, stateful, sink = rows._job.nodes
    assert [node.needs_uid for node in (source, stateless, stateful, sink)] == [True, False, True, True]
    assert [str(node) for node in (source, stateless)] == ["Rate 'rows'", "filter"]


def test_a_stream_shows_where_it_comes_from_and_its_first_columns(rows: sl.Stream) -> None:
    assert repr(rows.select("id", "user")) == "<Stream behind select: id int64, user string>"
    wide = rows.select("id", **{f"c{number}": pc.field("id") for number in range(9)})
    assert repr(wide).endswith("c6 int64, and 2 more>")
    assert pa.types.is_int64(wide.schema.field("c8").type)
