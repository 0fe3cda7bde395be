"""Kafka to Kafka, and JSON alone, in Snapline on Spark `local[2]`.

`python -m benchmarks.connectors.snapline_kafka --bootstrap B --input T --output T --warm-up T --rows N` prints one JSON
object. A first job over the topic of the warm-up is not timed, as with the peers. Without `--output` the decoded rows
are dropped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.connectors.messages import DROPPED, FACTOR, INTERVAL_S, PARALLELISM
from benchmarks.parts import Discard, spark_session, temporary

import snapline as sl
from snapline.contracts.source import ReaderContext, SourceReader

SCHEMA = pa.schema([("user", pa.string()), ("value", pa.int64()), ("time", pa.int64()), ("text", pa.string())])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output")
    parser.add_argument("--warm-up", required=True)
    parser.add_argument("--warm-up-output")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--guarantee", choices=("exactly_once", "at_least_once"), default="exactly_once")
    options = parser.parse_args()
    spark = spark_session(f"local[{PARALLELISM}]")
    try:
        measure(spark, options.bootstrap, options.warm_up, options.warm_up_output, 0, options.guarantee)
        made = measure(spark, options.bootstrap, options.input, options.output, options.rows, options.guarantee)
    finally:
        spark.stop()
    print(json.dumps(made))


class TimedKafka(sl.sources.Kafka):
    """Writes down when its first reader is made."""

    first: Path

    def reader(self, context: ReaderContext) -> SourceReader:
        mark(self.first)
        return super().reader(context)


def mark(first: Path) -> None:
    """Write down the time, unless another subtask has."""
    try:
        with first.open("x", encoding="ascii") as file:
            file.write(str(time.time()))
    except FileExistsError:
        return


def measure(where: Any, bootstrap: str, source: str, output: str | None, rows: int, guarantee: Any) -> dict[str, Any]:
    directory = Path(temporary())
    try:
        reading = TimedKafka(bootstrap, source, format=sl.formats.Json(SCHEMA), bounded=True)
        reading.first = directory / "first"
        job = sl.Job(
            f"kafka {output}",
            parallelism=PARALLELISM,
            checkpoints=sl.Checkpoints(interval=f"{INTERVAL_S}s", storage=str(directory / "checkpoints")),
        )
        stream = job.source(reading, uid="input")
        if output is None:
            stream.sink(Discard(), uid="output")
        else:
            kept = stream.filter(kept_rows, format="arrow").with_columns(value=pc.field("value") * FACTOR)
            kept.sink(sl.sinks.Kafka(bootstrap, output, guarantee=guarantee), uid="output")
        return {**timed(job, where, reading.first, rows), "version": version()}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def kept_rows(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.remainder(batch.column("value").to_numpy(), DROPPED) != 0)


def timed(job: sl.Job, where: Any, first: Path, rows: int) -> dict[str, Any]:
    """Runs a job; the seconds count from what `mark` wrote to the end, when all rows are committed."""
    handle = job.start(where)
    handle.wait()
    ended_s = time.time()
    if handle.attempt != 1:
        raise RuntimeError(f"the job was restarted, and cannot be timed: {handle.cause}")
    seconds = ended_s - float(first.read_text(encoding="ascii"))
    return {
        "rows": rows,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "timed": "from the first reader to the end of the job, when all rows are committed",
        "conditions": {"checkpoints": handle.checkpoints().counts.completed},
    }


def version() -> str:
    from importlib.metadata import version as installed

    return f"snapline {installed('snapline')} on pyspark {installed('pyspark')}"


if __name__ == "__main__":
    main()
