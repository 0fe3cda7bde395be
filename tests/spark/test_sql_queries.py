"""Queries of Spark as Snapline runs them, compared with Spark's own answers for the same rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType, StringType
from tests.sql_kit import left_over

import snapline as sl
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.catalyst.subquery_values import scalar_value
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.preparation import prepared
from snapline.testing import ThreadCluster

Views = dict[str, DataFrame]
Query = str | Callable[[Views], DataFrame]

ROWS = 2000
START_US = 1_600_000_000_000_000
SPAN_US = 600_000_000


def events() -> pa.Table:
    random = np.random.default_rng(1)

    def with_nulls(values: Any) -> pa.Array:
        return pa.array(values, mask=random.random(ROWS) < 0.05)

    prices = random.integers(0, 100_000, ROWS).tolist()
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "t": pa.array(np.sort(START_US + random.integers(0, SPAN_US, ROWS)), pa.timestamp("us", "UTC")),
            "user": with_nulls(random.integers(0, 20, ROWS)),
            "name": with_nulls(np.array([f"n{n}" for n in random.integers(0, 6, ROWS)])),
            "price": with_nulls(random.integers(-100, 1000, ROWS)),
            "x": with_nulls(random.choice([1.5, math.nan, -0.0, 0.0, 2.25, 1e10], ROWS)),
            "d": pa.array([Decimal(int(value)).scaleb(-2) for value in prices], pa.decimal128(10, 2)),
        }
    )


def orders() -> pa.Table:
    random = np.random.default_rng(2)
    users = [None if n % 23 == 0 else int(user) for n, user in enumerate(random.integers(0, 25, 300))]
    times = pa.array(np.sort(START_US + random.integers(0, SPAN_US, 300)), pa.timestamp("us", "UTC"))
    return pa.table({"oid": pa.array(np.arange(300)), "ot": times, "ouser": pa.array(users, pa.int64())})


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Views, Views]]:
    """The same rows as streams and as tables."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    directory = tmp_path_factory.mktemp("events")
    for name, table in (("events", events()), ("orders", orders())):
        (directory / name).mkdir()
        pq.write_table(table, directory / name / "rows.parquet")
    static = {name: spark.read.parquet(f"{directory}/{name}") for name in ("events", "orders")}
    streams = {
        name: spark.readStream.schema(frame.schema).parquet(f"{directory}/{name}").withWatermark(time, "10 seconds")
        for (name, frame), time in zip(static.items(), ("t", "ot"), strict=True)
    }
    cities = spark.createDataFrame([(n, f"c{n % 4}") for n in range(22)], "uid long, city string")
    cities.createOrReplaceTempView("cities")
    yield streams, static
    spark.conf.set("spark.sql.session.timeZone", zone or "UTC")


def answer(spark: SparkSession, query: Query, views: Views) -> DataFrame:
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    return spark.sql(query) if isinstance(query, str) else query(views)


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 6) + 0.0
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, dict):
        return tuple(map(plain, value.values()))
    if isinstance(value, list):
        return tuple(sorted(map(plain, value), key=str))  # of collected values no order is promised
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def rows(found: Counter[tuple[Any, ...]]) -> Counter[Any]:
    return Counter({plain(row): count for row, count in found.items()})


tagged = F.udf(lambda name, user: None if name is None else f"{name}-{user}", StringType())

guessed = F.udf(lambda id: id, LongType()).asNondeterministic()


def _doubled(values: Any) -> Any:
    return (values * 2).astype("Int64")


# Spark reads the types themselves, not their names.
_doubled.__annotations__.update({"values": pd.Series, "return": pd.Series})
doubled = pandas_udf(_doubled, LongType())  # type: ignore[call-overload]


def with_key(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame[["id", "name"]].assign(k=frame["id"] * 2)


INTERVAL = "o.ot >= e.t and o.ot <= e.t + interval 10 seconds"

QUERIES: list[Query] = [
    "select id, price + 1 as p, name from events where price > 10 and name is not null",
    "select name, count(*), sum(price), avg(price), min(x), max(x), count(distinct user), sum(d), avg(d) from events "
    "group by name",
    "select count(*), max(price) from events",
    "select count(*) from events where id < 0",
    "select user, listagg(name, ',') within group (order by price desc nulls last, id), "
    "string_agg(distinct name) within group (order by name), listagg(name) filter (where id < 0) "
    "from events group by user",
    "select window.start, window.end, name, count(*), sum(price) from events group by window(t, '10 seconds'), name",
    "select window, count(*), max(price) from events group by window(t, '10 seconds', '3 seconds')",
    "select window, user, count(*) from events group by window(t, '1 minute', '10 seconds', '2 seconds'), user",
    "select max(c), min(c) from (select name, count(*) c from events group by name)",
    "select name, count(*) c from events group by name having count(*) > 330",
    "select c, count(*) from (select user, name, count(*) c from events group by user, name) group by c",
    "select name, sum(price) filter (where user > 5), count(distinct name, user) from events group by name",
    "select name, user, count(*) from events group by rollup(name, user)",
    "select session_window.start, session_window.end, user, count(*), sum(price) from events "
    "group by session_window(t, '5 seconds'), user",
    "select distinct name, user from events",
    lambda views: views["events"].dropDuplicates(["name", "user"]).select("name", "user"),
    f"select e.id, o.oid from events e join orders o on e.user = o.ouser and {INTERVAL}",
    f"select e.id, o.oid from events e left join orders o on e.user = o.ouser and {INTERVAL}",
    f"select e.id, o.oid from events e full join orders o on e.user = o.ouser and {INTERVAL}",
    f"select e.id, o.oid from events e full join orders o on e.user = o.ouser and {INTERVAL} and e.price > 100",
    "select e.id, o.oid from events e join orders o on e.user = o.ouser where e.price > 900",
    "select e.id, o.oid from events e left join orders o on e.user = o.ouser where e.price > 900",
    "select e.id, o.oid from events e left join orders o on e.user = o.ouser and e.price > o.oid and e.price > 800",
    "select e.id from events e left anti join orders o on e.user = o.ouser and o.oid < 50",
    "select e.id, c.city from events e join cities c on e.user = c.uid where city = 'c1' and e.price > 100",
    "select e.id, c.city from events e left join cities c on e.user = c.uid",
    "select e.id from events e left anti join cities c on e.user = c.uid",
    "select e.id from events e left semi join cities c on e.user = c.uid",
    "select id from events union all select oid from orders",
    "with a as (select id, user from events where price > 950) select a.id, b.id from a join a b on a.user = b.user",
    "select a.name, a.c, b.m from (select name, count(*) c from events group by name) a "
    "join (select name, max(price) m from events group by name) b on a.name = b.name",
    "select window.start, count(*) from (select window, name, count(*) c from events "
    "group by window(t, '10 seconds'), name) group by window",
    lambda views: views["events"].groupBy(F.window("t", "10 seconds")).count().select(F.window_time("window"), "count"),
    "select name, stddev(price), collect_set(user) from events group by name",
    "select x, d, count(*) from events group by x, d",
    "select * from (select id, name, price, row_number() over (partition by name order by price desc, id) rn "
    "from events) where rn <= 3",
    "select * from (select name, user, c, rank() over (partition by name order by c desc) rn from "
    "(select name, user, count(*) c from events group by name, user)) where rn < 3",
    "select name, count(*) c from events group by name order by c desc, name limit 3",
    "select e.id from events e where e.user in (select uid from cities where city = 'c1')",
    "select e.id from events e where exists (select 1 from cities c where c.uid = e.user and c.city = 'c2')",
    "select id, (select max(uid) from cities) from events where price > (select avg(uid) from cities)",
    "select id, explode(array(user, price)) from events",
    "select id, p, q from events lateral view outer posexplode(case when id % 3 = 0 then array(user, price) end) "
    "as p, q",
    "select id, k, v from events lateral view explode(map('a', user, 'b', price)) as k, v",
    "select date_trunc('minute', t), count(*) from events group by 1",
    lambda views: views["events"].select("id", tagged("name", "user"), "t"),
    lambda views: views["events"].where("price is not null").select("id", doubled("price")),
    lambda views: views["events"].mapInPandas(with_key, "id long, name string, k long"),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:60] if isinstance(query, str) else "dataframe")
def test_a_query_gives_what_spark_gives(spark: SparkSession, tables: tuple[Views, Views], query: Query) -> None:
    streams, static = tables
    job = sl.Job("query", parallelism=2)
    plan = prepared(read_plan(answer(spark, query, streams)), scalar_value)
    found = left_over(lowered(plan, Context(job, Uids(), is_bounded=True)))
    expected = answer(spark, query, static).toArrow()
    columns = [column.to_pylist() for column in expected.columns]
    assert rows(found) == Counter(tuple(map(plain, row)) for row in zip(*columns, strict=True))


REFUSED = [
    ("select histogram_numeric(price, 3) from events", "HistogramNumeric"),
    ("select id from events order by id", "Sort"),
    ("select lead(price) over (partition by user order by t) from events", "Window"),
    ("select id from events tablesample (5 percent)", "Sample"),
    ("select 'a' collate UNICODE from events", "collate"),
    ("select rand(), count(*) from events group by 1", r"Aggregate .*key rand\(\).*Aggregate \[.*in the source"),
    ("select distinct id, uuid() from events", r"Distinct .*uuid\(\)"),
    ("select * from (select uuid() u from events) join range(5) on u = string(id)", r"Join .*uuid\(\).*u = "),
    ("select row_number() over (partition by round(rand()) order by t) from events", r"Window .*rand\(\)"),
    (lambda views: views["events"].groupBy(guessed("id")).count(), r"Aggregate .*<lambda>\(id\)"),
    (lambda views: views["events"].withColumn("n", F.uuid()).dropDuplicates(["n"]), r"Deduplicate .*uuid\(\)"),
    ("select in_java(id) from events", r"ScalaUDF .*in_java\(id\).*in Python"),
    ("select explode(array(in_java(id))) from events", r"ScalaUDF .*in_java\(id\).*in Python"),
]


@pytest.fixture(scope="module")
def in_java(spark: SparkSession) -> None:
    """A function that is written in Java."""
    gateway: Any = spark.sparkContext._gateway
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(
        "public class InJava implements org.apache.spark.sql.api.java.UDF1 {"
        "  public Object call(Object value) { return value; }"
        "}"
    )
    made = compiler.getClassLoader().loadClass("InJava")
    made = made.getDeclaredConstructor(gateway.new_array(gateway.jvm.java.lang.Class, 0))
    function = made.newInstance(gateway.new_array(gateway.jvm.java.lang.Object, 0))
    spark._jsparkSession.udf().register("in_java", function, gateway.jvm.org.apache.spark.sql.types.DataTypes.LongType)


@pytest.mark.parametrize(("query", "name"), REFUSED)
def test_what_does_not_run_is_refused_before_anything_starts(
    spark: SparkSession, tables: tuple[Views, Views], in_java: None, query: Query, name: str
) -> None:
    frame = answer(spark, query, tables[0])
    with pytest.raises(sl.ConfigurationError, match=name):
        sl.write_stream(frame).format("noop").start()


def test_write_stream_in_each_output_mode(spark: SparkSession, tables: tuple[Views, Views], tmp_path: Path) -> None:
    frame = tables[0]["events"]
    counts = frame.groupBy("name").count()
    query = sl.write_stream(counts.orderBy("name")).format("memory").queryName("by_name").outputMode("complete")
    query.trigger(availableNow=True).start().awaitTermination()
    expected = [tuple(row) for row in tables[1]["events"].groupBy("name").count().orderBy("name").collect()]
    assert [tuple(row) for row in spark.table("by_name").collect()] == expected

    batches: list[int] = []
    windows = frame.groupBy(F.window("t", "1 minute")).count()
    started = (
        sl.write_stream(windows)
        .foreachBatch(lambda batch, number: batches.append(batch.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .trigger(availableNow=True)
        .start()
    )
    started.awaitTermination()
    static = tables[1]["events"]
    newest = static.agg(F.max("t")).first()
    assert newest is not None
    over = (
        static.groupBy(F.window("t", "1 minute"))
        .count()
        .where(F.col("window.end") <= newest[0] - timedelta(seconds=10))
    )
    assert sum(batches) == over.count()
    assert not started.isActive
    assert started.exception() is None

    with pytest.raises(sl.ConfigurationError, match="these groups never end"):
        sl.write_stream(counts).format("noop").start()


def test_sql_over_streams_of_a_job_and_a_function_behind_it(spark: SparkSession) -> None:
    job = sl.Job("views", parallelism=2)
    clicks = job.source(sl.sources.Rate(rows=1000, users=5), uid="clicks", watermarks=sl.Watermarks("time"))
    clicks.as_view("clicks")
    busy = job.sql("select user, value from clicks where value >= 50", spark=spark)
    counted = busy.key_by("user").aggregate(n=sl.count(), emit_every="1min", uid="counted")
    found = counted.collect(ThreadCluster())
    expected = Counter(row["user"] for row in _rows_of_rate() if row["value"] >= 50)
    assert dict(zip(found["user"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected


def _rows_of_rate() -> list[dict[str, Any]]:
    job = sl.Job("rate")
    table = job.source(sl.sources.Rate(rows=1000, users=5), uid="clicks").collect(ThreadCluster())
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
