"""Nexmark from its SQL texts has the answers of Spark's batch queries, also after a crash."""

from __future__ import annotations

import pyarrow as pa
import pytest
from benchmarks.nexmark.check import check
from benchmarks.nexmark.running import CHECKPOINTS_BEFORE_CRASH
from benchmarks.nexmark.spark_sql import ANSWERS, Oracle
from benchmarks.nexmark.sql_queries import SqlQueries, columns_read, folded
from pyspark.sql import SparkSession

from snapline.testing.clusters import ProcessCluster, ThreadCluster

pytestmark = pytest.mark.slow

EVENTS = 20_000
EVENTS_PER_SECOND = 500
"""So slow that more than half a minute of event time passes: several windows."""

KILLED = ("q7", "q16")


@pytest.fixture(scope="module")
def oracle(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(lambda: spark, tmp_path_factory.mktemp("nexmark"), EVENTS, EVENTS_PER_SECOND)


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> SqlQueries:
    return SqlQueries(spark)


@pytest.mark.parametrize("query", ANSWERS)
def test_the_answers_are_those_of_spark(query: str, oracle: Oracle, sql: SqlQueries) -> None:
    verdict = check(
        query, oracle, ThreadCluster(), events=EVENTS, parallelism=2, events_per_second=EVENTS_PER_SECOND, sql=sql
    )
    assert not verdict.problem
    assert verdict.rows > 0


@pytest.mark.parametrize("query", KILLED)
@pytest.mark.usefixtures("launched_operators")  # it looks for them among the processes
def test_the_answers_are_the_same_after_a_crash(query: str, oracle: Oracle, sql: SqlQueries) -> None:
    verdict = check(
        query,
        oracle,
        ProcessCluster(),
        events=EVENTS,
        parallelism=2,
        crashes=1,
        events_per_second=EVENTS_PER_SECOND,
        sql=sql,
    )
    assert not verdict.problem
    (crashed_after,) = verdict.crashed_after
    assert CHECKPOINTS_BEFORE_CRASH <= crashed_after < verdict.checkpoints


def test_changes_leave_rows_as_often_as_they_were_added_and_not_taken_back() -> None:
    rows = pa.table(
        {"a": ["x", "x", "y", "y", "z"], "n": [1, 1, 2, 2, None], "__change": pa.array([0, 2, 0, 3, 0], pa.int8())}
    )
    assert sorted(map(tuple, (row.values() for row in folded(rows).to_pylist())), key=str) == [
        ("x", 1),
        ("x", 1),
        ("z", None),
    ]
    with pytest.raises(ValueError, match="1 rows were taken back"):
        folded(rows.slice(3, 1))


def test_sources_generate_the_columns_that_a_text_names() -> None:
    assert columns_read(ANSWERS["q2"], ["auction", "bidder", "price"]) == ["auction", "price"]
