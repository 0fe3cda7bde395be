"""What a checkpoint every second costs: `python -m benchmarks.checkpoint_cost [--json]`.

The same job, a source as fast as it can be, a hash exchange, sums of 100,000 keys and a sink, runs in turn without
checkpoints and with one every second, in one run on Spark `local[2]`; the order changes from pair to pair.
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
from benchmarks.parts import Discard, Prebuilt, conditions, rates, spark_session, temporary

import snapline as sl

KEYS = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint_cost", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs (6)")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each run (8)")
    parser.add_argument("--unaligned", action="store_true", help="unaligned checkpoints")
    options = parser.parse_args()
    spark = spark_session("local[2]")
    without: list[float] = []
    with_them: list[float] = []
    completed: list[int] = []
    try:
        measure(spark, 3.0, None)
        for pair in range(options.pairs):
            for is_on in (True, False) if pair % 2 else (False, True):
                settings = {"interval": "1s", "unaligned": options.unaligned} if is_on else None
                rows_per_s, count = measure(spark, options.seconds, settings)
                (with_them if is_on else without).append(rows_per_s)
                if is_on:
                    completed.append(count)
            change = 1 - with_them[-1] / without[-1]
            print(
                f"pair {pair + 1}: {without[-1]:,.0f} rows/s without, {with_them[-1]:,.0f} with: {change:+.1%}",
                file=sys.stderr,
                flush=True,
            )
    finally:
        spark.stop()
    costs = [1 - on / off for on, off in zip(with_them, without, strict=True)]
    result = {
        "rows_per_s_without": statistics.median(without),
        "rows_per_s_with": statistics.median(with_them),
        "cost_of_medians": 1 - statistics.median(with_them) / statistics.median(without),
        "median_cost_of_pairs": statistics.median(costs),
        "costs_of_pairs": costs,
        "checkpoints_per_run": statistics.median(completed),
        "conditions": {**conditions(), "keys": KEYS, "seconds": options.seconds},
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"a checkpoint every second costs {result['median_cost_of_pairs']:.1%} of the throughput (median of pairs)"
        )
    return 0


def measure(spark: Any, seconds: float, checkpoints: dict[str, Any] | None) -> tuple[float, int]:
    """Rows a second, and how many checkpoints there were."""
    directory = temporary()
    settings = None if checkpoints is None else sl.Checkpoints(storage=directory, **checkpoints)
    job = sl.Job("cost", parallelism=2, checkpoints=settings)
    try:
        job.source(Prebuilt(seconds, 16_384), uid="rows").map_batches(_few_keys, uid="keys").key_by("key").aggregate(
            uid="sums", n=sl.count(), total=sl.sum("c1")
        ).sink(Discard(), uid="out")
        handle = job.start(spark)
        rows_per_s, _ = rates(handle, "sums/", 2)
        return rows_per_s, handle.checkpoints().counts.completed
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _few_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    keys = np.remainder(batch.column("c0").to_numpy(), KEYS)
    return pa.record_batch([pa.array(keys), batch.column("c1")], names=["key", "c1"])


if __name__ == "__main__":
    sys.exit(main())
