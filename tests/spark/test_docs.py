"""The pages whose blocks need Spark run on it, and give what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.docs_pages import ON_SPARK, run_page

pytestmark = pytest.mark.slow

PATIENCE = "spark.snapline.execution.heartbeat_timeout"  # machines that run tests may be slow


@pytest.mark.parametrize("page", ["tutorial.md", "spark.md"])
def test_the_page_runs_on_spark(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spark.conf.set(PATIENCE, "60s")  # the pages get this session
    try:
        run_page(page, ON_SPARK)
    finally:
        spark.conf.unset(PATIENCE)
