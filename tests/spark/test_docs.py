"""The pages whose blocks need Spark run on it, and give what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.docs_pages import ON_SPARK, run_page

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", ["tutorial.md", "spark.md"])
def test_the_page_runs_on_spark(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, ON_SPARK)  # it gets this session
