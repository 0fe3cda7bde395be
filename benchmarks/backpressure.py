"""How long checkpoints take under back-pressure: `python -m benchmarks.backpressure [--json]`.

Source, rebalance, map, rebalance, slow sink at parallelism 4 on Spark `local[4]`, with the same load in each mode:
aligned, unaligned, and aligned with a timeout. The source is many times as fast as the sink, so every channel is
full. If the interpreter that `--flink` names can import PyFlink, the same topology runs there too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.parts import Discard, conditions, spark_session, temporary

import snapline as sl
from snapline.devtools.kit.exactly_once import Slow
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus
from snapline.protocol.statistics.summary import Summary

MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {"unaligned": True},
    "aligned with timeout": {"unaligned": True, "aligned_timeout": "100ms"},
}
PARALLELISM = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backpressure", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of each measurement (40)")
    parser.add_argument("--slow", type=float, default=0.04, help="seconds the sink takes for 1000 rows (0.04)")
    parser.add_argument("--flink", help="a Python with apache-flink, to run the same topology there")
    options = parser.parse_args()
    spark = spark_session("local[4]")
    try:
        results = {mode: measure(spark, mode, options.seconds, options.slow) for mode in MODES}
    finally:
        spark.stop()
    result: dict[str, Any] = {
        "snapline": results,
        "aligned_over_unaligned_p50": results["aligned"]["p50_ms"] / max(results["unaligned"]["p50_ms"], 1),
        "aligned_over_unaligned_p99": results["aligned"]["p99_ms"] / max(results["unaligned"]["p99_ms"], 1),
        "conditions": {**conditions(), "parallelism": PARALLELISM, "seconds": options.seconds, "slow": options.slow},
    }
    if options.flink:
        script = Path(__file__).with_name("backpressure_flink.py")
        command = [options.flink, str(script), str(options.seconds), str(options.slow), str(PARALLELISM)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        result["flink"] = json.loads(answer.stdout.strip().splitlines()[-1])
    if options.json:
        print(json.dumps(result))
        return 0
    for peer in ("snapline", "flink"):
        for mode, figures in result.get(peer, {}).items():
            print(
                f"{peer:<9}{mode:<22} p50 {figures['p50_ms']:7.0f} ms   p99 {figures['p99_ms']:7.0f} ms   "
                f"{figures['completed']:3d} checkpoints, {figures['failed']} failed   "
                f"{figures['persisted_bytes_avg'] / 1e6:6.1f} MB in flight each"
            )
    print(f"aligned is {result['aligned_over_unaligned_p50']:.1f} times as long as unaligned at the median")
    return 0


def measure(spark: Any, mode: str, seconds: float, slow: float) -> dict[str, Any]:
    """Returns the checkpoint durations of one mode, without the first: it completes before the channels are full."""
    directory = temporary()
    checkpoints = sl.Checkpoints(interval="500ms", storage=directory, history=1000, **MODES[mode])
    job = sl.Job(f"backpressure, {mode}", parallelism=PARALLELISM, checkpoints=checkpoints)
    rows = sl.sources.Rate(users=1000, batch_rows=1000)
    mapped = job.source(rows, uid="rows").rebalance().map_batches(_same, uid="map")
    mapped.rebalance().apply(Slow(slow), uid="slow", schema=rows.schema).sink(Discard(), uid="out")
    handle = job.start(spark)
    try:
        time.sleep(seconds)
        seen, ended_ms = handle.checkpoints(), time.time_ns() // 1_000_000
        backpressured = [task for name, task in handle.metrics().items() if name.startswith("rows/")]
    finally:
        handle.cancel()
        shutil.rmtree(directory, ignore_errors=True)
    done = [record for record in seen.history if record.completion is not None and record.id > 1]
    durations_ms = [record.end_to_end_duration_ms for record in done]
    # A checkpoint that was still running when time was up, and had taken longer than the others, must count.
    ages_ms = [ended_ms - record.trigger_ms for record in seen.history if record.status is CheckpointStatus.IN_PROGRESS]
    durations_ms += [age_ms for age_ms in ages_ms if age_ms > max(durations_ms, default=0)]
    durations = Summary.of(durations_ms)
    persisted = [record.totals.persisted_bytes for record in done]
    return {
        "completed": seen.counts.completed,
        "failed": seen.counts.failed,
        "p50_ms": durations.p50,
        "p99_ms": durations.p99,
        "max_ms": durations.max,
        "persisted_bytes_avg": sum(persisted) / max(len(persisted), 1),
        "backpressured": min(task.backpressured_ms / max(task.interval_ms, 1) for task in backpressured),
    }


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


if __name__ == "__main__":
    sys.exit(main())
