"""Python functions over groups, started by `write_stream` on Spark, and generators of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it
from pyspark.sql.functions import udtf
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import snapline as sl
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.catalyst.subquery_values import scalar_value
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.preparation import prepared
from snapline.testing import ThreadCluster

pytestmark = pytest.mark.slow

ROWS = 200
KEYS = 5


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files: a row for each second, the second file the later ones."""
    directory = tmp_path_factory.mktemp("rows")
    for start in (0, ROWS // 2):
        made = spark.range(start, start + ROWS // 2)
        made = made.selectExpr("id", f"int(id % {KEYS}) k", "timestamp_seconds(id) t", "array(id, -id) both")
        made.coalesce(1).write.parquet(str(directory / f"part{start:03d}"))
    return directory


@pytest.fixture
def stream(spark: SparkSession, rows: Path) -> DataFrame:
    schema = "id long, k int, t timestamp, both array<long>"
    return spark.readStream.schema(schema).parquet(f"{rows}/*").withWatermark("t", "0 seconds")


@pytest.fixture
def batch(spark: SparkSession, rows: Path) -> DataFrame:
    return spark.read.parquet(f"{rows}/*")


def run(frame: DataFrame, name: str, mode: str = "append") -> list[Row]:
    """The rows that a query leaves in memory when it has read everything."""
    writer = sl.write_stream(frame).format("memory").queryName(name).outputMode(mode)
    assert writer.trigger(availableNow=True).start().awaitTermination(120) is True
    return frame.sparkSession.table(name).collect()


def ended(frame: DataFrame) -> DataFrame:
    """Groups of the windows that the watermark has passed."""
    return frame.where(F.col("window.end") <= F.timestamp_seconds(F.lit(ROWS - 1)))


def test_functions_over_groups_are_called_when_a_window_is_complete(stream: DataFrame, batch: DataFrame) -> None:
    def summed(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"end": [key[0]["end"]], "k": [key[1]], "n": [frame["id"].sum()]})

    made = stream.groupBy(F.window("t", "30 seconds"), "k").applyInPandas(summed, "end timestamp, k int, n long")
    expected = ended(batch.groupBy(F.window("t", "30 seconds"), "k").agg(F.sum("id").alias("n")))
    wanted = expected.select("window.end", "k", "n").collect()
    assert Counter(map(tuple, run(made, "in_pandas"))) == Counter(map(tuple, wanted))
    assert wanted


def test_aggregate_functions_in_pandas(stream: DataFrame, batch: DataFrame) -> None:
    def spread(values: pd.Series) -> int:
        return int(values.max() - values.min())

    udf = pandas_udf(spread, "long")  # type: ignore[call-overload]
    made = stream.groupBy(F.window("t", "50 seconds")).agg(udf("id").alias("n")).select("n")
    assert [row.n for row in run(made, "udaf")] == [49, 49, 49]


def test_functions_with_state_have_timeouts_in_event_time(stream: DataFrame) -> None:
    def counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            yield pd.DataFrame({"k": [key[0]], "n": [state.get[0]], "over": [True]})
            state.remove()
        else:
            n = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
            state.update((n,))
            if key[0] == 0:
                state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 1) + 1)

    timeout = GroupStateTimeout.EventTimeTimeout
    schema = "k int, n long, over boolean"
    made = stream.groupBy("k").applyInPandasWithState(counted, schema, "n long", "Append", timeout)
    found = run(made, "with_state")
    assert {(row.k, row.over) for row in found} == {(0, True)}
    # The row at 1970 is not newer than the first watermark, so it is late, as in Spark.
    assert sum(row.n for row in found) == ROWS // KEYS - 1


@udtf(returnType="n long, mark string")  # type: ignore[arg-type]
class Parts:
    def eval(self, number: int, mark: str = "-") -> Iterator[Any]:
        for part in range(number % 3):
            yield part, mark


@udtf(returnType="n long")  # type: ignore[arg-type]
class Ids:
    def eval(self, row: Row) -> Iterator[Any]:
        yield (row["id"] * 2,)


GENERATED = [
    "select id, n, mark from {rows}, lateral parts(id, mark => 'x')",
    "select id, t.a from {rows} left join lateral parts(id) t(a, b) on true",
    "select id, n from {rows} join lateral parts(id + 1) on n > 0 and id < 50",
    "select n from ids(table({rows}))",
    "select id, item from {rows}, lateral explode(both) as e(item)",
    "select id, x from {rows}, lateral (select id + k as x)",
    "select id, stack(2, id, 'a', -id, 'b') as (x, y) from {rows}",
    """select id, a, b from {rows} lateral view json_tuple(concat('{{"a":', id, '}}'), 'a', 'b') j as a, b""",
    "select id, pos, item from {rows} lateral view outer posexplode(if(k = 0, null, both)) p as pos, item",
]


def test_generators_and_table_functions_give_what_spark_gives(
    spark: SparkSession, stream: DataFrame, batch: DataFrame
) -> None:
    spark.udtf.register("parts", Parts)  # type: ignore[arg-type]
    spark.udtf.register("ids", Ids)  # type: ignore[arg-type]
    stream.createOrReplaceTempView("streaming_rows")
    batch.createOrReplaceTempView("batch_rows")
    for query in GENERATED:
        job = sl.Job("generated", parallelism=2)
        plan = prepared(read_plan(spark.sql(query.format(rows="streaming_rows"))), scalar_value)
        made = lowered(plan, Context(job, Uids(), is_bounded=True))
        columns = [column.to_pylist() for column in made.stream.collect(ThreadCluster()).columns]
        found = Counter(zip(*columns, strict=True))
        expected = Counter(map(tuple, spark.sql(query.format(rows="batch_rows")).collect()))
        assert found == expected, query
