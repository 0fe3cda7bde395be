"""Jobs as guests of a Spark application: what it sees of them, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from pyspark.sql import SparkSession

import snapline as sl
from snapline.devtools.kit.exactly_once import numbering_job, prove
from snapline.devtools.kit.processes import Process, descendants, operator_processes
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

SUBMIT_TIMEOUT_S = 300.0


def endless_job(name: str, directory: Path, function: Callable[[Any], Any] | None = None, **settings: Any) -> sl.Job:
    job = sl.Job(name, parallelism=2, **settings)
    stream = job.source(sl.sources.Rate(1000), uid="rows")
    if function is not None:
        stream = stream.map_batches(function, uid="function", schema=stream.schema)
    stream.sink(sl.sinks.Files(directory / "out"), uid="out")
    return job


def test_spark_shows_a_job_under_its_name(spark: SparkSession, tmp_path: Path, wait_until: Any) -> None:
    handle = endless_job("orders <i>by</i> hour", tmp_path).start(spark)
    try:
        wait_until(lambda: handle.status() is JobStatus.RUNNING)
        context: Any = spark.sparkContext
        (number,) = context.statusTracker().getJobIdsForGroup(f"snapline-{handle.id}-1")
        assert number in context.statusTracker().getActiveJobsIds()
        description = context._jsc.sc().statusStore().job(number).description()
        name = "orders &lt;i&gt;by&lt;/i&gt; hour"
        assert description.get() == f"Snapline job {name}, from attempt 1 on: {handle.url}"
    finally:
        handle.cancel("120s")
    wait_until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())


def sleeping(directory: Path) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def sleep(batch: pa.RecordBatch) -> pa.RecordBatch:
        (directory / "reached").touch()
        time.sleep(600)
        return batch

    return sleep


def sorting(directory: Path) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def sort(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = pa.array(np.random.default_rng(1).random(5_000_000))
        (directory / "reached").touch()
        for _ in range(1000):
            pc.sort_indices(values)
        return batch

    return sort


@pytest.mark.parametrize("native", [sleeping, sorting])
def test_a_job_is_cancelled_while_user_code_is_in_a_native_call(
    spark: SparkSession, tmp_path: Path, wait_until: Any, native: Any
) -> None:
    execution = sl.Execution(cancel_timeout="500ms")
    handle = endless_job("native", tmp_path, native(tmp_path), execution=execution).start(spark)
    wait_until(lambda: (tmp_path / "reached").exists())
    handle.cancel("120s")
    assert handle.status() is JobStatus.CANCELED
    assert operator_processes(os.getpid()) == []


def test_jobs_leave_nothing_in_sparks_workers(spark: SparkSession, tmp_path: Path) -> None:
    held: list[dict[int, tuple[int, int, list[Process]]]] = []
    for number in range(3):
        made = numbering_job(f"guest-{number}", tmp_path / str(number), rows=2000)
        handle = made.job.start(spark)
        assert handle.wait("120s") is JobStatus.FINISHED
        assert made.prove().is_exactly_once
        assert operator_processes(os.getpid()) == []
        held.append({pid: _held(pid) for pid in python_workers()})
    both = held[1].keys() & held[-1].keys()
    assert both, "Spark's workers are used again"
    assert {pid: held[-1][pid] for pid in both} == {pid: held[1][pid] for pid in both}
    assert {(threads, tuple(children)) for threads, _, children in held[-1].values()} == {(1, ())}


def python_workers() -> list[int]:
    """Spark's, which its daemon has forked."""
    found = descendants(os.getpid())
    daemons = {it.pid: it for it in found if "pyspark.daemon" in Path(f"/proc/{it.pid}/cmdline").read_text()}
    return [pid for pid, it in daemons.items() if it.parent in daemons]


def _held(pid: int) -> tuple[int, int, list[Process]]:
    """Threads, different open files, children."""
    files = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            files.add(os.readlink(link))
    return len(list(Path(f"/proc/{pid}/task").iterdir())), len(files), descendants(pid)


SUBMITTED = """
import json, sys, time
from pyspark.sql import SparkSession
from snapline.devtools.kit.exactly_once import numbering_job

directory, rows = sys.argv[1], int(sys.argv[2])

def started():
    spark = SparkSession.builder.getOrCreate()
    made = numbering_job("submitted", directory, rows=rows, rows_per_second=5000, parallelism=1)
    return spark, made.job.start(spark)

spark, handle = started()
while handle.checkpoints().counts.completed < 2:
    time.sleep(0.01)
told = {"ordered": [event for _, event in handle.events() if event.startswith("slots ordered")]}
spark.stop()
try:
    told["ended"] = handle.wait("120s").value
except Exception as error:
    told["ended"] = str(error)
told["status"] = handle.status().value
spark, handle = started()
told["again"] = handle.wait("120s").value
told["from"] = [event for _, event in handle.events() if "starts from" in event]
print("TOLD" + json.dumps(told))
"""


def test_a_job_through_spark_submit_outlives_the_stop_of_its_session(tmp_path: Path) -> None:
    """Settings come with --conf; after `spark.stop()` the job can be resumed, whatever its restart strategy says."""
    script = tmp_path / "submitted.py"
    script.write_text(SUBMITTED)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.snapline.parallelism": "2",
        "spark.snapline.checkpoints.interval": "100ms",
        "spark.snapline.restart.strategy": "none",
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    done = subprocess.run(
        [*command, str(script), str(tmp_path), "12000"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    told = json.loads(done.stdout.partition("TOLD")[2])
    assert told["ordered"] == ["slots ordered: generation 1, 2 slots"]
    assert told["status"] == "FAILED"
    assert "Spark was stopped" in told["ended"]
    assert (told["again"], "chk-" in told["from"][-1]) == ("FINISHED", True), told
    assert prove(tmp_path / "out", 12000).is_exactly_once
