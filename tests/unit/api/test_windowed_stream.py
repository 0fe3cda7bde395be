"""Windowed streams: result schemas, and what is refused with a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError

ROWS = pa.schema(
    [
        ("user", pa.dictionary(pa.int32(), pa.string())),
        ("time", pa.timestamp("us")),
        ("value", pa.int32()),
        ("tags", pa.list_(pa.string())),
    ]
)


ANYTHING: Any = 5


class NoRows(sl.Source):
    @property
    def schema(self) -> pa.Schema:
        return ROWS

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> list[Any]:
        return []

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError("never read")


def keyed(watermarks: sl.Watermarks | None = sl.Watermarks("time"), *columns: str) -> sl.KeyedStream:  # noqa: B008
    return sl.Job("test").source(NoRows(), "rows", watermarks=watermarks).key_by(*(columns or ("user",)))


def test_results_have_keys_bounds_and_aggregates() -> None:
    stream = (
        keyed()
        .window(sl.Tumbling("10s"))
        .aggregate(
            uid="w", n=sl.count(), best=sl.top_n("value", 3), names=sl.count_distinct("user"), average=sl.mean("value")
        )
    )
    assert stream.schema == pa.schema(
        [
            ("user", pa.string()),
            ("window_start", pa.timestamp("us")),
            ("window_end", pa.timestamp("us")),
            ("n", pa.int64()),
            ("best", pa.list_(pa.int32())),
            ("names", pa.int64()),
            ("average", pa.float64()),
        ]
    )
    assert stream._inputs[0].node.event_time == frozenset({"time"})


def test_calls_change_nothing_in_a_windowed_stream() -> None:
    window = keyed().window(sl.Tumbling("10s"))
    window.late_output("late").allowed_lateness("1s").trigger(sl.EveryRows(5))
    node = window.aggregate(uid="w", n=sl.count())._inputs[0].node
    assert node.side_outputs == {}


def aggregated(**aggregates: Any) -> Callable[[], Any]:
    return lambda: keyed().window(sl.Tumbling("1s")).aggregate(uid="w", **aggregates)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: keyed().window(ANYTHING), r"window\(5\): give snapline.Tumbling"),
        (lambda: keyed(None).window(sl.Tumbling("1s")), "there are no watermarks.*watermarks=snapline.Watermarks"),
        (lambda: keyed().window(sl.Tumbling("1s"), on="tim"), "no column 'tim'.*Did you mean 'time'"),
        (lambda: keyed().window(sl.Tumbling("1s"), on="tags"), "the column 'tags' is list.*use a timestamp"),
        (lambda: keyed().window(sl.Tumbling("1s", processing_time=True), on="time"), "on='time' has no effect"),
        (lambda: keyed().window(sl.GivenWindow(), on="time"), "on='time' has no effect"),
        (lambda: keyed().window(sl.GivenWindow()), "no column 'window_start'"),
        (lambda: keyed().window(sl.GivenWindow("time", "value")), "'time' is timestamp.*'value' is int64"),
        (lambda: keyed().window(sl.GlobalWindow()).aggregate(n=sl.count()), "never complete.*snapline.EveryRows"),
        (lambda: keyed().window(sl.GlobalWindow()).allowed_lateness("1s"), "no row can be late"),
        (lambda: keyed().window(sl.Session("1s")).trigger(sl.EveryRows(5)), "sessions merge"),
        (lambda: keyed().window(sl.GlobalWindow()).trigger(sl.EventTimeInterval("1s")), "needs windows in event time"),
        (lambda: keyed().window(sl.Tumbling("1s")).trigger(ANYTHING), r"trigger\(5\); give snapline.WhenComplete"),
        (lambda: keyed().window(sl.Tumbling("1s")).late_output(""), "give the name of a side output"),
        (
            lambda: keyed().window(sl.Sliding("1h", every="1s")).trigger(sl.EveryRows(5)).aggregate(n=sl.count()),
            "every row would be in 3600 windows",
        ),
        (lambda: keyed().window(sl.Tumbling("1s")).process(ANYTHING, schema=ROWS), "give a function of key"),
        (aggregated(), "window aggregate 'w': nothing to compute"),
        (aggregated(user=sl.count()), "'user' is a key column already"),
        (aggregated(window_end=sl.count()), "'window_end' is a window column already"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make()


def test_the_time_column_has_to_be_known() -> None:
    gone = keyed()._job.source(NoRows(), "others", watermarks=sl.Watermarks("time"))
    renamed = gone.map_batches(lambda batch: batch.rename_columns(["user", "at", "value", "tags"]), uid="rename")
    with pytest.raises(
        ConfigurationError, match=r"come from 'time', which does not identify .* give on= with one of 'user', 'at'"
    ):
        renamed.key_by("user").window(sl.Tumbling("1s"))
    stream = renamed.key_by("user").window(sl.Tumbling("1s"), on="at").aggregate(uid="w", n=sl.count())
    assert stream.schema.field("window_end").type == pa.timestamp("us")


def test_a_key_may_not_be_called_like_a_bound_unless_it_is_one() -> None:
    renamed = (
        keyed()
        ._job.source(NoRows(), "others", watermarks=sl.Watermarks("time"))
        .map_batches(lambda batch: batch.rename_columns(["window_end", "time", "value", "tags"]))
    )
    with pytest.raises(ConfigurationError, match="the key column 'window_end' has the name of a result column"):
        renamed.key_by("window_end").window(sl.Tumbling("1s"))
