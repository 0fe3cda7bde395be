"""What an exchange between two slots carries, and how long a row takes: `python -m benchmarks.exchange [--json]`.

Throughput: batches of eight columns go through a hash exchange between two slots on Spark; the peer, in turns in the
same run, is a bare socket that carries the same Arrow IPC messages from one process to another and does nothing else.
Latency: rows go through a source, an exchange, keyed state and a sink at a fixed rate.

`--encryption none,mac,tls` compares the exchange with each protection instead, in turns in the same run: at full speed,
and the processor time of the operator processes at `--paced` rows per second.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
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
    rates,
    spark_session,
    temporary,
)

import snapline as sl

BATCH_ROWS = (32_768, 8_192)
"""In Snapline, each half of a batch goes to another slot."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exchange", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of exchange and bare socket (3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (5)")
    parser.add_argument("--encryption", default="", help="protections to compare, for example none,mac,tls")
    parser.add_argument("--paced", type=int, default=1_000_000, help="rows per second of that comparison (1000000)")
    parser.add_argument("--rate", type=int, default=50_000, help="rows per second of the latency measurement (50000)")
    options = parser.parse_args()
    spark = spark_session("local[2]")
    if options.encryption:
        return compare_protections(spark, options)
    try:
        exchanges = {rows: compare(spark, rows, options.rounds, options.seconds) for rows in BATCH_ROWS}
        delays = latency(spark, options.rate, max(2 * options.seconds, 5.0))
    finally:
        spark.stop()
    result = {"exchange": exchanges, "latency": delays, "conditions": conditions()}
    if options.json:
        print(json.dumps(result))
        return 0
    for rows, figures in exchanges.items():
        print(
            f"exchange, batches of {rows:6,d} rows {figures['rows_per_s']:14,.0f} rows/s   {figures['ratio']:5.2f} x a "
            f"bare socket ({figures['bare_socket_rows_per_s']:,.0f} rows/s)"
        )
    rate = delays["rows_per_s"]
    print(f"latency     p50 {delays['p50_ms']:.1f} ms, p99 {delays['p99_ms']:.1f} ms at {rate:,.0f} rows/s")
    return 0


def compare(spark: Any, rows: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Runs exchange and bare socket in turns, with batches of `rows` rows; returns medians and all rounds."""
    exchanges, sockets = [], []
    for number in range(rounds):
        exchanges.append(exchange(spark, seconds, rows))
        sockets.append(exchange_ceiling.measure(seconds, rows=rows))
        ours, bare = exchanges[-1]["rows_per_s"], sockets[-1]["rows_per_s"]
        text = f"batches of {rows} rows, round {number + 1}: {ours:,.0f} rows/s, bare socket {bare:,.0f} rows/s"
        print(text, file=sys.stderr, flush=True)
    ours, bare = (statistics.median(item["rows_per_s"] for item in items) for items in (exchanges, sockets))
    return {
        "rows_per_s": ours,
        "bytes_per_s": statistics.median(item["bytes_per_s"] for item in exchanges),
        "bare_socket_rows_per_s": bare,
        "bare_socket_bytes_per_s": statistics.median(item["bytes_per_s"] for item in sockets),
        "ratio": ours / bare,
        "rounds": [item["rows_per_s"] for item in exchanges],
        "bare_socket_rounds": [item["rows_per_s"] for item in sockets],
    }


def compare_protections(spark: Any, options: argparse.Namespace) -> int:
    """Prints throughput at full speed, and processor time at a fixed rate, with each protection."""
    names = options.encryption.split(",")
    speeds: dict[str, list[float]] = {name: [] for name in names}
    cores: dict[str, list[float]] = {name: [] for name in names}
    try:
        for number in range(options.rounds):
            for name in names:
                speeds[name].append(exchange(spark, options.seconds, BATCH_ROWS[0], name)["rows_per_s"])
                paced = exchange(spark, options.seconds, BATCH_ROWS[1], name, options.paced)
                cores[name].append(paced["cores"])
                text = f"round {number + 1}, {name}: {speeds[name][-1]:,.0f} rows/s at full speed; "
                text += f"{paced['cores']:.2f} cores at {paced['rows_per_s']:,.0f} rows/s"
                print(text, file=sys.stderr, flush=True)
    finally:
        spark.stop()
    plain = statistics.median(speeds[names[0]])
    result = {
        name: {
            "rows_per_s": statistics.median(speeds[name]),
            "ratio": statistics.median(speeds[name]) / plain,
            "rounds": speeds[name],
            "paced_cores": statistics.median(cores[name]),
            "paced_rounds": cores[name],
        }
        for name in names
    }
    if options.json:
        print(json.dumps({"protections": result, "conditions": conditions()}))
        return 0
    for name, figures in result.items():
        print(
            f"{name:5} {figures['rows_per_s']:14,.0f} rows/s, {figures['ratio']:5.2f} x {names[0]}   "
            f"{figures['paced_cores']:.2f} cores at {options.paced:,d} rows/s"
        )
    return 0


def exchange(
    spark: Any, seconds: float, rows: int, encryption: str = "mac", pace: int | None = None
) -> dict[str, float]:
    """Returns the rates of a hash exchange between two slots; half of the rows change slots."""
    job = sl.Job("exchange", parallelism=2, execution=sl.Execution(encryption=encryption))
    job.source(Prebuilt(seconds, rows, pace), uid="rows").key_by("c0").apply(
        Forget(), uid="forget", schema=exchange_ceiling.make_batch(rows=1).schema, has_state=False
    ).sink(Discard(), uid="out")
    return rates(job.start(spark), "forget/", 2)._asdict()


class Forget(sl.Operator):
    """Takes rows and emits nothing."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Does nothing: the benchmark measures only reading."""


def latency(spark: Any, rows_per_s: int, seconds: float) -> dict[str, float]:
    """Returns the age of rows at the sink, in milliseconds, with a checkpoint every second."""
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


if __name__ == "__main__":
    sys.exit(main())
