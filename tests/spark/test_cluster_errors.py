"""What a newcomer reads on a standalone cluster: one line with the cause and what to do, and a clean end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from snapline.devtools.servers.standalone_cluster import StandaloneCluster

pytestmark = pytest.mark.slow

TIMEOUT_S = 300.0

PROGRAM = """
import json, os, sys
from pathlib import Path

from pyspark.sql import SparkSession

import snapline as sl

MASTER, DIRECTORY = sys.argv[1:]


class OnlyOnTheDriver(sl.Sink):
    def __init__(self):
        self.pid = os.getpid()

    def check_access(self):
        if os.getpid() != self.pid:
            raise PermissionError(13, "Permission denied")

    def writer(self, context):
        raise AssertionError("no task starts")


def importing(batch):
    import numby
    return batch


def message(spark, parallelism=1, sink=None, function=None, **execution):
    job = sl.Job("wrong", parallelism=parallelism, execution=sl.Execution(**execution))
    stream = job.source(sl.sources.Rate(rows=100), uid="rows")
    if function is not None:
        stream = stream.map_batches(function, uid="function", schema=stream.schema)
    stream.sink(sink or sl.sinks.Files(DIRECTORY + "/out"), uid="out")
    try:
        return job.run(spark).value
    except sl.SnaplineError as error:
        return str(error)


def session(**settings):
    builder = SparkSession.builder.master(MASTER).config("spark.ui.enabled", "false")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    return builder.getOrCreate()


found = {}
spark = session(spark_cores_max="2", spark_executor_cores="2", spark_executor_memory="512m")
found["fewer cores than slots"] = message(spark, parallelism=3)
found["only the driver can write"] = message(spark, sink=OnlyOnTheDriver())
found["a module is missing"] = message(spark, function=importing)
spark.stop()
spark = session(spark_executor_memory="900g")
found["no executors"] = message(spark, executors_timeout="3s")
spark.stop()
Path(DIRECTORY, "found.json").write_text(json.dumps(found))
"""


def test_mistakes_on_a_cluster_cost_one_line_each(standalone_cluster: StandaloneCluster, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), standalone_cluster.url, str(tmp_path)],
        env=standalone_cluster.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["fewer cores than slots"] == (
        "the job needs 3 slots at the same time; Spark runs at most 2 tasks at once. Lower the parallelism to 2, or "
        "add executors or cores (spark.executor.instances, spark.executor.cores, spark.cores.max)"
    )
    assert found["only the driver can write"] == (
        "job 'wrong' has failed: slot 0 on 127.0.0.1: the sink 'out' cannot be written: PermissionError: [Errno 13] "
        "Permission denied"
    )
    assert found["a module is missing"].startswith(
        "job 'wrong' has failed: rows/0#1: UserCodeError: map_batches 'function' raised ModuleNotFoundError: No module "
        "named 'numby'"
    )
    assert "install it where the executors run, or ship it" in found["a module is missing"]
    assert found["no executors"].startswith(
        f"the job needs 1 slots, and Spark has no executors after 3 s; check that {standalone_cluster.url} has workers"
    )
    assert all("\n" not in text for text in found.values())
    assert "waiting for executors for 2 s, up to 60 s (executors_timeout): the job needs 3 slots" in done.stderr
