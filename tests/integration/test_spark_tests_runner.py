"""The runner of Spark's tests: a job handles one micro-batch at a time, with Spark's watermarks."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.spark_tests.feed import BatchWatermarks, Feed, FeedSink, FeedSource
from benchmarks.spark_tests.suites import load
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.testing import ThreadCluster

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC"))])


class Newest(StatefulProcessor):
    """Emits the newest second of a key, and forgets it at a timer at the watermark of now."""

    def init(self, handle) -> None:
        self.handle = handle
        self.newest = handle.getValueState("newest", "second BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        seconds = [int(row.at.timestamp()) for row in rows]
        newest = max(*seconds, (self.newest.get() or (0,))[0], 0)
        self.newest.update((newest,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs())
        yield Row(id=key[0], second=newest)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        self.newest.clear()
        yield Row(id="expired", second=expiredTimerInfo.getExpiryTimeInMs() // 1000)


def _rows(*seconds: int) -> pa.RecordBatch:
    times = [datetime.datetime.fromtimestamp(second, datetime.UTC) for second in seconds]
    return pa.RecordBatch.from_pydict({"id": ["a"] * len(times), "at": times}, schema=SCHEMA)


def _run(directory: Path, first: int, *batches: pa.RecordBatch) -> list[set[tuple[Any, ...]]]:
    """What each batch gives; the job goes on with the state in the directory."""
    feed = Feed()
    checkpoints = sl.Checkpoints(interval=None, storage=directory)
    job = sl.Job("newest", id="newest", parallelism=2, checkpoints=checkpoints, restart=sl.NoRestart())
    rows = job.source(FeedSource(feed, SCHEMA), uid="input", parallelism=1)
    rows = rows._then("watermarks", BatchWatermarks("at", 10_000), SCHEMA, None, 1, time_column="at")
    newest = rows.key_by("id").transform_with_state(
        Newest(), "id STRING, second BIGINT", time_mode="event_time", micro_batches=True, uid="stateful"
    )
    newest.sink(FeedSink(feed), uid="output")
    handle = job.start(ThreadCluster())
    found = []
    for number, batch in enumerate(batches, first):
        feed.release(number, batch)
        assert feed.was_read(number, timeout_s=20), handle.cause
        handle.checkpoint(timeout="120s")
        found.append({tuple(row.values()) for part in feed.take_output() for row in part.to_pylist()})
    handle.suspend(timeout="120s")
    return found


def test_batches_are_handled_as_micro_batches(tmp_path: Path) -> None:
    assert _run(tmp_path, 0, _rows(20), _rows(4), _rows(2, 11, 13, 15)) == [
        {("a", 20), ("expired", 0)},
        {("a", 4), ("expired", 10)},
        {("a", 15), ("expired", 10)},
    ]


def test_a_query_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    assert _run(tmp_path, 0, _rows(20)) == [{("a", 20), ("expired", 0)}]
    assert _run(tmp_path, 1, _rows(30)) == [{("a", 30), ("expired", 0)}]


def test_what_is_no_checkout_of_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no checkout of Spark"):
        load(tmp_path)
