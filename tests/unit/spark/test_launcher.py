"""Sessions no job is started on; `tests/spark` starts jobs on real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.spark.spark_stub import make_session

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.spark.launcher import start_job


def test_a_connect_session_is_refused_before_anything_starts() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigurationError, match="classic mode"):
        start_job(remote, sl.Job("job"))


def test_a_job_is_explained_with_the_settings_of_the_session() -> None:
    settings = {"spark.snapline.parallelism": "3", "spark.snapline.checkpoints.interval": "7s"}
    session = make_session()
    session.sparkContext.getConf = lambda: SimpleNamespace(getAll=list)
    session.conf = SimpleNamespace(getAll=settings)
    job = sl.Job("job")
    job.source(sl.sources.Rate(rows=1), uid="rows").sink(sl.sinks.Print(), uid="out")
    plan = job.explain(_of_pyspark(session))
    assert plan.slots == 3
    assert dict(plan.facts)["checkpoints"].startswith("every 7 s, ")
    assert job.explain().slots == 1


def _of_pyspark(session: Any) -> Any:
    made = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    made.__dict__.update(vars(session))
    return made
