"""DataFrames go into jobs and come out of them, and a driver that goes on with a job reads the same files."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
from __future__ import annotations

import runpy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import snapline as sl
from snapline.connectors.files.file_sink import read_files
from snapline.errors import ConfigurationError
from snapline.testing.clusters import ThreadCluster

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.slow

ALL_TYPES = """
    SELECT CAST(id AS TINYINT) AS a, CAST(id AS INT) AS b, id AS c, CAST(id AS DOUBLE) / 3 AS d,
           CAST(id AS DECIMAL(12, 3)) AS e, CONCAT('x', id) AS f, CAST(CONCAT('y', id) AS BINARY) AS g,
           id % 2 = 0 AS h, DATE'2026-01-01' + CAST(id AS INT) AS i, TIMESTAMP'3026-01-01 01:02:03.456789' AS j,
           TIMESTAMP_NTZ'2026-01-01 01:02:03.456789' AS k, ARRAY(id, NULL) AS l, MAP(CONCAT('k', id), id) AS m,
           NAMED_STRUCT('p', id, 'q', ARRAY('z')) AS n, IF(id > 2, NULL, 'not null') AS o
    FROM RANGE(0, 5, 1, 3)
"""


def test_rows_of_all_types_come_back_as_they_were(spark: SparkSession) -> None:
    frame = spark.sql(ALL_TYPES)
    back = sl.Job("types", parallelism=2).from_dataframe(frame, uid="frame").to_dataframe(spark)
    # But for what may be null, which files do not say.
    assert back.schema.simpleString() == frame.schema.simpleString()
    assert sorted(back.collect(), key=lambda row: row.c) == sorted(frame.collect(), key=lambda row: row.c)


class CountAndInitial(StatefulProcessor):
    """Counts on from its initial state."""

    def init(self, handle) -> None:
        self._state = handle.getValueState("state", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:  # noqa: N803
        total = (self._state.get() or (0,))[0] + sum(row.value for row in rows)
        self._state.update((total,))
        yield Row(user=key[0], n=total)

    def handleInitialState(self, key, initialState, timerValues) -> None:  # noqa: N803
        self._state.update((initialState.n,))


def test_a_stateful_processor_between_two_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 1000, 1, 3).select((f.col("id") % 7).alias("user"), f.col("id").alias("value"))
    initial = spark.createDataFrame([Row(user=3, n=1_000_000), Row(user=99, n=5)]).groupBy("user")
    storage = tmp_path / "checkpoints"
    checkpoints = sl.Checkpoints(interval="100ms", storage=str(storage))
    job = sl.Job("totals", parallelism=2, checkpoints=checkpoints)
    totals = (
        job.from_dataframe(frame, uid="frame")
        .key_by("user")
        .transform_with_state(CountAndInitial(), "user BIGINT, n BIGINT", initial_state=initial, uid="totals")
    )
    nodes = job.nodes
    result = totals.to_dataframe(spark)
    expected = {row.user: row.n for row in frame.groupBy("user").agg(f.sum("value").alias("n")).collect()}
    expected[3] += 1_000_000
    assert {row.user: row.n for row in result.groupBy("user").agg(f.max("n").alias("n")).collect()} == expected
    assert job.nodes == nodes
    assert not (storage / ".dataframes" / "totals" / "frame").exists()


def test_a_driver_that_goes_on_reads_the_same_files(
    spark: SparkSession, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    rows = 3_000

    def slowed_down(batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(0.1)
        return batch

    def job() -> sl.Job:
        storage = str(tmp_path / "checkpoints")
        made = sl.Job("again", id="again", checkpoints=sl.Checkpoints(interval="50ms", storage=storage))
        # Another one each time it is computed.
        frame = spark.range(0, rows, 1, 30).withColumn("chance", f.rand())
        stream = made.from_dataframe(frame, uid="frame", directory=tmp_path / "frames")
        stream.map_batches(slowed_down, schema=stream.schema).sink(sl.sinks.Files(tmp_path / "rows"), uid="rows")
        return made

    files = tmp_path / "frames" / "again" / "frame"
    first = job().start(spark)
    wait_until(lambda: len(list((tmp_path / "rows").glob("*.parquet"))) > 0)
    before = pq.read_table(files).to_pylist()
    assert len(before) == rows
    first.suspend()
    assert first.status() is sl.JobStatus.SUSPENDED
    assert files.is_dir()
    assert job().run(spark) is sl.JobStatus.FINISHED
    after = read_files(tmp_path / "rows").to_pylist()
    assert sorted(after, key=lambda row: int(row["id"])) == sorted(before, key=lambda row: int(row["id"]))
    wait_until(lambda: not (tmp_path / "frames").exists())


def test_what_never_ends_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    stream = sl.Job("endless").source(sl.sources.Rate(10), uid="rate")
    with pytest.raises(ConfigurationError, match="the source 'rate' never ends"):
        stream.to_dataframe(spark, directory=tmp_path / "rows")
    assert not (tmp_path / "rows").exists()
    with pytest.raises(ConfigurationError, match="give a SparkSession"):
        stream.to_dataframe(5)


def test_a_job_with_a_dataframe_runs_on_spark_only(spark: SparkSession, tmp_path: Path) -> None:
    job = sl.Job("elsewhere", restart=sl.NoRestart())
    job.from_dataframe(spark.range(3), uid="frame").sink(sl.sinks.Files(tmp_path / "rows"), uid="rows")
    with pytest.raises(sl.SnaplineError, match="runs on Spark only"):
        job.run(ThreadCluster())


def test_the_example_tells_which_sensors_fall_silent(spark: SparkSession) -> None:
    names = runpy.run_path(str(EXAMPLES / "stateful_processor.py"))
    told = sorted(tuple(row) for row in names["silences"](spark).collect())
    while_it_runs = [("sensor-1", "silent", 10_000), ("sensor-1", "back", 21_000), ("sensor-2", "silent", 10_000)]
    in_the_end = [("sensor-0", "silent", 10_000), ("sensor-1", "silent", 10_000)]
    assert told == sorted([*while_it_runs, *in_the_end])
