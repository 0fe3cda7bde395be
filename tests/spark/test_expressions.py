"""Random expressions mean the same here as in Spark; `python -m benchmarks.expressions` compares many more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.expressions.running import cases, compare, edge_batch
from benchmarks.expressions.spark_answers import SETTINGS
from pyspark.sql import SparkSession

COUNT = 400
SEED = 20


@pytest.fixture
def plain_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark that evaluates expressions as they are written."""
    changed = (*SETTINGS, "spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    before = {name: spark.conf.get(name, None) for name in changed}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


@pytest.mark.slow
def test_random_expressions_mean_the_same(plain_spark: SparkSession) -> None:
    result = compare(cases(plain_spark, COUNT, SEED), edge_batch(SEED))
    assert not result.differences
    assert sum(result.compared.values()) > COUNT * 0.9
    assert result.with_errors > COUNT * 0.05
