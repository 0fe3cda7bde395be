"""Queries started by `write_stream` on Spark: where they read and write, their Python functions, and restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.pandas.functions import arrow_udf, pandas_udf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType

import snapline as sl

pytestmark = pytest.mark.slow

ROWS = 500
KEYS = 7
SCHEMA = "id long, k long, name string, t timestamp"


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the same rows as JSON and CSV."""
    directory = tmp_path_factory.mktemp("rows")
    made = spark.range(ROWS).selectExpr("id", f"id % {KEYS} k", "concat('n', id) name", "timestamp_seconds(id) t")
    made.coalesce(1).write.json(str(directory / "json"))
    made.coalesce(1).write.csv(str(directory / "csv"), header=True)
    return directory


@pytest.fixture
def ran(spark: SparkSession, rows: Path, tmp_path: Path) -> Callable[..., None]:
    """`ran(change, format, mode="append", **options)`: a bounded query over the rows is over."""

    def run(change: Callable[[DataFrame], DataFrame], format: str, mode: str = "append", **options: Any) -> None:
        stream = change(spark.readStream.schema(SCHEMA).json(str(rows / "json")))
        writer = sl.write_stream(stream).format(format).outputMode(mode).options(**options)
        if format == "memory":
            writer = writer.queryName(options["name"])
        query = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
        assert query.awaitTermination(120) is True
        assert query.exception() is None

    return run


def same(stream: DataFrame) -> DataFrame:
    return stream


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "delta"])
def test_files_hold_every_row(spark: SparkSession, ran: Callable[..., None], tmp_path: Path, format: str) -> None:
    path = str(tmp_path / "out")
    ran(same, format, path=path, **({"header": True} if format == "csv" else {}))
    if format == "delta":
        import deltalake

        found = deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist()
    else:
        read = spark.read.schema(SCHEMA).option("header", True).format(format).load(path)
        found = [row.id for row in read.select("id").collect()]
    assert sorted(found) == list(range(ROWS))


def test_csv_files_are_read_by_the_names_in_their_first_line(spark: SparkSession, rows: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).option("header", True).csv(str(rows / "csv"))
    query = sl.write_stream(stream).format("memory").queryName("from_csv").trigger(availableNow=True).start()
    assert query.awaitTermination(120) is True
    assert spark.table("from_csv").count() == ROWS


def test_the_console_shows_rows(ran: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    ran(lambda stream: stream.groupBy("k").count(), "console", mode="complete")
    assert "|count|" in capfd.readouterr().out


def test_python_functions_run_in_operator_processes(spark: SparkSession, ran: Callable[..., None]) -> None:
    twice = F.udf(lambda value: value * 2, "long")

    def incremented(value: pd.Series) -> pd.Series:
        return value + 1

    def decremented(value: pa.Array) -> pa.Array:
        return pc.subtract(value, 1)

    more = pandas_udf(incremented, LongType())  # type: ignore[call-overload]
    less = arrow_udf(decremented, LongType())  # type: ignore[call-overload]

    ran(lambda s: s.select(twice("id").alias("a"), more("id").alias("b"), less("id").alias("c")), "memory", name="udfs")
    total = ROWS * (ROWS - 1) // 2
    summed = spark.table("udfs").agg(F.sum("a"), F.sum("b"), F.sum("c")).first()
    assert summed is not None
    assert tuple(summed) == (2 * total, total + ROWS, total - ROWS)


def test_map_in_arrow(spark: SparkSession, ran: Callable[..., None]) -> None:
    def first_column(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(0)], names=["id"])

    ran(lambda stream: stream.mapInArrow(first_column, "id long"), "memory", name="mapped")
    assert spark.table("mapped").count() == ROWS


class Counter(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N803  # PySpark's name
        count = self._count.get()[0] if self._count.exists() else 0
        count += sum(len(frame) for frame in rows)
        self._count.update((count,))
        yield pd.DataFrame({"k": [key[0]], "n": [count]})

    def close(self) -> None:
        pass


def test_a_stateful_processor(spark: SparkSession, ran: Callable[..., None]) -> None:
    def counted(stream: DataFrame) -> DataFrame:
        return stream.groupBy("k").transformWithStateInPandas(Counter(), "k long, n long", "Update", "None")

    ran(counted, "memory", mode="update", name="counted")
    newest = {row.k: row.n for row in spark.table("counted").groupBy("k").agg(F.max("n").alias("n")).collect()}
    assert sum(newest.values()) == ROWS
    assert len(newest) == KEYS


def test_a_query_goes_on_from_its_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    path, counts = str(tmp_path / "in"), dict[int, int]()

    def add(start: int, end: int) -> None:
        spark.range(start, end).selectExpr("id", f"id % {KEYS} k").coalesce(1).write.mode("append").json(path)

    def note(frame: DataFrame, batch_id: int) -> None:
        counts.update({row.k: row["count"] for row in frame.collect()})

    def run() -> int:
        stream = spark.readStream.schema("id long, k long").json(path).groupBy("k").count()
        writer = sl.write_stream(stream).outputMode("update").option("checkpointLocation", str(tmp_path / "ck"))
        query = writer.trigger(processingTime="300 milliseconds").foreachBatch(note).start()
        query.processAllAvailable()
        query.stop()
        return sum(counts.values())

    add(0, 100)
    assert run() == 100
    add(100, 250)
    assert run() == 250


class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = min(start["at"] + 50, 200)
        return self.readBetweenOffsets(start, {"at": end}), {"at": end}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["at"], end["at"])])


class Numbers(DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbers_of_a_test"

    def schema(self) -> str:
        return "id long"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return Reader()


def test_a_python_data_source(spark: SparkSession) -> None:
    spark.dataSource.register(Numbers)
    stream = spark.readStream.format(Numbers.name()).load()
    query = sl.write_stream(stream).format("memory").queryName("numbers").start()
    query.processAllAvailable()
    assert spark.table("numbers").count() == 200
    query.stop()
    assert not query.isActive
