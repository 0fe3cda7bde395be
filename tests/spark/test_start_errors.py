"""What is wrong is said within seconds, with what to do about it."""

from __future__ import annotations

import importlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import snapline as sl
from snapline.api.job_handle import JobFailedError
from snapline.errors import ConfigurationError, SnaplineError

pytestmark = pytest.mark.slow

SECONDS = 60.0


@pytest.fixture(autouse=True)
def within_seconds(spark: SparkSession) -> Iterator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < SECONDS


def make_job(directory: Path, function: Callable[[Any], Any] | None = None, **settings: Any) -> sl.Job:
    job = sl.Job("wrong", parallelism=2, **settings)
    stream = job.source(sl.sources.Rate(rows=1000), uid="rows")
    if function is not None:
        stream = stream.map_batches(function, uid="function", schema=stream.schema)
    stream.sink(sl.sinks.Files(directory / "out"), uid="out")
    return job


def test_checkpoints_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    checkpoints = sl.Checkpoints(interval="1s", storage=tmp_path / "file" / "checkpoints")
    with pytest.raises(SnaplineError, match=r"file/checkpoints.*The job was not started; name a directory") as caught:
        make_job(tmp_path, checkpoints=checkpoints).start(spark)
    assert "Not a directory" in str(caught.value)


def test_a_function_holds_something_that_cannot_be_sent(spark: SparkSession, tmp_path: Path) -> None:
    lock = threading.Lock()

    def locked(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return batch

    with pytest.raises(ConfigurationError, match=r"operator 'function' .* cannot be pickled .* create those in"):
        make_job(tmp_path, locked).start(spark)


def test_a_module_is_only_on_the_drivers_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_on_the_driver.py").write_text("def same(batch):\n    return batch\n")
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("only_on_the_driver").same
    checkpoints = sl.Checkpoints(interval="1s", storage=tmp_path / "checkpoints")
    handle = make_job(tmp_path, function, checkpoints=checkpoints).start(spark)
    with pytest.raises(JobFailedError) as caught:
        handle.wait("60s")
    assert re.fullmatch(
        r"job 'wrong' has failed: slot [01] on 127\.0\.0\.1: operator 'function' needs the module "
        r"'only_on_the_driver', which the executors do not have; install it [^;]*addPyFile[^;]*",
        str(caught.value).partition("\n")[0],
    ), "nothing that follows from it is added"
    assert handle.attempt == 1, "another try would end the same way"


def test_a_sink_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(ConfigurationError, match=r"the sink 'out' cannot be written: Files\('.*/out'\): .*; use a"):
        make_job(tmp_path).start(spark)


def test_zookeeper_is_down(spark: SparkSession, tmp_path: Path) -> None:
    checkpoints = sl.Checkpoints(interval="1s", storage=tmp_path / "checkpoints", zookeeper="127.0.0.1:1")
    for job_id in (None, "mine"):
        with pytest.raises(SnaplineError, match=r"no ZooKeeper at 127\.0\.0\.1:1 .*Connection refused"):
            make_job(tmp_path, checkpoints=checkpoints, id=job_id).start(spark)


def test_dynamic_allocation_is_on(spark: SparkSession, tmp_path: Path) -> None:
    conf: Any = spark.sparkContext._conf
    conf.set("spark.dynamicAllocation.enabled", "true")
    try:
        with pytest.raises(ConfigurationError, match=r"set it to false and give the number of executors"):
            make_job(tmp_path).start(spark)
    finally:
        conf.set("spark.dynamicAllocation.enabled", "false")


def test_a_session_of_spark_connect(tmp_path: Path) -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigurationError, match=r"Spark Connect session.*classic mode"):
        make_job(tmp_path).start(session)


def test_spark_was_stopped(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)
    with pytest.raises(ConfigurationError, match="create a new SparkSession"):
        make_job(tmp_path).start(spark)
