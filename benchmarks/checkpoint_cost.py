"""What a checkpoint every second costs: `python -m benchmarks.checkpoint_cost [--json]`.

One job on Spark `local[2]`: a source at full speed, a hash exchange, sums of 100,000 keys and a sink. In one run,
periods without checkpoints take turns with periods with one every second. Compares the rows that went into the sums in
each. The order alternates from pair to pair.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.parts import Discard, Prebuilt, conditions, spark_session, temporary

import snapline as sl

KEYS = 100_000
WARM_UP_S = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint_cost", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--pairs", type=int, default=12, help="pairs of periods (12)")
    parser.add_argument("--seconds", type=int, default=5, help="length of each period (5)")
    parser.add_argument("--unaligned", action="store_true", help="unaligned checkpoints")
    options = parser.parse_args()
    spark = spark_session("local[2]")
    try:
        result = measure(spark, options.pairs, options.seconds, unaligned=options.unaligned)
    finally:
        spark.stop()
    if options.json:
        print(json.dumps({**result, "conditions": {**conditions(), "keys": KEYS, "seconds": options.seconds}}))
    else:
        print(
            f"a checkpoint every second costs {result['cost']:.1%} of the throughput "
            f"({result['rows_per_s_with']:,.0f} against {result['rows_per_s_without']:,.0f} rows/s; "
            f"median of the pairs {result['median_of_pairs']:.1%})"
        )
    return 0


def measure(spark: Any, pairs: int, seconds: int, *, unaligned: bool) -> dict[str, Any]:
    """Returns rows per second with and without checkpoints, in periods of one run."""
    directory = temporary()
    checkpoints = sl.Checkpoints(storage=directory, unaligned=unaligned)
    execution = sl.Execution(metrics_interval="50ms")
    job = sl.Job("cost", parallelism=2, checkpoints=checkpoints, execution=execution, restart=sl.NoRestart())
    endless_s = 2 * pairs * seconds + 10 * WARM_UP_S
    job.source(Prebuilt(endless_s, 16_384), uid="rows").map_batches(_few_keys, uid="keys").key_by("key").aggregate(
        uid="sums", n=sl.count(), total=sl.sum("c1")
    ).sink(Discard(), uid="out")
    handle = job.start(spark)
    rates: dict[bool, list[float]] = {True: [], False: []}
    taken = 0
    try:
        handle.checkpoint()
        time.sleep(WARM_UP_S)
        for pair in range(pairs):
            for is_on in (True, False) if pair % 2 else (False, True):
                start_s, start_rows = time.monotonic(), _rows(handle)
                for second in range(seconds):
                    if is_on:
                        handle.checkpoint()
                        taken += 1
                    time.sleep(max(start_s + second + 1 - time.monotonic(), 0))
                rates[is_on].append((_rows(handle) - start_rows) / (time.monotonic() - start_s))
            change = 1 - rates[True][-1] / rates[False][-1]
            print(f"pair {pair + 1}: {change:+.1%}", file=sys.stderr, flush=True)
    finally:
        handle.cancel()
        shutil.rmtree(directory, ignore_errors=True)
    costs = [1 - on / off for on, off in zip(rates[True], rates[False], strict=True)]
    with_them, without = statistics.mean(rates[True]), statistics.mean(rates[False])
    return {
        "rows_per_s_without": without,
        "rows_per_s_with": with_them,
        "cost": 1 - with_them / without,
        "median_of_pairs": statistics.median(costs),
        "pairs": costs,
        "standard_error": statistics.stdev(costs) / len(costs) ** 0.5 if len(costs) > 1 else 0.0,
        "checkpoints": taken,
    }


def _rows(handle: sl.JobHandle) -> int:
    return sum(task.rows_in for name, task in handle.metrics().items() if name.startswith("sums/"))


def _few_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    keys = np.remainder(batch.column("c0").to_numpy(), KEYS)
    return pa.record_batch([pa.array(keys), batch.column("c1")], names=["key", "c1"])


if __name__ == "__main__":
    sys.exit(main())
