"""Data sources of users on Spark, both ways, and a function that gets DataFrames on the driver."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, override"
from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from tests.docs_pages import ON_SPARK, blocks
from tests.unit.connectors.data_source import sources_kit as kit

import snapline as sl
from snapline.testing.clusters import ThreadCluster

pytestmark = pytest.mark.slow


def test_a_user_writes_and_reads_with_a_data_source_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "available").write_text("3000")
    out = tmp_path / "out"
    out.mkdir()
    checkpoints = sl.Checkpoints(interval="100ms", storage=str(tmp_path / "chk"))
    job = sl.Job("both ways", parallelism=2, checkpoints=checkpoints)
    source = sl.sources.DataSource(kit.Numbers, {"directory": str(tmp_path)}, bounded=True)
    sink = sl.sinks.DataSource(kit.Output, {"directory": str(out), "column": "number"})
    job.source(source, uid="numbers").sink(sink, uid="out")
    assert job.run(spark) is sl.JobStatus.FINISHED
    assert kit.output_numbers(out) == list(range(3000))
    staged = tmp_path / "chk" / ".dataframes" / ".staged"
    assert [path for path in staged.rglob("*") if path.is_file()] == []


def test_a_driver_that_goes_on_calls_the_function_with_the_next_batches(
    spark: SparkSession, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    """The function fails once behind its writes: the same batch comes again, and then the rest."""
    seen: list[tuple[int, list[int]]] = []
    fails = threading.Event()

    def store(frame: DataFrame, batch_id: int) -> None:
        assert frame.sparkSession is spark
        seen.append((batch_id, sorted(row.id for row in frame.where("id % 2 = 0").collect())))
        if len(seen) == 2 and not fails.is_set():
            fails.set()
            raise RuntimeError("the table is locked")

    def job(rows: int) -> sl.Job:
        checkpoints = sl.Checkpoints(interval="100ms", storage=str(tmp_path / "chk"))
        made = sl.Job("frames", id="frames", parallelism=2, checkpoints=checkpoints)
        source = sl.sources.Rate(2000, rows=rows, users=3)
        made.source(source, uid="rows").sink(sl.sinks.ForeachDataFrame(store), uid="out")
        return made

    first = job(4_000).start(spark)
    wait_until(lambda: len(seen) >= 4)
    first.suspend()
    before = len(seen)
    assert job(4_000).run(spark) is sl.JobStatus.FINISHED
    assert len(seen) > before
    assert seen[1] == seen[2], "what failed comes again, the same"
    by_id = dict(seen)
    assert sorted(number for rows in by_id.values() for number in rows) == list(range(0, 4_000, 2))
    assert list(by_id) == sorted(by_id)
    assert all(rows == by_id[batch_id] for batch_id, rows in seen)
    staged = tmp_path / "chk" / ".dataframes" / ".staged"
    assert [path.name for path in staged.rglob("*.parquet")] == []


def test_what_the_page_shows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = [each for each in blocks("connectors.md") if each.info == ON_SPARK]
    names: dict[str, Any] = {"sl": sl, "spark": spark}
    exec(block.code, names)
    assert sum(rows for _, rows in names["batches"]) == 2000


def test_a_job_that_leaves_no_slot_for_the_function_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = sl.Job("greedy", parallelism=4)
    rows = job.source(sl.sources.Rate(10, rows=10), uid="rows")
    rows.sink(sl.sinks.ForeachDataFrame(lambda frame, batch_id: None, tmp_path), uid="out")
    with pytest.raises(sl.ConfigurationError, match="takes all 4 task slots"):
        job.start(spark)


class Everything(DataSource):
    """Values of many types, in ways that Spark converts."""

    @classmethod
    def name(cls) -> str:
        return "everything"

    def schema(self) -> str:
        return (
            "a TINYINT, b INT, c BIGINT, d DOUBLE, e DECIMAL(12, 3), f STRING, g BINARY, h BOOLEAN, i DATE, "
            "j TIMESTAMP, k TIMESTAMP_NTZ, l ARRAY<STRING>, m MAP<STRING, INT>, n STRUCT<p: INT, q: ARRAY<DATE>>"
        )

    def streamReader(self, schema) -> DataSourceStreamReader:
        return EverythingStream()


class EverythingStream(DataSourceStreamReader):
    def initialOffset(self) -> dict:
        return {"at": 0}

    def latestOffset(self) -> dict:
        return {"at": 3}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for number in range(*partition.value):
            day = dt.date(2026, 1, 1 + number)
            time = dt.datetime(2026, 7, 1 + number, 1, 2, 3, 456789)
            zone = dt.timezone(dt.timedelta(hours=5))
            struct: Any = [Row(p=number, q=[day]), (number, [day, None]), {"p": number, "q": []}][number]
            yield (
                number,
                number,
                10**15 + number,
                number / 3,
                Decimal("1.5") * number,
                ["text", 7, True][number],
                bytearray(b"x" * number),
                number == 1,
                day,
                time if number else time.replace(tzinfo=zone),
                time,
                ["z", None],
                {"k": number},
                struct,
            )
        yield (None,) * 14


def test_rows_are_those_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(Everything)
    query = (
        spark.readStream.format("everything")
        .load()
        .writeStream.format("memory")
        .queryName("everything")
        .option("checkpointLocation", str(tmp_path / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
        theirs = spark.sql("SELECT * FROM everything").toArrow()
    finally:
        query.stop()
    job = sl.Job("everything")
    ours = job.source(sl.sources.DataSource(Everything, bounded=True), uid="rows").collect(ThreadCluster())
    kinds = [field.type for field in theirs.schema]
    assert ours.schema.names == theirs.schema.names
    ours = pa.table([column.cast(kind) for column, kind in zip(ours.columns, kinds, strict=True)], ours.schema.names)
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))
    assert ours.num_rows == 4
