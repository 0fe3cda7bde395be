"""The driver's JVM is killed: the job ends at once, with its state kept, and a new program goes on with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapline.devtools.kit.exactly_once import prove

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0
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
must_kill, directory, rows = sys.argv[1] == "kill", sys.argv[2], int(sys.argv[3])
made = numbering_job("counting", directory, rows=rows, rows_per_second=2000 if must_kill else None, id="counting")
handle = made.job.start(spark)
said = {}
if must_kill:
    deadline_s = time.monotonic() + 60
    while handle.checkpoints().counts.completed < 3 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    began_s = time.monotonic()
try:
    said["end"] = handle.wait("60s").value
except sl.JobFailedError as error:
    said["end"] = str(error)
said["status"] = handle.status().value
said["attempt"] = handle.attempt
said["took_s"] = time.monotonic() - began_s if must_kill else 0
said["events"] = [text for _, text in handle.events()]
print("SAID" + json.dumps(said), flush=True)
os._exit(0)  # a session without its JVM cannot be stopped
"""


def run(directory: Path, what: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what, str(directory), str(ROWS)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert "SAID" in done.stdout, done.stderr[-5000:]
    said: dict[str, Any] = json.loads(done.stdout.partition("SAID")[2])
    return said


def test_a_job_whose_jvm_was_killed_ends_at_once_and_goes_on_in_the_next_program(tmp_path: Path) -> None:
    lost = run(tmp_path, "kill")
    assert lost["status"] == "FAILED", lost
    assert "Spark's JVM on the driver has ended" in lost["end"], lost
    assert lost["took_s"] < 20, lost
    assert lost["attempt"] <= 2, lost
    again = run(tmp_path, "finish")
    assert again["end"] == "FINISHED", again
    assert any("starts from" in text and "chk-" in text for text in again["events"]), again
    assert prove(tmp_path / "out", ROWS).problems == ()
