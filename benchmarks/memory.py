"""Whether the memory of slots stays bounded: `python -m benchmarks.memory [--json]`.

A source many times as fast as the sink, two exchanges, keyed state of a fixed number of keys, unaligned checkpoints
every half second, for five minutes on Spark `local[2]`. Prints the memory (RSS) of the operator processes over time,
and how much more the last third took than the second.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from typing import Any

from benchmarks.parts import Discard, conditions, spark_session, temporary

import snapline as sl
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering, Slow


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (5)")
    parser.add_argument("--slow", type=float, default=0.02, help="seconds the sink takes for 1000 rows (0.02)")
    options = parser.parse_args()
    directory = temporary()
    spark = spark_session("local[2]")
    samples: list[tuple[float, int]] = []
    try:
        checkpoints = sl.Checkpoints(interval="500ms", storage=directory, unaligned=True, history=10_000)
        job = sl.Job("memory", parallelism=2, checkpoints=checkpoints)
        numbered = (
            job.source(sl.sources.Rate(users=1000, batch_rows=1000), uid="rows")
            .rebalance()
            .key_by("user")
            .apply(Numbering(), uid="numbering", schema=NUMBERED)
        )
        numbered.rebalance().apply(Slow(options.slow), uid="slow", schema=NUMBERED).sink(Discard(), uid="out")
        handle = job.start(spark)
        start_s = time.monotonic()
        while (elapsed_s := time.monotonic() - start_s) < options.minutes * 60:
            time.sleep(1.0)
            sizes = handle.memory_bytes()
            if len(sizes) == 2:
                samples.append((elapsed_s, max(sizes.values())))
        seen = handle.checkpoints()
        backpressured = min(
            task.backpressured_ms / max(task.interval_ms, 1)
            for name, task in handle.metrics().items()
            if name.startswith("rows/")
        )
        handle.cancel()
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)
    third = options.minutes * 20
    parts = [max(size for at_s, size in samples if low <= at_s < low + third) for low in (third, 2 * third)]
    result: dict[str, Any] = {
        "largest_bytes": max(size for _, size in samples),
        "second_third_bytes": parts[0],
        "last_third_bytes": parts[1],
        "growth": parts[1] / parts[0] - 1,
        "checkpoints": seen.counts.completed,
        "persisted_bytes_p50": seen.summary.persisted_bytes.p50,
        "source_backpressured": backpressured,
        "samples": [(round(at_s), size) for at_s, size in samples[:: max(len(samples) // 30, 1)]],
        "conditions": {**conditions(), "minutes": options.minutes},
    }
    if options.json:
        print(json.dumps(result))
        return 0
    for at_s, size in result["samples"]:
        print(f"{at_s:5d} s {size / 1e6:8.0f} MB")
    print(
        f"the last third took {result['growth']:+.1%} more than the second; {seen.counts.completed} checkpoints "
        f"of {result['persisted_bytes_p50'] / 1e6:.1f} MB in flight; the source waited {backpressured:.0%} of the time"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
