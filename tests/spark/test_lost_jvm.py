"""The driver's JVM is killed: the job ends by itself, with its state kept, and another program goes on with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapline.devtools.kit.exactly_once import numbering_job
from snapline.testing import ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

TIMEOUT_S = 300.0
ROWS = 20_000
PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
import snapline as sl
from snapline.devtools.kit.exactly_once import numbering_job

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
directory, rows = sys.argv[1], int(sys.argv[2])
handle = numbering_job("counting", directory, rows=rows, rows_per_second=2000, id="counting").job.start(spark)
said = {}
while handle.checkpoints().counts.completed < 3:
    time.sleep(0.05)
os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
try:
    said["end"] = handle.wait("120s").value
except sl.JobFailedError as error:
    said["end"] = str(error)
said["status"] = handle.status().value
said["attempt"] = handle.attempt
print("SAID" + json.dumps(said), flush=True)
os._exit(0)  # a session without its JVM cannot be stopped
"""


def lose_the_jvm(directory: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory), str(ROWS)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert "SAID" in done.stdout, done.stderr[-5000:]
    said: dict[str, Any] = json.loads(done.stdout.partition("SAID")[2])
    return said


def test_a_job_whose_jvm_was_killed_ends_by_itself_and_goes_on_in_the_next_program(tmp_path: Path) -> None:
    lost = lose_the_jvm(tmp_path)
    assert lost["status"] == "FAILED", lost
    assert "Spark's JVM on the driver has ended" in lost["end"], lost
    assert lost["attempt"] <= 2, lost
    again = numbering_job("counting", tmp_path, rows=ROWS, id="counting")
    handle = again.job.start(ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED, handle.cause
    assert any("starts from" in text and "chk-" in text for _, text in handle.events())
    assert again.prove().problems == ()
