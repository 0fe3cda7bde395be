"""Counts and sums of keys in Spark Structured Streaming, by its own aggregation or by a Python function with state.

`python -m benchmarks.peers.structured_streaming --workload sql|pandas|rows --store hdfs|rocksdb --events N` prints one
JSON object. Every micro-batch is a checkpoint, so batches are sized to take about one second: a few short queries
determine the size, and warm up the JVM.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.arithmetic import Sql
from benchmarks.peers.checking import checksum, last_rows
from benchmarks.peers.workload import KEYS, PARALLELISM, key, value

PROVIDERS = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
FIRST_ROWS = {"sql": 400_000, "pandas": 4_000, "rows": 8_000}
TRIALS = 4
"""How many short queries search for the size of a batch that takes a second."""
TRIAL_BATCHES = 3
SHORTEST_S, LONGEST_S = 0.8, 1.25
TIMEOUT_S = 300.0
OUTPUT = "k BIGINT, n BIGINT, s BIGINT"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--workload", choices=tuple(FIRST_ROWS), required=True)
    parser.add_argument("--store", choices=tuple(PROVIDERS), default="hdfs")
    parser.add_argument("--check", action="store_true", help="collect the results instead of measuring")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="spark-benchmark-"))
    spark = session(options.store)
    try:
        queries = Queries(spark, options.workload, options.keys, directory)
        made = check(queries, options.events) if options.check else measure(queries, options.events, options.store)
        print(json.dumps({**made, "version": f"pyspark {spark.version}"}))
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)


def session(store: str) -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{PARALLELISM}]").appName("peers-benchmark")
    for name, setting in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(PARALLELISM),
        "spark.sql.streaming.stateStore.providerClass": PROVIDERS[store],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }.items():
        builder = builder.config(name, setting)
    return builder.getOrCreate()


class Queries:
    """Starts the query repeatedly, each time from the beginning."""

    def __init__(self, spark: Any, workload: str, keys: int, directory: Path) -> None:
        self._spark = spark
        self._workload = workload
        self._keys = keys
        self._directory = directory
        self._number = 0

    @property
    def first_rows(self) -> int:
        return FIRST_ROWS[self._workload]

    def run(self, events: int, batch_rows: int, sink: Callable[[Any, int], None] | None = None) -> list[dict[str, Any]]:
        """Runs over `events` events and returns Spark's report on each of their batches."""
        from pyspark.sql import functions

        self._number += 1
        source = self._spark.readStream.format("rate-micro-batch")
        source = source.options(rowsPerBatch=batch_rows, numPartitions=PARALLELISM)
        # the source never ends: what follows the last event is dropped and not counted
        numbers = source.load().where(functions.col("value") < events)
        number = Sql("value")
        rows = numbers.selectExpr(f"{key(number, self._keys)} AS k", f"{value(number)} AS v")
        writer = self._totals(rows).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", str(self._directory / f"checkpoint-{self._number}"))
        query = (writer.format("noop") if sink is None else writer.foreachBatch(sink)).start()
        batches = math.ceil(events / batch_rows)
        deadline_s = time.monotonic() + TIMEOUT_S
        try:
            while len(done := [item for item in query.recentProgress if item["numInputRows"]]) < batches:
                if query.exception() is not None:
                    raise RuntimeError(str(query.exception()))
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"{len(done)} of {batches} batches after {TIMEOUT_S} s")
                time.sleep(0.1)
        finally:
            query.stop()
        return done[:batches]

    def _totals(self, rows: Any) -> Any:
        from pyspark.sql import functions

        if self._workload == "sql":
            return rows.groupBy("k").agg(functions.count("*").alias("n"), functions.sum("v").alias("s"))
        grouped = rows.groupBy("k")
        call = grouped.transformWithStateInPandas if self._workload == "pandas" else grouped.transformWithState
        return call(_processor(self._workload), OUTPUT, outputMode="Update", timeMode="None")


def _processor(workload: str) -> Any:
    """The running count and sum of a key, one row out for each row in, as a processor of pandas or of rows.

    Reads and writes the state once for all rows of a key in a batch, as Spark intends.
    """
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Totals(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._state = handle.getValueState("totals", "n BIGINT, s BIGINT")

        def _before(self) -> tuple[int, int]:
            state = self._state.get() if self._state.exists() else None
            return (0, 0) if state is None else (state[0], state[1])

        def close(self) -> None:
            """Nothing to release."""

    class Rows(Totals):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            del timerValues
            count, total = self._before()
            for row in rows:
                count, total = count + 1, total + row.v
                yield Row(k=key[0], n=count, s=total)
            self._state.update((count, total))

    class Pandas(Totals):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            import pandas

            del timerValues
            count, total = self._before()
            found: list[tuple[int, int, int]] = []
            for frame in rows:
                for added in frame["v"].tolist():
                    count, total = count + 1, total + added
                    found.append((key[0], count, total))
            self._state.update((count, total))
            yield pandas.DataFrame(found, columns=["k", "n", "s"])

    return Pandas() if workload == "pandas" else Rows()


def measure(queries: Queries, events: int, store: str) -> dict[str, Any]:
    rows = calibrated(queries)
    rows = max(1, min(rows, events // TRIAL_BATCHES))
    batches = queries.run(events, rows)
    durations = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    # the first one includes planning and compilation
    counted, seconds = sum(batch["numInputRows"] for batch in batches[1:]), sum(durations[1:])
    return {
        "events": counted,
        "seconds": seconds,
        "events_per_second": counted / seconds,
        "timed": "all micro-batches of a query but its first, by what Spark tells of their execution",
        "conditions": {
            "state store": store,
            "rows in a batch": rows,
            "batches": len(batches),
            "median seconds of a batch": statistics.median(durations[1:]),
            "shuffle partitions": PARALLELISM,
            "source": "rate-micro-batch",
        },
    }


def calibrated(queries: Queries) -> int:
    """Returns how many rows a batch needs to take about a second."""
    rows = queries.first_rows
    for _ in range(TRIALS):
        batches = queries.run(rows * TRIAL_BATCHES, rows)
        duration_s = statistics.median(batch["durationMs"]["triggerExecution"] / 1000 for batch in batches[1:])
        if SHORTEST_S <= duration_s <= LONGEST_S:
            break
        rows = max(1000, int(rows * min(max(1 / duration_s, 0.25), 4)))
    return rows


def check(queries: Queries, events: int) -> dict[str, Any]:
    found: list[Any] = []
    queries.run(events, max(events // TRIAL_BATCHES, 1), lambda frame, _: found.extend(frame.collect()))
    return {"events": events, "result": checksum(last_rows(found))}


if __name__ == "__main__":
    main()
