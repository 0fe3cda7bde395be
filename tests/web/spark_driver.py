"""A driver for the tests of the page: `spark_driver.py DIRECTORY PORT JOB...` runs these jobs on one Spark.

It says in JSON on standard output where their pages are, and later how each has ended.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

import snapline as sl


def make_job(name: str, directory: str, port: int) -> sl.Job:
    """Clicks per user, and per user and five seconds.

    `clicks` writes all of it to files, also rows that come too late. Others have a sink that cannot keep up.
    """
    is_slow = name != "clicks"
    job = sl.Job(
        name,
        id=name,
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="1s", storage=f"{directory}/checkpoints", history=50),
        execution=sl.Execution(batch_size="8KB", channel_memory="64KB") if is_slow else sl.Execution(),
        monitoring=sl.Monitoring(port=port),
    )
    source = sl.sources.Rate(700 if is_slow else 200, users=2000, splits=2, batch_rows=100)
    clicks = job.source(source, uid="clicks", watermarks=sl.Watermarks("time", delay="1s")).key_by("user")
    counts = clicks.aggregate(n=sl.count(), total=sl.sum("value"), uid="per-user")
    windows = clicks.window(sl.Tumbling("5s")).late_output("late").aggregate(n=sl.count(), uid="per-window")
    windows.sink(sl.sinks.Files(f"{directory}/{name}/windows"), uid="windows")
    if is_slow:
        counts.rebalance().sink(sl.sinks.Foreach(publish), uid="alerts")
    else:
        counts.sink(sl.sinks.Files(f"{directory}/{name}/counts"), uid="counts")
        windows.side_output("late").sink(sl.sinks.Files(f"{directory}/{name}/late"), uid="late")
    return job


def publish(row: Any) -> None:
    """A call to some service that takes its time."""
    time.sleep(0.004)


def main(directory: str, port: int, names: list[str]) -> None:
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # An override that the page must show.
        .config("spark.snapline.checkpoints.timeout", "123s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    handles = {name: make_job(name, directory, port).start(spark) for name in names}
    tell({name: handle.url for name, handle in handles.items()})
    for name, handle in handles.items():
        tell({name: handle.wait().value})
    # The pages of ended jobs stay until the program ends.
    sys.stdin.read()


def tell(said: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
