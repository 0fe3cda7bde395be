"""What the page and the REST interface say of a job on Spark is what the job runs with."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import snapline as sl
from snapline.web.web_server import close_all

pytestmark = pytest.mark.slow

OVERRIDES = {
    "spark.snapline.checkpoints.interval": "700ms",
    "spark.snapline.checkpoints.timeout": "90s",
    "spark.snapline.checkpoints.min_pause": "50ms",
    "spark.snapline.checkpoints.tolerable_failures": "3",
    "spark.snapline.checkpoints.unaligned": "true",
    "spark.snapline.checkpoints.aligned_timeout": "2s",
    "spark.snapline.checkpoints.externalized": "delete_on_cancellation",
    "spark.snapline.execution.state_backend": "rocksdb",
    "spark.snapline.execution.metrics_interval": "100ms",
    "spark.snapline.restart.strategy": "fixed_delay",
    "spark.snapline.restart.attempts": "7",
    "spark.snapline.monitoring.port": "none",
    "spark.snapline.monitoring.read_only": "true",
}


@pytest.fixture
def overridden(spark: SparkSession) -> Iterator[SparkSession]:
    for name, value in OVERRIDES.items():
        spark.conf.set(name, value)
    yield spark
    for name in OVERRIDES:
        spark.conf.unset(name)
    close_all()


def ask(url: str, path: str) -> Any:
    root = url.split("/#", 1)[0].rstrip("/")
    with urllib.request.urlopen(f"{root}{path}", timeout=120) as answer:
        return json.load(answer)


def test_the_configuration_view_is_what_the_job_runs_with(overridden: SparkSession, tmp_path: Path) -> None:
    job = sl.Job("configured", parallelism=2, checkpoints=sl.Checkpoints(interval="5min", storage=tmp_path / "kept"))
    stream = job.source(sl.sources.Rate(500), uid="rows")
    stream.key_by("user").aggregate(n=sl.count(), uid="counts").sink(sl.sinks.Files(tmp_path / "out"), uid="out")
    handle = job.start(overridden)
    try:
        (listed,) = ask(handle.url, "/jobs/overview")["jobs"]
        shown = ask(handle.url, f"/jobs/{listed['jid']}/checkpoints/config")
        assert (shown["mode"], shown["interval"], shown["timeout"], shown["min_pause"]) == (
            "exactly_once",
            700,
            90_000,
            50,
        )
        assert shown["unaligned_checkpoints"] is True
        assert shown["aligned_checkpoint_timeout"] == 2000
        assert shown["tolerable_failed_checkpoints"] == 3
        assert shown["externalization"] == {"enabled": True, "delete_on_cancellation": True}
        ours = ask(handle.url, "/snapline/jobs/configured/configuration")
        assert ours["checkpoints"]["storage"] == str(tmp_path / "kept")
        assert ours["execution"]["state_backend"] == "rocksdb"
        assert ours["execution"]["metrics_interval_ms"] == 100
        assert (ours["restart"]["strategy"], ours["restart"]["attempts"]) == ("FixedDelay", 7)
        assert ours["monitoring"]["read_only"] is True
        view = handle.view()
        for name, settings in (("checkpoints", view.checkpoints), ("execution", view.execution)):
            numbers = {key: value for key, value in ours[name].items() if isinstance(value, int)}
            assert len(numbers) > 10
            assert {key: getattr(settings, key) for key in numbers} == numbers
        cancel = f"{handle.url.split('/#', 1)[0].rstrip('/')}/jobs/{listed['jid']}?mode=cancel"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(cancel, method="PATCH"), timeout=120)
        assert refused.value.code == 403
    finally:
        handle.cancel("120s")
