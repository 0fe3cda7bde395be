"""Joins: their result columns, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError

LEFT = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("user", pa.dictionary(pa.int32(), pa.string())),
        pa.field("price", pa.int64(), nullable=False),
    ]
)
RIGHT = pa.schema([("id", pa.string()), ("when", pa.int64()), ("price", pa.float64()), ("user", pa.string())])


def source(schema: pa.Schema) -> sl.sources.Generate:
    return sl.sources.Generate(lambda start, count: None, schema=schema)


def pair(watermarks: bool = True) -> tuple[Any, Any]:
    job = sl.Job("joins")
    left = job.source(source(LEFT), "left", watermarks=sl.Watermarks("at") if watermarks else None)
    right = job.source(source(RIGHT), "right", watermarks=sl.Watermarks("when"))
    return left.key_by("user"), right.key_by("id")


def test_the_rows_of_a_join() -> None:
    left, right = pair()
    inner = left.join(right, uid="inner").schema
    assert inner.names == ["at", "user", "price", "when", "price_right", "user_right"]
    assert inner.field("user").type == pa.string()
    assert not inner.field("price").nullable
    full = left.join(right, how="full", suffixes=("_bid", "_ask"), change_column="op", uid="full").schema
    assert full.names == ["at", "user", "price_bid", "when", "price_ask", "user_ask", "op"]
    assert full.field("price_bid").nullable
    assert full.field("op").type == pa.string()


def test_the_rows_of_joins_by_time() -> None:
    left, right = pair()
    joined = left.interval_join(right, lower="-5s", upper=timedelta(seconds=-1), uid="interval")
    assert joined.schema.names == ["at", "user", "price", "when", "price_right", "user_right"]
    assert joined.side_output("late_right").schema == RIGHT
    windowed = left.window_join(right, sl.Sliding("10s", every="5s"), how="left", uid="windows")
    assert windowed.schema.names[-2:] == ["window_start", "window_end"]
    assert windowed.schema.field("window_end").type == pa.timestamp("us", tz="UTC")
    assert windowed.side_output("late_left").schema == LEFT


Call = Callable[[Any, Any], Any]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: a.join(b, how="outer"), "join: how='outer'; use one of 'inner', 'left', 'right', 'full'"),
        (lambda a, b: a.join("b"), "the right side is not keyed"),
        (lambda a, b: a.join(pair()[1]), "a stream of another job"),
        (lambda a, b: a.join(b, ttl="0s"), "ttl is 0"),
        (lambda a, b: a.join(b, ttl=5), "a bare number has no unit"),
        (lambda a, b: a.join(b, where="price > 1"), "where='price > 1'; give an expression"),
        (lambda a, b: a.join(b, where=pc.field("prize") > 1), "there is no column 'prize'; there are 'at'"),
        (lambda a, b: a.join(b, where=pc.field("price") + 1), "gives int64 for each row"),
        (lambda a, b: a.join(b, suffixes=("", "")), "there would be two columns 'user'"),
        (lambda a, b: a.join(b, suffixes="_right"), "give one for each side"),
        (lambda a, b: a.join(b, how="left", change_column="when"), "there would be two columns 'when'"),
        (lambda a, b: a.interval_join(b, lower="5s", upper="-5s"), "lower='5s' is later than upper='-5s'"),
        (lambda a, b: a.interval_join(b, lower="soon", upper="5s"), "not a duration"),
        (lambda a, b: a.interval_join(b, lower=0, upper="5s", on=("att", "when")), "Did you mean 'at'?"),
        (
            lambda a, b: a.interval_join(b, lower=0, upper="5s", on=("at", "price")),
            "right side: the column 'price' is double",
        ),
        (lambda a, b: a.interval_join(b, lower=0, upper="5s", on="at"), "on=(left, right)"),
        (lambda a, b: a.window_join(b, sl.Session("5s")), "give event-time windows of a fixed size"),
        (lambda a, b: a.window_join(b, sl.Tumbling("5s", processing_time=True)), "give event-time windows"),
        (lambda a, b: a.window_join(b, sl.Sliding("1h", every="1s")), "every row would be kept in 3600 windows"),
    ],
)
def test_what_does_not_fit_is_refused(call: Call, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        call(*pair())


def test_keys_have_to_be_of_the_same_types() -> None:
    left, right = pair()
    numbers = right._job.source(source(LEFT), "numbers").key_by("price")
    with pytest.raises(ConfigurationError, match=r"'price' of the left side is int64, 'id' of the right one is string"):
        numbers.join(right)
    both = right._job.source(source(LEFT), "both").key_by("user", "price")
    with pytest.raises(ConfigurationError, match="key both by the same number of columns"):
        left.join(both)


def test_joins_by_time_need_watermarks_and_one_time_column() -> None:
    left, right = pair(watermarks=False)
    with pytest.raises(ConfigurationError, match="the left side has no watermarks"):
        left.interval_join(right, lower=0, upper="5s")
    with pytest.raises(ConfigurationError, match="the right side has no watermarks"):
        right.window_join(left, sl.Tumbling("5s"))
    left, right = pair()
    joined = left.interval_join(right, lower=0, upper="5s", uid="once").key_by("user")
    with pytest.raises(ConfigurationError, match="its rows have 2 of these columns; choose one"):
        joined.interval_join(right, lower=0, upper="5s", suffixes=("", "_again"))
    by_time = right._job.source(source(RIGHT), "timed", watermarks=sl.Watermarks("when")).key_by("when")
    with pytest.raises(ConfigurationError, match="'when' of the left side is one of its keys"):
        by_time.interval_join(by_time, lower=0, upper="5s")


def test_rows_that_cannot_be_kept_are_refused() -> None:
    odd = pa.schema([("id", pa.string()), ("tags", pa.list_(pa.string_view()))])
    left, _ = pair()
    with pytest.raises(ConfigurationError, match=r"the column 'tags' of the type list<.*> cannot be"):
        left.join(left._job.source(source(odd), "odd").key_by("id"))
