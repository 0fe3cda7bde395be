"""What an exchange between two slots carries, and how long a row takes: `python -m benchmarks.exchange [--json]`.

Throughput: batches of eight columns go through a hash exchange between two slots on Spark; the peer, in turn with it in
the same run, is a bare socket that carries the same Arrow IPC messages from one process to another and does nothing
else. Latency: rows go through a source, an exchange, keyed state and a sink at a fixed rate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks import exchange_ceiling
from benchmarks.parts import (
    STAMPED,
    Discard,
    LastMade,
    Prebuilt,
    Stamped,
    conditions,
    latencies_ms,
    spark_session,
    temporary,
)

import snapline as sl


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exchange", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of exchange and bare socket (3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (5)")
    parser.add_argument("--rate", type=int, default=50_000, help="rows per second of the latency measurement (50000)")
    options = parser.parse_args()
    spark = spark_session("local[2]")
    try:
        exchanges, sockets = [], []
        for number in range(options.rounds):
            exchanges.append(exchange(spark, options.seconds))
            sockets.append(exchange_ceiling.measure(options.seconds))
            _progress(
                f"round {number + 1}: {exchanges[-1]['rows_per_s']:,.0f} rows/s, bare socket "
                f"{sockets[-1]['rows_per_s']:,.0f} rows/s"
            )
        delays = latency(spark, options.rate, max(2 * options.seconds, 5.0))
    finally:
        spark.stop()
    rows = statistics.median(item["rows_per_s"] for item in exchanges)
    bare = statistics.median(item["rows_per_s"] for item in sockets)
    result = {
        "exchange": {
            "rows_per_s": rows,
            "bytes_per_s": statistics.median(item["bytes_per_s"] for item in exchanges),
            "bare_socket_rows_per_s": bare,
            "bare_socket_bytes_per_s": statistics.median(item["bytes_per_s"] for item in sockets),
            "ratio": rows / bare,
            "rounds": [item["rows_per_s"] for item in exchanges],
            "bare_socket_rounds": [item["rows_per_s"] for item in sockets],
        },
        "latency": delays,
        "conditions": conditions(),
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(f"exchange    {rows:14,.0f} rows/s   {rows / bare:5.2f} x a bare socket ({bare:,.0f} rows/s)")
        rate = delays["rows_per_s"]
        print(f"latency     p50 {delays['p50_ms']:.1f} ms, p99 {delays['p99_ms']:.1f} ms at {rate:,.0f} rows/s")
    return 0


def exchange(spark: Any, seconds: float) -> dict[str, float]:
    """Rows and bytes a second through a hash exchange between two slots, half of them from one slot to the other."""
    job = sl.Job("exchange", parallelism=2)
    job.source(Prebuilt(seconds), uid="rows").key_by("c0").apply(
        Forget(), uid="forget", schema=exchange_ceiling.make_batch(rows=1).schema, has_state=False
    ).sink(Discard(), uid="out")
    handle = job.start(spark)
    seen: list[tuple[float, int, int]] = []
    while not handle.status().is_globally_terminal:
        time.sleep(0.2)
        tasks = [task for name, task in handle.metrics().items() if name.startswith("forget/")]
        if len(tasks) == 2:
            seen.append((time.monotonic(), sum(task.rows_in for task in tasks), sum(task.bytes_in for task in tasks)))
    handle.wait()
    changes = [point for before, point in itertools.pairwise(seen) if point[1] != before[1]]
    (start_s, start_rows, start_bytes), (end_s, end_rows, end_bytes) = changes[0], changes[-1]
    elapsed_s = end_s - start_s
    return {"rows_per_s": (end_rows - start_rows) / elapsed_s, "bytes_per_s": (end_bytes - start_bytes) / elapsed_s}


class Forget(sl.Operator):
    """Takes rows and passes nothing on."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Reading them is all that is measured."""


def latency(spark: Any, rows_per_s: int, seconds: float) -> dict[str, float]:
    """How old rows are when they reach the sink, in milliseconds, with a checkpoint every second."""
    directory = temporary()
    try:
        job = sl.Job("latency", parallelism=2, checkpoints=sl.Checkpoints(interval="1s", storage=f"{directory}/chk"))
        job.source(Stamped(rows_per_s, seconds), uid="rows").key_by("key").apply(
            LastMade(), uid="state", schema=STAMPED
        ).sink(Discard(directory), uid="out")
        job.run(spark)
        delays = latencies_ms(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    p50, p90, p99, most = (float(np.percentile(delays, part)) for part in (50, 90, 99, 100))
    return {"rows_per_s": rows_per_s, "rows": len(delays), "p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "max_ms": most}


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
