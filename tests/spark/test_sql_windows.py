"""Window functions, sessions and aggregates of Spark as Snapline runs them, compared with Spark's own answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.test_sql_queries import Query, Views, answer, plain, rows, tables
from tests.sql_kit import left_over

import snapline as sl
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.catalyst.subquery_values import scalar_value
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context, Lowered
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.preparation import prepared

__all__ = ["tables"]  # the fixture

BY_TIME = "partition by user order by t, id"
BY_PRICE = "partition by name order by price, id"

FINAL: list[Query] = [
    f"select id, lag(price) over ({BY_TIME}), lag(name, 3, 'none') over ({BY_TIME}), row_number() over ({BY_TIME}), "
    f"rank() over ({BY_TIME}), dense_rank() over ({BY_TIME}) from events",
    f"select id, sum(price) over ({BY_TIME}), avg(d) over ({BY_TIME}), count(*) filter (where price > 100) over "
    f"({BY_TIME}), min(name) over ({BY_TIME}), max(x) over ({BY_TIME}), first(price, true) over ({BY_TIME}), "
    f"last(price) over ({BY_TIME}), stddev(price) over ({BY_TIME}), corr(price, id) over ({BY_TIME}), "
    f"max_by(name, price * 10000 + id) over ({BY_TIME}) from events",
    f"select id, sum(price) over w, avg(x) over w, collect_list(name) over w, percentile(price, 0.3) over w, "
    f"nth_value(price, 2) over w from events window w as ({BY_TIME} rows between 4 preceding and "
    "current row)",
    "select id, sum(price) over w, count(*) over w, max(d) over w, first_value(id) over w from events window w as "
    "(partition by name order by t range between interval 20 seconds preceding and interval 5 seconds preceding)",
    "select id, sum(price) over w, row_number() over w from events window w as (order by t)",
    f"select id, sum(price) over ({BY_TIME} rows between unbounded preceding and 2 preceding) from events",
    f"select * from (select id, user, row_number() over ({BY_TIME}) n from events) where n <= 2 and id > 5",
]
"""Queries whose rows are final when they come."""

CHANGING: list[Query] = [
    f"select id, lead(price) over ({BY_TIME}), lag(price, 2, -1) ignore nulls over ({BY_TIME}), lead(name, 2) ignore "
    f"nulls over ({BY_TIME}), nth_value(price, 3) ignore nulls over ({BY_TIME}) from events where id < 700",
    f"select id, ntile(7) over w, percent_rank() over w, cume_dist() over w from events window w as ({BY_PRICE})",
    "select id, rank() over w, dense_rank() over w, cume_dist() over w, sum(id) over w, count(x) over w from events "
    "window w as (partition by name order by price desc)",
    "select id, sum(price) over (partition by name order by price range between 10 preceding and 20 following), "
    "count(*) over (partition by name order by price desc nulls first range between 30 preceding and 1 preceding), "
    "sum(id) over (partition by user order by x range between 0.5 preceding and unbounded following), "
    "sum(id) over (order by d range between 1.5 preceding and current row) from events",
    f"select id, max(price) over ({BY_PRICE} rows between 2 following and 5 following), percentile(price, 0.5) "
    f"over ({BY_PRICE} rows between 3 preceding and 3 following), last(name) over ({BY_PRICE} rows "
    "between current row and unbounded following) from events",
    "select name, user, c, sum(c) over (partition by name order by c, user), lag(c) over (partition by name order by "
    "c, user), avg(c) over (partition by name) from (select name, user, count(*) c from events group by name, user)",
    "select id, sum(price) over (), max(name) over () from events",
    "select user, max(a), max(b), sum(c) from (select user, row_number() over (partition by user order by (select "
    "null)) a, count(*) over (partition by user order by current_timestamp()) b, 1 c from events) group by user",
]

AGGREGATES = (
    "max_by(id, price * 10000 + id), min_by(name, price * 10000 + id), percentile(price, 0.3), "
    "percentile(price, array(0.0, 0.55, 1.0)), median(x), percentile_approx(price, 0.4), "
    "approx_percentile(d, array(0.1, 0.9)), mode(id % 7, true), corr(price, id), covar_pop(price, user), "
    "covar_samp(price, user), skewness(price), kurtosis(price), bit_and(id), bit_or(price), bit_xor(id), "
    "regr_slope(price, id), regr_intercept(price, id), regr_r2(price, id), regr_sxx(price, id), regr_syy(price, id), "
    "regr_sxy(price, id), regr_count(price, user), regr_avgx(price, user), "
    "percentile(price, 0.5, user), percentile_cont(0.25) within group (order by price desc), "
    "percentile_disc(0.25) within group (order by price desc), percentile(distinct user, 0.5), "
    "skewness(distinct user), max_by(id, id) filter (where price > 500)"
)
DYNAMIC = (
    "session_window(t, case when price > 500 then '4 seconds' when price > 0 then '1 seconds' else '0 seconds' end)"
)

OTHERS: list[Query] = [
    f"select name, {AGGREGATES} from events group by name",
    f"select window, {AGGREGATES} from events group by window(t, '2 minutes')",
    "select max_by(user, c * 100 + user), min_by(user, c * 100 + user), median(c), percentile_approx(c, 0.3), mode(c), "
    "corr(c, user), skewness(c), kurtosis(c), bit_xor(c), bit_and(c), median(distinct c) filter (where user > 3) from "
    "(select user, count(*) c from events group by user)",
    f"select session_window, user, count(*), sum(price), median(price), count(distinct name) from events group by "
    f"{DYNAMIC}, user",
    f"select session_window.start, session_window.end, max_by(id, t) from events group by {DYNAMIC}",
    "select session_window, name, median(price), max_by(id, id) from events group by session_window(t, '5 seconds'), "
    "name",
]


FEW = "(select id, t, price, user from events where id < 300)"
OTHERS += [
    "select distinct c from (select user, count(*) c from events group by user)",
    lambda views: views["events"].groupBy("user", "name").count().dropDuplicates(["user"]).select("user"),
    f"select e.id, o.oid from {FEW} e join orders o on e.price > o.oid + 900",
    f"select e.id, o.oid from {FEW} e left join orders o on e.price > o.oid + 700 and o.oid > 200",
    f"select e.id from {FEW} e left anti join orders o on e.price > o.oid * 3",
    "select e.id, o.oid from events e join orders o on o.ot >= e.t and o.ot < e.t + interval 1 second",
    "select e.id, o.oid from events e left join orders o on o.ot >= e.t and o.ot <= e.t + interval 1 second",
    "select e.id, c.city from events e join cities c on e.user > c.uid + 15",
    "select e.id, c.city from events e left join cities c on e.user + 3 < c.uid and e.price > 500",
    "select e.id from events e left anti join cities c on e.user < c.uid and e.price > 500",
    "select e.id from events e where e.user not in (select uid + 5 from cities)",
    "select e.id from events e where e.user not in (select case when uid > 1 then uid end from cities)",
    "select name, n, city from (select name, count(*) n from events group by name) cross join cities where uid < 3",
]


def made(spark: SparkSession, query: Query, streams: Views, mode: str | None = None) -> Lowered:
    job = sl.Job("query", parallelism=2)
    plan = prepared(read_plan(answer(spark, query, streams)), scalar_value)
    return lowered(plan, Context(job, Uids(), mode, is_bounded=True))


def compare(spark: SparkSession, tables: tuple[Views, Views], query: Query, stream: Lowered) -> None:
    found = left_over(stream)
    expected = answer(spark, query, tables[1]).toArrow()
    columns = [column.to_pylist() for column in expected.columns]
    assert rows(found) == Counter(tuple(map(plain, row)) for row in zip(*columns, strict=True))


def name(query: Any) -> str:
    """As the name of a test, the same in every process."""
    return query if isinstance(query, str) else "frame"


@pytest.mark.parametrize("query", FINAL, ids=name)
def test_rows_in_order_of_event_time_are_final(spark: SparkSession, tables: tuple[Views, Views], query: Query) -> None:
    stream = made(spark, query, tables[0], "append")
    assert not stream.is_changing
    compare(spark, tables, query, stream)


@pytest.mark.parametrize("query", CHANGING, ids=name)
def test_rows_in_any_order_change_later(spark: SparkSession, tables: tuple[Views, Views], query: Query) -> None:
    stream = made(spark, query, tables[0])
    assert stream.is_changing
    compare(spark, tables, query, stream)


@pytest.mark.parametrize("query", OTHERS, ids=name)
def test_aggregates_and_sessions(spark: SparkSession, tables: tuple[Views, Views], query: Query) -> None:
    compare(spark, tables, query, made(spark, query, tables[0]))
