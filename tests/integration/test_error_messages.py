"""Mistakes are reported when the job is built: which operator, which column, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, UserCodeError
from snapline.testing.operator_harness import OperatorHarness

SCHEMA = "user STRING, time BIGINT, price DOUBLE, tags ARRAY<STRING>"
FIRST = {"user": "ann", "time": 1, "price": 2.0, "tags": ["x"]}
BY_TIME = sl.Watermarks("time")
PRICES = pa.table({"user": ["ann"], "vip": [True]})


class Nothing(sl.ProcessFunction):
    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None: ...


def rows(name: str = "clicks", watermarks: sl.Watermarks | None = BY_TIME) -> Any:
    source = sl.sources.Iterator([FIRST], schema=SCHEMA)
    return sl.Job("test").source(source, name, watermarks=watermarks)


def keyed(watermarks: sl.Watermarks | None = BY_TIME) -> Any:
    return rows(watermarks=watermarks).key_by("user")


def two() -> tuple[Any, Any]:
    job = sl.Job("test")
    made = []
    for name in ("left", "right"):
        source = sl.sources.Iterator([FIRST], schema=SCHEMA)
        made.append(job.source(source, name, watermarks=sl.Watermarks("time")))
    return made[0].key_by("user"), made[1].key_by("user")


def joined(call: str, **options: Any) -> Any:
    left, right = two()
    return getattr(left, call)(right, uid="mine", **options)


NO_USER = "there is no column 'usr'; there are 'user', 'time', 'price', 'tags'. Did you mean 'user'?"

TYPOS: dict[str, Callable[[], Any]] = {
    "select": lambda: rows().select("usr", uid="mine"),
    "select: named": lambda: rows().select(name="usr", uid="mine"),
    "select: expression": lambda: rows().select(name=pc.field("usr"), uid="mine"),
    "with_columns": lambda: rows().with_columns(name="usr", uid="mine"),
    "with_columns: expression": lambda: rows().with_columns(name=pc.utf8_upper(pc.field("usr")), uid="mine"),
    "drop": lambda: rows().drop("usr", uid="mine"),
    "rename": lambda: rows().rename({"usr": "name"}, uid="mine"),
    "filter": lambda: rows().filter(pc.field("usr") == "ann", uid="mine"),
    "lookup": lambda: rows().lookup(PRICES, on="usr", uid="mine"),
    "lookup: mapping": lambda: rows().lookup(PRICES, on={"usr": "user"}, uid="mine"),
    "with_watermarks": lambda: rows().with_watermarks(sl.Watermarks("usr"), uid="mine"),
    "aggregate": lambda: keyed().aggregate(n=sl.max("usr"), uid="mine"),
    "aggregate: where": lambda: keyed().aggregate(n=sl.count(where=pc.field("usr") == "ann"), uid="mine"),
    "aggregate: where by name": lambda: keyed().aggregate(n=sl.count(where="usr"), uid="mine"),
    "aggregate: top_n": lambda: keyed().aggregate(n=sl.top_n("time", 3, by="usr"), uid="mine"),
    "aggregate: collect": lambda: keyed().aggregate(n=sl.collect("usr"), uid="mine"),
    "aggregate: count_distinct": lambda: keyed().aggregate(n=sl.count_distinct("usr"), uid="mine"),
    "window aggregate": lambda: keyed().window(sl.Tumbling("1s")).aggregate(n=sl.sum("usr"), uid="mine"),
    "deduplicate": lambda: keyed().deduplicate(keep="last", by="usr", uid="mine"),
    "top_n": lambda: keyed().top_n(3, by="usr", uid="mine"),
    "top_n: several": lambda: keyed().top_n(3, by=["time", "usr"], uid="mine"),
    "map_with_state": lambda: keyed().map_with_state(
        lambda state, value: (state, value), state=int, schema="user STRING, n BIGINT", columns=("usr",), uid="mine"
    ),
    "interval_join": lambda: joined("interval_join", lower="0s", upper="1s", on=("usr", "time")),
    "window_join": lambda: joined("window_join", window=sl.Tumbling("1s"), on=("time", "usr")),
}


@pytest.mark.parametrize("call", TYPOS)
def test_a_wrong_column_is_told_with_the_operator_and_the_right_one(call: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        TYPOS[call]()
    message = str(caught.value)
    assert "'mine'" in message
    assert call.partition(":")[0] in message
    assert NO_USER in message


@pytest.mark.parametrize(
    ("call", "begin"),
    [
        (lambda: rows().key_by("usr"), "key_by"),
        (lambda: keyed().window(sl.Tumbling("1s"), on="usr"), "window Tumbling('1s')"),
        (lambda: rows(watermarks=sl.Watermarks("usr")), "watermarks of the source 'clicks'"),
    ],
)
def test_calls_without_a_uid_tell_what_they_are(call: Callable[[], Any], begin: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{begin}: {NO_USER}")):
        call()


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    # Something else than a column.
    (lambda: rows().key_by(), "key_by() needs at least one column"),
    (lambda: rows().key_by(lambda row: row["user"]), "keys are columns; make one of it with with_columns(key=...)"),
    (lambda: rows().key_by(pc.field("user")), "keys are columns"),
    (lambda: rows().key_by("tags"), "the column 'tags' is list"),
    (lambda: rows().select(5), "select(5): give names of columns, or expressions"),
    (lambda: rows().with_columns(x="price + 1"), "text is the name of a column. An expression is one of"),
    (lambda: rows().with_columns(x="price + 1"), "write pc.field('price') + 1"),
    (lambda: keyed().aggregate(n=sl.count(where="price > 3")), "write pc.field('price') > 3"),
    (lambda: rows().with_columns(uid=pc.field("user")), "with_columns: uid= is an argument of the call"),
    (lambda: rows().select("user", parallelism=pc.field("time")), "rename({'other': 'parallelism'})"),
    (lambda: rows().with_columns(uid="user"), "for a column of such a name use another name, then rename()"),
    (lambda: keyed().aggregate(uid=sl.count()), "aggregate: uid= is an argument of the call"),
    # Watermarks.
    (lambda: rows(watermarks="time"), "the source 'clicks': 'time' does not say how late"),  # type: ignore[arg-type]
    (lambda: rows().with_watermarks("price"), "give snapline.Watermarks('price', delay='5s')"),
    (lambda: rows().with_watermarks(5), "give snapline.Watermarks('time', delay='5s')"),
    (lambda: rows(watermarks=sl.Watermarks("user")), "the column 'user' is string; use a timestamp"),
    (lambda: keyed(None).window(sl.Tumbling("1s")), "window Tumbling('1s'): there are no watermarks"),
    (lambda: keyed(None).window(sl.Session("1min")), "watermarks=snapline.Watermarks(column), use .with_watermarks()"),
    (
        lambda: keyed(None).interval_join(keyed(), lower="0s", upper="1s", uid="mine"),
        "'mine': interval_join: the right side is a stream of another job",
    ),
    # Windows and their triggers.
    (lambda: keyed().window("10s"), "window('10s'): give snapline.Tumbling(...)"),
    (lambda: keyed().window(sl.Tumbling("10s")).trigger(sl.count()), "trigger(snapline.count()); give"),
    (lambda: keyed().window(sl.GlobalWindow()).aggregate(n=sl.count()), ".trigger(snapline.EveryRows(...))"),
    (lambda: keyed().window(sl.Tumbling("10s")).aggregate(), "nothing to compute; name an aggregate"),
    # Two streams.
    (lambda: two()[0].join(rows()), "join: the right side is not keyed; write join(right.key_by(...)), not <Stream"),
    (lambda: keyed().connect(5), "give a stream of the same job"),
    (lambda: rows().union(keyed()), "union: give streams of the same job"),
    (
        lambda: rows().lookup({"user": ["ann"]}, on="user"),
        "give a pyarrow.Table, or a Spark, pandas or Polars DataFrame",
    ),
    (lambda: rows().lookup(PRICES, on={"user": "vpi"}), "in the table: there is no column 'vpi'; there are 'user'"),
    (lambda: rows().side_output("late"), "the preceding operator has none"),
    # Schemas.
    (lambda: rows().map(dict, schema="user STRIN", uid="mine"), "operator 'mine': the schema of map(): "),
    (lambda: rows().map(dict, schema="STRING"), "a type without columns; name them, as in 'value STRING'"),
    (lambda: rows().map(dict, schema={"user": "string"}), "give a pyarrow.Schema, text such as 'user STRING"),
    (lambda: rows().flat_map(dict, schema="a INT, a INT"), "there are two columns 'a'"),
    (lambda: rows().map_batches(lambda batch: batch.column(0)), "give the schema of its result with"),
    (lambda: rows().process(Nothing, schema=SCHEMA), "not the class"),
    (lambda: rows().process(lambda row: row, schema=SCHEMA, uid="mine"), "operator 'mine': process("),
    (lambda: rows().map("upper", schema=SCHEMA), "map('upper'): give a function"),
    (lambda: rows().filter("price > 3"), "give an expression such as pc.field('value') > 0"),
    (lambda: rows().filter(pc.field("price")), "give a condition"),
    # Durations.
    (lambda: keyed().deduplicate(ttl=5, uid="mine"), "operator 'mine': deduplicate: ttl=5"),
    (lambda: joined("join", ttl="1 moon"), "operator 'mine': join: ttl='1 moon'"),
    (lambda: keyed().update_state(dict, state=int, schema=SCHEMA, ttl=0), "update_state: ttl is 0"),
    # Sources and sinks.
    (lambda: sl.Job("test").source([1, 2], "it"), "source([1, 2]): give snapline.sources.Iterator(list)"),  # type: ignore[arg-type]
    (lambda: sl.Job("test").source(PRICES, "it"), "snapline.sources.Iterator([batch])"),
    (lambda: sl.Job("test").source(5, "it"), "snapline.sources.Rate"),  # type: ignore[arg-type]
    (lambda: sl.sources.Iterator([("ann", 1)]), "such as schema='user STRING, n BIGINT'"),
    (lambda: rows().sink("out", "out"), "give a Sink, for example snapline.sinks.Files(directory)"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_say_what_to_do(number: int) -> None:
    call, expected = MISTAKES[number]
    with pytest.raises(ConfigurationError, match=re.escape(expected)) as caught:
        call()
    assert " at 0x" not in str(caught.value).replace("<function", "").replace("<lambda> at 0x", "")


def wrong_type(row: dict[str, Any]) -> dict[str, Any]:
    return {"user": 5, "n": row["time"]}


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda stream: stream.map(wrong_type, schema="user STRING, n BIGINT", uid="mine"),
            "map 'mine' gave the column 'user' other values than its schema says, string: 5 is no value of type "
            "string: it is int, not text",
        ),
        (
            lambda stream: stream.map(lambda row: {"n": 1.5}, schema="n BIGINT", uid="mine"),
            "map 'mine' gave the column 'n' other values than its schema says, int64: 1.5 is no value of type",
        ),
        (
            lambda stream: stream.map(lambda row: {"usr": "x"}, schema="user STRING", uid="mine"),
            "map 'mine' gave a row without 'user' and with 'usr' (did you mean 'user'?)",
        ),
        (lambda stream: stream.map(lambda row: None, schema=SCHEMA, uid="mine"), "map 'mine' gave None; a row must"),
        (lambda stream: stream.map(lambda row: row["x"], schema=SCHEMA, uid="mine"), "map 'mine' raised KeyError: 'x'"),
        (
            lambda stream: stream.flat_map(lambda row: row, schema=SCHEMA, uid="mine"),
            "it must return several rows, for example a list of dicts",
        ),
        (lambda stream: stream.filter(lambda row: "yes", uid="mine"), "filter 'mine': the function gave 'yes'"),
        (
            lambda stream: stream.map_batches(lambda batch: batch, schema="user STRING", uid="mine"),
            "map_batches 'mine' gave a batch with 'time', 'price', 'tags'; its schema has 'user'",
        ),
        (
            lambda stream: stream.map_batches(lambda batch: 5, schema="user STRING", uid="mine"),
            "map_batches 'mine' raised TypeError: it gave 5; it must return a RecordBatch",
        ),
        (
            lambda stream: stream.key_by("user").map_with_state(
                lambda state, row: 5, state=int, schema=SCHEMA, uid="mine"
            ),
            "map_with_state 'mine'",
        ),
    ],
)
def test_functions_that_give_the_wrong_thing_are_named(build: Callable[[Any], sl.Stream], expected: str) -> None:
    with OperatorHarness.of(build(rows())) as it, pytest.raises(UserCodeError, match=re.escape(expected)):
        it.process([FIRST, FIRST])
