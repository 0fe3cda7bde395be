"""Queries whose files are read step by step have the batches of Structured Streaming."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803  # the names are PySpark's
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import snapline as sl
from snapline.errors import ConfigurationError

pytestmark = pytest.mark.slow

SCHEMA = "k string, second long"
STEPS = (("a", 10), ("b", 15)), (("a", 31), ("c", 12)), (("b", 3), ("a", 33)), (("c", 70), ("c", 9))
Batches = list[tuple[int, list[tuple[Any, ...]]]]


def write_steps(directory: Path, steps: Sequence[Sequence[tuple[str, int]]], first: int = 0) -> None:
    """A file for each step, each a minute newer than the one before, under names in another order."""
    directory.mkdir(exist_ok=True)
    for number, rows in enumerate(steps, first):
        path = directory / f"{9 - number}.csv"
        path.write_text("".join(f"{key},{second}\n" for key, second in rows))
        os.utime(path, (1_000_000 + 60 * number,) * 2)


def read_steps(spark: SparkSession, directory: Path) -> DataFrame:
    directory.mkdir(exist_ok=True)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).csv(str(directory))
    return rows.withColumn("t", F.timestamp_seconds("second"))


def batches(write: Any, mode: str, place: Path) -> Batches:
    """The batches that a function is called with."""
    seen: Batches = []

    def note(frame: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, sorted((tuple(row) for row in frame.collect()), key=str)))

    query = write.foreachBatch(note).outputMode(mode).option("checkpointLocation", str(place)).start()
    query.processAllAvailable()
    query.stop()
    return seen


class Newest(StatefulProcessor):
    """Emits how often a key came and the newest of its seconds, and forgets it when event time is past that."""

    def init(self, handle) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "n BIGINT, second BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        seconds = [row.second for row in rows]
        count, newest = self.seen.get() or (0, 0)
        self.seen.update((count + len(seconds), max(*seconds, newest)))
        self.handle.registerTimer(max(seconds) * 1000)
        yield Row(k=key[0], n=count + len(seconds), ms=timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        self.seen.clear()
        yield Row(k=key[0], n=-1, ms=expiredTimerInfo.getExpiryTimeInMs())


def windows(rows: DataFrame) -> DataFrame:
    windowed = rows.withWatermark("t", "5 seconds").groupBy(F.window("t", "10 seconds"), "k").count()
    return windowed.select(F.unix_seconds("window.start").alias("start"), "k", "count")


def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").count()


def processed(rows: DataFrame) -> DataFrame:
    return (
        rows.withWatermark("t", "5 seconds")
        .groupBy("k")
        .transformWithState(Newest(), "k STRING, n BIGINT, ms BIGINT", "Update", "EventTime")
    )


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """What Spark needs for `transformWithState`."""
    name = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.set(name, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield
    spark.conf.unset(name)


@pytest.mark.parametrize(
    ("query", "mode"),
    [(windows, "append"), (counts, "complete"), (processed, "update")],
    ids=["windows", "counts", "processor"],
)
@pytest.mark.usefixtures("rocksdb")
def test_batches_are_those_of_spark(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame], mode: str
) -> None:
    write_steps(tmp_path / "in", STEPS)
    frame = query(read_steps(spark, tmp_path / "in"))
    expected = batches(frame.writeStream, mode, tmp_path / "spark")
    found = batches(sl.write_stream(frame), mode, tmp_path / "snapline")
    # A batch without new rows, and without a result, is not shown here.
    assert found == [batch for batch in expected if batch[0] < len(STEPS) or batch[1]]
    assert [number for number, _ in found][: len(STEPS)] == list(range(len(STEPS)))


@pytest.mark.usefixtures("rocksdb")
def test_the_format_statestore_reads_checkpoints_of_both(spark: SparkSession, tmp_path: Path) -> None:
    write_steps(tmp_path / "in", STEPS[:1])
    frame = processed(read_steps(spark, tmp_path / "in"))
    states = []
    for place, writer in ((tmp_path / "spark", frame.writeStream), (tmp_path / "snapline", sl.write_stream(frame))):
        batches(writer, "update", place)
        state = spark.read.format("statestore").option("stateVarName", "seen").load(str(place))
        states.append(sorted(state.select("key.k", "value.*").collect()))
    assert states[0] == states[1] != []
    with pytest.raises(ConfigurationError, match="cannot be read with the options batchid"):
        spark.read.format("statestore").options(stateVarName="seen", batchId=0).load(str(tmp_path / "snapline"))
    with pytest.raises(ConfigurationError, match="as state-metadata"):
        spark.read.format("state-metadata").load(str(tmp_path / "snapline"))
    with pytest.raises(ConfigurationError, match=r"needs option.'stateVarName'"):
        spark.read.format("statestore").load(str(tmp_path / "snapline"))


def test_a_query_goes_on_with_the_next_files_ids_and_watermarks(spark: SparkSession, tmp_path: Path) -> None:
    frame = windows(read_steps(spark, tmp_path / "in"))
    found = []
    for first, last in ((0, 2), (2, len(STEPS))):
        write_steps(tmp_path / "in", STEPS[first:last], first)
        expected = batches(frame.writeStream, "append", tmp_path / "spark")
        assert batches(sl.write_stream(frame), "append", tmp_path / "snapline") == expected
        found += expected
    assert [number for number, _ in found] == list(range(len(found)))
    assert any(rows for _, rows in found)


def test_a_bounded_run_reads_all_steps_there_are(spark: SparkSession, tmp_path: Path) -> None:
    write_steps(tmp_path / "in", STEPS)
    frame = read_steps(spark, tmp_path / "in").select("k", "second")
    writer = sl.write_stream(frame).format("parquet").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    assert query.awaitTermination(120) is True
    assert query.exception() is None
    assert spark.read.parquet(str(tmp_path / "out")).count() == sum(map(len, STEPS))


def test_a_failing_function_gets_the_same_batch_again(spark: SparkSession, tmp_path: Path) -> None:
    write_steps(tmp_path / "in", STEPS)
    seen: Batches = []

    def fail_once(frame: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, sorted(tuple(row) for row in frame.collect())))
        if [number for number, _ in seen] == [0, 1]:
            raise ValueError("broken")

    frame = read_steps(spark, tmp_path / "in").select("k", "second")
    query = sl.write_stream(frame).foreachBatch(fail_once).option("checkpointLocation", str(tmp_path / "ck")).start()
    query.processAllAvailable()
    query.stop()
    assert seen == [(number, sorted(STEPS[number])) for number in (0, 1, 1, 2, 3)]
