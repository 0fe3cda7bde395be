"""How streams show themselves, and what they say about methods they do not have."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError


def rows() -> Any:
    source = sl.sources.Iterator([{"user": "ann", "time": 1}])
    return sl.Job("test").source(source, "clicks", watermarks=sl.Watermarks("time"))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda it: it.window, "KeyedStream has it: call key_by(...) first"),
        (lambda it: it.aggregate, "KeyedStream has it: call key_by(...) first"),
        (lambda it: it.join, "KeyedStream has it: call key_by(...) first"),
        (lambda it: it.late_output, "WindowedStream has it: call key_by(...).window(...) first"),
        (lambda it: it.groupBy, "write key_by(...)"),
        (lambda it: it.where, "write filter(...)"),
        (lambda it: it.withColumn, "write with_columns(name=...)"),
        (lambda it: it.withWatermark, "write with_watermarks(snapline.Watermarks(column, delay='5s'))"),
        (lambda it: it.writeStream, "write sink(snapline.sinks.Files(directory), uid=...)"),
        (lambda it: it.agg, "write key_by(...).aggregate(n=snapline.count(), ...)"),
        (lambda it: it.key_by("user").agg, "write aggregate(n=snapline.count(), ...)"),
        (lambda it: it.key_by("user").filter, "Stream has it: call it before key_by(...)"),
        (lambda it: it.key_by("user").sink, "Stream has it: call it before key_by(...)"),
        (lambda it: it.key_by("user").trigger, "WindowedStream has it: call window(...) first"),
        (lambda it: it.key_by("user").agregate, "Did you mean 'aggregate'?"),
        (lambda it: it.key_by("user").window(sl.Tumbling("1s")).sum, "'WindowedStream' object has no attribute 'sum'"),
        (lambda it: it.xyz, "'Stream' object has no attribute 'xyz'"),
    ],
)
def test_what_is_elsewhere_or_called_otherwise_is_pointed_to(call: Callable[[Any], Any], expected: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(expected)):
        call(rows())


@pytest.mark.parametrize("kind", ["stream", "keyed", "windowed"])
def test_looking_for_attributes_and_copying_still_work(kind: str) -> None:
    stream = rows()
    it = {"stream": stream, "keyed": stream.key_by("user"), "windowed": stream.key_by("user").window(sl.Session("1s"))}
    found = it[kind]
    assert not hasattr(found, "groupBy")
    assert getattr(found, "nothing", None) is None
    assert copy.copy(found)._schema is found._schema
    with pytest.raises(AttributeError, match=r"has no attribute '__array__'$"):
        found.__array__  # noqa: B018


def test_streams_show_what_they_are() -> None:
    stream = rows()
    columns = "user string, time int64"
    assert repr(stream) == f"<Stream behind Iterator 'clicks': {columns}>"
    assert repr(stream.key_by("user", "time")) == f"<KeyedStream by 'user', 'time' behind Iterator 'clicks': {columns}>"
    connected = stream.connect(stream.rebalance())
    assert repr(connected) == f"<ConnectedStreams of {stream} and {stream}>"
    windowed = stream.key_by("user").window(sl.Sliding("1h", every="90s"))
    shown = f"<WindowedStream Sliding('1h', every='90s') by 'user' behind Iterator 'clicks': {columns}>"
    assert repr(windowed) == shown
    wide = stream.with_columns(**{f"column{number}": "time" for number in range(10)})
    assert repr(wide).endswith("column5 int64, and 4 more>")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (sl.Tumbling("10s"), "Tumbling('10s')"),
        (sl.Tumbling("1d", "2h", processing_time=True), "Tumbling('1d', offset='2h', processing_time=True)"),
        (sl.Sliding("5min", every="1500ms"), "Sliding('5min', every='1500ms')"),
        (sl.Session("30min"), "Session('30min')"),
        (sl.WhenComplete(early_rows=3, early_every="1s"), "WhenComplete(early_rows=3, early_every='1s')"),
        (sl.EveryRows(3, purge=True), "EveryRows(3, purge=True)"),
        (sl.EventTimeInterval("1min"), "EventTimeInterval('1min')"),
        (sl.count(), "snapline.count()"),
        (sl.top_n("price", 3, by="time"), "snapline.top_n('price', 3, by='time')"),
    ],
)
def test_windows_triggers_and_aggregates_show_as_they_are_written(made: Any, text: str) -> None:
    assert repr(made) == text


def test_a_uid_is_told_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        rows().key_by("user").aggregate(uid="mine", n=sl.sum("tim"))
    assert str(caught.value).count("'mine'") == 1


def test_keys_may_come_as_one_list() -> None:
    assert rows().key_by(["user", "time"]).key_columns == ("user", "time")
    assert rows().key_by(("user",)).key_columns == ("user",)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (lambda it: it.rename({"time": "at"}), "at"),
        (lambda it: it.rename({"time": "at", "user": "time"}), "at"),
        (lambda it: it.select("user", at="time"), "at"),
        (lambda it: it.select("user", "time", at="time"), "time"),
        (lambda it: it.with_columns(at="time").drop("time"), "at"),
        (lambda it: it.with_columns(at="time").drop("at"), "time"),
        (lambda it: it.rename({"time": "at"}).filter(lambda row: True).rename({"at": "when"}), "when"),
        (lambda it: it.rename({"time": "at"}).with_watermarks(sl.Watermarks("at")).rename({"at": "b"}), "b"),
    ],
)
def test_event_time_follows_its_column(change: Callable[[Any], Any], column: str) -> None:
    changed = change(rows())
    assert changed._inputs[0].node.event_time == {column}
    key = next(name for name in changed.schema.names if name != column)
    assert changed.key_by(key).window(sl.Tumbling("1s"))._time_column == column


def test_event_time_whose_column_is_gone_has_to_be_told() -> None:
    gone = rows().drop("time").with_columns(at=pc.utf8_length(pc.field("user")))
    assert gone._inputs[0].node.event_time == {"time"}
    with pytest.raises(ConfigurationError, match=r"give on= with one of 'user', 'at'"):
        gone.key_by("user").window(sl.Tumbling("1s"))
