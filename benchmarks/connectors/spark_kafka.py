"""Kafka to Kafka, and JSON alone, in Spark Structured Streaming with its Kafka connector, which is at least once only.

`python -m benchmarks.connectors.spark_kafka --bootstrap B --jars J,... --input T --output T --warm-up T --rows N`
prints one JSON object. A first query over the topic of the warm-up lets the JVM compile and tells how many rows take a
second; the second one is timed, in batches of about a second or, with `--whole`, in a single one. Without `--output`
the decoded rows are dropped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.connectors.messages import DROPPED, FACTOR, INTERVAL_S, PARALLELISM

SCHEMA = "user STRING, value BIGINT, time BIGINT, text STRING"
TUNED = {
    "kafka.compression.type": "lz4",
    "kafka.linger.ms": "20",
    "kafka.batch.size": "1000000",
    "kafka.buffer.memory": "134217728",
}
TIMEOUT_S = 600
MOST_BATCHES = 40
"""Of a run: after a warm-up with few rows, which does not tell much, batches could be tiny."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output")
    parser.add_argument("--warm-up", required=True)
    parser.add_argument("--warm-up-output")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--whole", action="store_true", help="one batch with all rows")
    parser.add_argument("--tuned", action="store_true", help="larger batches with lz4 instead of the defaults")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="spark-benchmark-"))
    spark = session(options.jars)
    try:
        print(json.dumps({**measure(spark, options, directory), "version": f"pyspark {spark.version}"}))
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)


def session(jars: str) -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{PARALLELISM}]").appName("connectors-benchmark")
    for name, setting in {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }.items():
        builder = builder.config(name, setting)
    return builder.getOrCreate()


def measure(spark: Any, options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    # Twice: the first one includes planning and compilation.
    for number in range(2):
        warm = run(spark, options, options.warm_up, options.warm_up_output, directory / f"warm-{number}")
    rate = sum(batch["numInputRows"] for batch in warm) / span_s(warm)
    batch_rows = None if options.whole else max(int(rate * INTERVAL_S), options.rows // MOST_BATCHES, 1)
    batches = run(spark, options, options.input, options.output, directory / "timed", batch_rows)
    counted, seconds = sum(batch["numInputRows"] for batch in batches), span_s(batches)
    if counted != options.rows:
        raise RuntimeError(f"{counted} rows were read of {options.rows}")
    return {
        "rows": counted,
        "seconds": seconds,
        "rows_per_second": counted / seconds,
        "timed": "from the start of the first micro-batch to the end of the last, by what Spark tells, JVM warm",
        "conditions": {
            "batches": len(batches),
            "most rows in a batch": batch_rows,
            **(TUNED if options.tuned else {}),
        },
    }


def run(
    spark: Any, options: argparse.Namespace, source: str, sink: str | None, checkpoint: Path, most: int | None = None
) -> list[dict[str, Any]]:
    """Runs a query over what is in the topic; returns Spark's report on each batch."""
    from pyspark.sql import functions

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", options.bootstrap)
    reader = reader.options(subscribe=source, startingOffsets="earliest")
    if most is not None:
        reader = reader.option("maxOffsetsPerTrigger", most)
    value = functions.col("value").cast("string")
    rows = reader.load().select(functions.from_json(value, SCHEMA).alias("row")).select("row.*")
    if sink is None:
        writer = rows.writeStream.format("noop")
    else:
        rows = rows.where(functions.col("value") % DROPPED != 0).withColumn("value", functions.col("value") * FACTOR)
        writer = rows.select(functions.to_json(functions.struct("*")).alias("value")).writeStream.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", options.bootstrap).option("topic", sink)
        if options.tuned:
            writer = writer.options(**TUNED)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    if not query.awaitTermination(TIMEOUT_S):
        query.stop()
        raise TimeoutError(f"the query did not end within {TIMEOUT_S} s")
    return [item for item in query.recentProgress if item["numInputRows"]]


def span_s(batches: list[dict[str, Any]]) -> float:
    """The seconds from the start of the first batch to the end of the last."""
    first, last = _time_s(batches[0]), _time_s(batches[-1])
    seconds: float = last - first + batches[-1]["durationMs"]["triggerExecution"] / 1000
    return seconds


def _time_s(batch: dict[str, Any]) -> float:
    return datetime.datetime.fromisoformat(batch["timestamp"]).timestamp()


if __name__ == "__main__":
    main()
