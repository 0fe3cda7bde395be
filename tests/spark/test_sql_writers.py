"""Where queries write, and how they go on: runs that end when everything is read, tables, sockets, data sources."""

from __future__ import annotations

import json
import os
import runpy
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.sql.query import StreamingQuery

pytestmark = pytest.mark.slow

SCHEMA = "id long, k long, name string"


def add(spark: SparkSession, path: Path, start: int, end: int) -> None:
    rows = spark.range(start, end).selectExpr("id", "id % 3 k", "if(id % 5 = 0, null, concat('a/', id % 2)) name")
    rows.coalesce(1).write.mode("append").json(str(path))


def read(spark: SparkSession, path: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).json(str(path))


def ended(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(120) is True
    assert query.exception() is None
    return query


def test_a_run_begins_where_the_last_one_ended(spark: SparkSession, tmp_path: Path) -> None:
    source, out = tmp_path / "in", str(tmp_path / "out")

    def run() -> StreamingQuery:
        writer = sl.write_stream(read(spark, source)).format("parquet").partitionBy("k", "name")
        writer = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
        return ended(writer.start(out))

    add(spark, source, 0, 40)
    first = run()
    add(spark, source, 40, 100)
    second = run()
    assert second.id == first.id
    assert second.runId != first.runId
    assert sum(entry.numInputRows for entry in second.recentProgress) == 60
    run()
    found = sorted(map(tuple, spark.read.parquet(out).selectExpr("id", "cast(k AS long)", "name").collect()))
    assert found == sorted(map(tuple, spark.read.schema(SCHEMA).json(str(source)).collect()))
    names = {path.relative_to(out).as_posix().rpartition("/")[0] for path in Path(out).rglob("k=*/*/*.parquet")}
    assert {"k=0/name=__HIVE_DEFAULT_PARTITION__", "k=1/name=a%2F1"} <= names


def test_a_limit_counts_the_rows_of_all_runs(spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for start, end in ((0, 3), (3, 8), (8, 20)):
        add(spark, tmp_path / "in", start, end)
        writer = sl.write_stream(read(spark, tmp_path / "in").limit(5)).format("parquet").option("parallelism", 2)
        writer = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
        ended(writer.start(str(tmp_path / "out")))
        found.append(sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()))
    assert found == [[0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_a_table_in_memory_goes_on_in_complete_mode_alone(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    add(spark, tmp_path / "in", 0, 20)
    stream = read(spark, tmp_path / "in").select("k")
    counts = stream if mode == "append" else stream.groupBy("k").count()

    def run(start: str) -> None:
        writer = counts.writeStream if start == "spark" else sl.write_stream(counts)
        writer = writer.format("memory").queryName(f"memory_{mode}").outputMode(mode).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / start)).start()
        assert query.awaitTermination(120) is True

    for start, error in (("spark", AnalysisException), ("ours", ConfigurationError)):
        run(start)
        if mode == "complete":
            run(start)
            assert spark.table("memory_complete").count() == 0  # nothing has changed since
        else:
            with pytest.raises(error, match="checkpoint"):
                run(start)


def test_limits_within_a_query(spark: SparkSession, tmp_path: Path) -> None:
    add(spark, tmp_path / "in", 0, 20)
    stream = read(spark, tmp_path / "in")
    for frame, mode, count in (
        (stream.limit(0), "append", 0),
        (stream.limit(7).where("id % 2 = 0"), "append", 4),
        (stream.limit(7).groupBy("k").count(), "complete", 3),
        (stream.dropDuplicates(["k"]).limit(2), "append", 2),
    ):
        writer = sl.write_stream(frame).format("memory").queryName("limits").outputMode(mode)
        ended(writer.trigger(availableNow=True).start())
        assert spark.table("limits").count() == count


@pytest.mark.parametrize(("format", "options"), [("orc", {}), ("text", {}), ("csv", {}), ("csv", {"header": True})])
def test_other_files_are_written_and_read_again(
    spark: SparkSession, tmp_path: Path, format: str, options: dict[str, Any]
) -> None:
    add(spark, tmp_path / "in", 0, 30)
    stream = read(spark, tmp_path / "in")
    stream = stream.selectExpr("string(id) value") if format == "text" else stream.select("id", "k")
    schema, out = stream.schema, str(tmp_path / "out")
    writer = (
        sl.write_stream(stream).format(format).options(**options).option("checkpointLocation", str(tmp_path / "ck"))
    )
    ended(writer.trigger(availableNow=True).start(out))
    expected = sorted(map(tuple, spark.read.schema(schema).options(**options).format(format).load(out).collect()))
    assert len(expected) == 30
    again = spark.readStream.schema(schema).options(**options).format(format).load(out)
    ended(sl.write_stream(again).format("memory").queryName("again").trigger(availableNow=True).start())
    assert sorted(map(tuple, spark.table("again").collect())) == expected


VALUES = r"""SELECT * FROM VALUES
    (1, 'plain', 1.50BD, double('NaN'), timestamp'2024-01-02 03:04:05.123456', timestamp_ntz'2024-01-02 03:04:05', 'x'),
    (2, 'say "hi", you', 100000000000000.01BD, 1e20D, timestamp'1900-01-02 03:04:05', null, 'y'),
    (3, 'back\\slash', 0.00BD, -0.0D, null, null, 'x'),
    (4, '\\"both\\"', -0.01BD, 1e-4D, null, null, null),
    (5, '', null, null, null, null, 'y'),
    (6, null, null, 0.1D, null, null, 'y')
    AS t(id, `a "text"`, price, x, at, ntz, p)"""
TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
"""Spark's own files have milliseconds by default; other values would not be the same."""


@pytest.mark.parametrize(
    ("format", "columns", "options"),
    [
        ("json", ["*", "array(price, null) prices", "named_struct('price', price, 'x', x) both"], {}),
        ("csv", ["*"], {}),
        ("csv", ["*"], {"header": True}),
        ("csv", ['`a "text"`', "p"], {}),
    ],
)
def test_files_have_the_lines_that_spark_writes(
    spark: SparkSession, tmp_path: Path, format: str, columns: list[str], options: dict[str, Any]
) -> None:
    spark.sql(VALUES).coalesce(1).write.parquet(str(tmp_path / "in"))
    given = spark.read.parquet(str(tmp_path / "in"))
    writer = given.selectExpr(*columns).write.format(format).options(**options, **TIMES)
    writer.partitionBy("p").save(str(tmp_path / "spark"))
    stream = spark.readStream.schema(given.schema).parquet(str(tmp_path / "in")).selectExpr(*columns)
    ours = sl.write_stream(stream).format(format).options(**options).partitionBy("p")
    ours = ours.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
    ended(ours.start(str(tmp_path / "ours")))

    def lines(directory: Path) -> dict[str, str]:
        # A row of nothing but nulls is an empty line of CSV here, and none in Spark, which reads neither.
        files = sorted(directory.glob(f"p=*/*.{format}"))
        return {file.parent.name: file.read_text().replace("\n\n", "\n") for file in files}

    assert lines(tmp_path / "ours") == lines(tmp_path / "spark")
    assert len(lines(tmp_path / "ours")) == 3


def test_names_in_any_case_and_the_setting_for_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    add(spark, tmp_path / "in", 0, 30)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        writer = sl.write_stream(read(spark, tmp_path / "in")).format("JSON").partitionBy("K").option("header", None)
        ended(writer.queryName("in any case").trigger(availableNow=True).start(str(tmp_path / "out")))
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert os.listdir(tmp_path / "all") == ["in any case"]
    assert spark.read.json(str(tmp_path / "out")).where("k = 1").count() == 10


def test_what_would_do_nothing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    add(spark, tmp_path / "in", 0, 3)
    stream = read(spark, tmp_path / "in")
    writer = sl.write_stream(stream).format("csv").option("checkpointLocation", str(tmp_path / "ck"))
    with pytest.raises(ConfigurationError, match="'sep'"):
        writer.option("sep", "|").start(str(tmp_path / "out"))
    with pytest.raises(ConfigurationError, match="parallelism"):
        sl.write_stream(stream).format("noop").option("parallelism", "many").start()
    with pytest.raises(ConfigurationError, match="foreach"):
        sl.write_stream(stream).foreach(5)
    for wrong in ({}, {"once": False}, {"processingTime": "soon"}):
        with pytest.raises(ConfigurationError, match="trigger"):
            sl.write_stream(stream).trigger(**wrong)


def test_a_table_of_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    add(spark, tmp_path / "in", 0, 30)
    stream = read(spark, tmp_path / "in").select("id", "k")
    spark.sql(
        f"CREATE TABLE numbers_of_a_query (id long, k long) USING parquet PARTITIONED BY (k) LOCATION '{tmp_path}/t'"
    )
    try:
        writer = sl.write_stream(stream).option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
        ended(writer.toTable("numbers_of_a_query"))
        spark.sql("MSCK REPAIR TABLE numbers_of_a_query")
        assert spark.table("numbers_of_a_query").where("k = 1").count() == 10
        other = sl.write_stream(stream).option("checkpointLocation", str(tmp_path / "ck2")).partitionBy("id")
        with pytest.raises(ConfigurationError, match="partitioned by k"):
            other.toTable("numbers_of_a_query")
    finally:
        spark.sql("DROP TABLE numbers_of_a_query")


def test_a_new_table_has_the_partitions_that_were_written(spark: SparkSession, tmp_path: Path) -> None:
    add(spark, tmp_path / "in", 0, 30)
    stream = read(spark, tmp_path / "in").select("id", "k")
    try:
        writer = sl.write_stream(stream).option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
        ended(writer.toTable("partitions_of_a_query", partitionBy="k"))
        assert spark.table("partitions_of_a_query").where("k = 1").count() == 10
    finally:
        spark.sql("DROP TABLE IF EXISTS partitions_of_a_query")


def test_windows_are_sorted_in_complete_mode(spark: SparkSession, tmp_path: Path) -> None:
    add(spark, tmp_path / "in", 0, 30)
    times = read(spark, tmp_path / "in").selectExpr("timestamp_seconds(id) t")
    counts = times.groupBy(F.window("t", "10 seconds")).count().orderBy(F.desc("window"))
    counts = counts.withColumn("now", F.current_timestamp())
    writer = sl.write_stream(counts).format("memory").queryName("sorted_windows").outputMode("complete")
    ended(writer.trigger(availableNow=True).start())
    found = spark.table("sorted_windows").selectExpr("unix_seconds(window.start)", "count", "now is not null").collect()
    assert [tuple(row) for row in found] == [(20, 10, True), (10, 10, True), (0, 10, True)]


class FileWriter(DataSourceStreamWriter):
    def __init__(self, options: dict[str, str]) -> None:
        self._path = options["path"]

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        message = WriterCommitMessage()
        message.ids = [row.id for row in iterator]  # type: ignore[attr-defined]
        return message

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803  # PySpark's name
        ids = [number for message in messages if message is not None for number in message.ids]
        Path(self._path, str(batchId)).write_text(json.dumps(ids))

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803  # PySpark's name
        pass


class FileSystem(DataSource):
    @classmethod
    def name(cls) -> str:
        return "files_of_a_test"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # PySpark's name
        return FileWriter(dict(self.options))


def test_a_data_source_in_python_writes(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(FileSystem)
    add(spark, tmp_path / "in", 0, 30)
    (tmp_path / "out").mkdir()
    writer = sl.write_stream(read(spark, tmp_path / "in")).format(FileSystem.name()).option("path", tmp_path / "out")
    ended(writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start())
    batches = [json.loads(Path(tmp_path, "out", name).read_text()) for name in os.listdir(tmp_path / "out")]
    assert sorted(number for batch in batches for number in batch) == list(range(30))
    with pytest.raises(ConfigurationError, match="registered"):
        sl.write_stream(read(spark, tmp_path / "in")).format("nothing").option("checkpointLocation", "x").start()


class Sums(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._sum = handle.getValueState("sum", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N803  # PySpark's names
        total = (self._sum.get()[0] if self._sum.exists() else 0) + sum(row.id for row in rows)
        self._sum.update((total,))
        yield Row(k=key[0], n=total)

    def close(self) -> None:
        pass


def test_a_stateful_processor_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    add(spark, tmp_path / "in", 0, 30)
    made = read(spark, tmp_path / "in").groupBy("k").transformWithState(Sums(), "k long, n long", "Update", "None")
    ended(
        sl.write_stream(made).format("memory").queryName("sums").outputMode("update").trigger(availableNow=True).start()
    )
    newest = {row.k: row.n for row in spark.table("sums").groupBy("k").agg(F.max("n").alias("n")).collect()}
    assert newest == {k: sum(range(k, 30, 3)) for k in range(3)}


def test_lines_from_a_socket(spark: SparkSession, wait_until: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected = threading.Thread(target=lambda: connections.append(server.accept()[0]))
        connections: list[socket.socket] = []
        connected.start()
        lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", server.getsockname()[1])
        stream = lines.load().selectExpr("upper(value) value")
        writer = sl.write_stream(stream).format("memory").queryName("lines").trigger(processingTime="200 milliseconds")
        query = writer.start()
        connected.join()
        with connections[0] as connection:
            connection.sendall(b"one\ntwo\n")
            wait_until(lambda: spark.table("lines").count() == 2)
            progress = wait_until(lambda: query.lastProgress)
            assert progress["id"] == query.id
            assert progress.sink.description == "memory"
        query.stop()
    assert {row.value for row in spark.table("lines").collect()} == {"ONE", "TWO"}


def test_the_example_of_a_query(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "streaming_query.py"))["main"](spark)
    assert capsys.readouterr().out.splitlines() == [
        "12:00 ann 30",
        "12:00 bob 80",
        "12:01 ann 105",
        "in all: ann 135, bob 90",
        "in all: ann 135, bob 180",
    ]
