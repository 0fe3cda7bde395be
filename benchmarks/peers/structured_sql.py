"""Nexmark's SQL texts in Spark Structured Streaming: `python -m benchmarks.peers.structured_sql --events N`.

Prints one JSON object of the form {query: figures}; a query that Structured Streaming refuses has the reason under
`refused`. Every micro-batch is a checkpoint, so batches are sized to take about one second.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.nexmark.spark_sql import ANSWERS
from benchmarks.peers.arithmetic import Sql
from benchmarks.peers.nexmark_events import EVENTS_IN_GROUP, ROWS_IN_GROUP, SQL_QUERIES, columns
from benchmarks.peers.structured_streaming import SHORTEST_S, TIMEOUT_S, session
from benchmarks.peers.workload import PARALLELISM

FIRST_EVENTS = 200_000
TRIALS = 2
"""How many short runs search for the size of a batch that takes a second."""
BATCHES = 4
MODES = ("append", "update", "complete")
_REASON = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("nexmark", nargs="?")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--queries", default=",".join(SQL_QUERIES))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="spark-benchmark-"))
    spark = session("hdfs")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    side = [(key, f"side-{key}") for key in range(10_000) if key % 10 != 9]
    spark.createDataFrame(side, "key BIGINT, value STRING").createOrReplaceTempView("side_input")
    try:
        made = {name: measure(spark, name, options.events, directory) for name in options.queries.split(",")}
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps(made))


def measure(spark: Any, query: str, events: int, directory: Path) -> dict[str, Any]:
    """Runs a query over about `events` events; the first batch is not counted."""
    rows = FIRST_EVENTS
    for _ in range(TRIALS):
        found = _run(spark, query, rows, 3, directory)
        if isinstance(found, str):
            return {"refused": found}
        duration_s = statistics.median(found[1:])
        if duration_s >= SHORTEST_S:
            break
        rows = int(rows * min(1 / duration_s, 8)) // EVENTS_IN_GROUP * EVENTS_IN_GROUP
    batches = max(BATCHES, math.ceil(events / rows) + 1)
    found = _run(spark, query, rows, batches, directory)
    if isinstance(found, str):
        return {"refused": found}
    counted, seconds = rows * (batches - 1), sum(found[1:])
    return {
        "events": counted,
        "seconds": seconds,
        "events_per_second": counted / seconds,
        "version": f"pyspark {spark.version}",
        "timed": "all micro-batches of a query but its first, by what Spark tells of their execution",
        "conditions": {"events in a batch": rows, "batches": batches, "shuffle partitions": PARALLELISM},
    }


def _run(spark: Any, query: str, events: int, batches: int, directory: Path) -> list[float] | str:
    """The seconds of each of so many batches with so many events each; or why Spark refuses the query."""
    from pyspark.errors import AnalysisException

    text = ANSWERS[query]
    kinds = [kind for kind in ROWS_IN_GROUP if re.search(rf"(?:FROM|JOIN)\s+{kind}\b", text)]
    for kind in kinds:
        _view(spark, kind, events)
    reason = ""
    for mode in MODES:
        checkpoint = tempfile.mkdtemp(dir=directory)
        writer = spark.sql(text).writeStream.outputMode(mode).format("noop").option("checkpointLocation", checkpoint)
        try:
            started = writer.start()
        except AnalysisException as error:
            reason = reason or str(error)[:_REASON]
            continue
        return _durations(started, batches, events * sum(ROWS_IN_GROUP[kind] for kind in kinds) // EVENTS_IN_GROUP)
    return reason


def _view(spark: Any, kind: str, events: int) -> None:
    source = spark.readStream.format("rate-micro-batch")
    rows = events // EVENTS_IN_GROUP * ROWS_IN_GROUP[kind]
    numbers = source.options(rowsPerBatch=rows, numPartitions=PARALLELISM).load()
    made = []
    for name, make in columns(kind, Sql("value")).items():
        expression = str(make()).replace(" / ", " DIV ")
        if name.endswith("_ms"):
            column = "dateTime" if name == "time_ms" else name.removesuffix("_ms")
            made.append(f"timestamp_millis({expression}) AS {column}")
        else:
            made.append(f"{expression} AS {name}")
    numbers.selectExpr(*made).withWatermark("dateTime", "0 seconds").createOrReplaceTempView(kind)


def _durations(query: Any, batches: int, rows: int) -> list[float]:
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        while len(done := [item for item in query.recentProgress if item["numInputRows"] >= rows]) < batches:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{len(done)} of {batches} batches after {TIMEOUT_S} s")
            time.sleep(0.05)
    finally:
        query.stop()
    return [item["durationMs"]["triggerExecution"] / 1000 for item in done[:batches]]


if __name__ == "__main__":
    main()
