"""The queries of Nexmark have the answers that Spark's SQL gives, also after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.nexmark.check import check
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.running import CHECKPOINTS_BEFORE_CRASH
from benchmarks.nexmark.spark_sql import ANSWERS, Oracle
from pyspark.sql import SparkSession

from snapline.testing.clusters import ProcessCluster, ThreadCluster

pytestmark = pytest.mark.slow

EVENTS = 30_000
EVENTS_PER_SECOND = 500
"""So slow that a minute of event time passes: several windows, and midnight."""


@pytest.fixture(scope="module")
def oracle(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(lambda: spark, tmp_path_factory.mktemp("nexmark"), EVENTS, EVENTS_PER_SECOND)


@pytest.mark.parametrize("query", QUERIES)
def test_the_answers_are_those_of_spark(query: str, oracle: Oracle) -> None:
    verdict = check(query, oracle, ThreadCluster(), events=EVENTS, parallelism=2, events_per_second=EVENTS_PER_SECOND)
    assert not verdict.problem
    assert verdict.rows > 0


@pytest.mark.usefixtures("launched_operators")  # it looks for them among the processes
def test_the_answers_are_the_same_after_a_crash(oracle: Oracle) -> None:
    verdict = check(
        "q9", oracle, ProcessCluster(), events=EVENTS, parallelism=2, crashes=1, events_per_second=EVENTS_PER_SECOND
    )
    assert not verdict.problem
    (crashed_after,) = verdict.crashed_after
    assert CHECKPOINTS_BEFORE_CRASH <= crashed_after < verdict.checkpoints


def test_what_differs_is_found(oracle: Oracle, tmp_path: Path) -> None:
    other = Oracle(oracle._get_spark, tmp_path, EVENTS - 1, EVENTS_PER_SECOND)
    verdict = check(
        "q2", other, ThreadCluster(), events=EVENTS // 2, parallelism=1, events_per_second=EVENTS_PER_SECOND
    )
    assert "rows missing, such as" in verdict.problem
    assert "DIFFERENT" in str(verdict)


def test_every_query_has_an_answer() -> None:
    assert list(QUERIES) == list(ANSWERS)
