"""How Snapline scales with cores and with keys: `python -m benchmarks.scaling [--json]`.

Count and sum by key on Spark. Cores: parallelism 1 and 2 with 100,000 keys, changes emitted every second and a
checkpoint every second. Keys: parallelism 2 with more and more keys in each state backend, changes emitted with every
batch, at least ten events per key, and a checkpoint every ten seconds, because each writes all keys. RocksDB's cache
holds all entries, or with `--cache-entries` fewer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.parts import conditions, spark_session
from benchmarks.peers.snapline_jobs import measure
from benchmarks.peers.workload import KEYS, PARALLELISM

BACKENDS = ("memory", "rocksdb")
KEY_COUNTS = (10_000, 100_000, 1_000_000, 10_000_000)
EVENTS_PER_KEY = 10
KEYS_INTERVAL = "10s"
CORES_FACTOR = 5
"""Multiplies the events for the comparison of cores, which would otherwise be too short."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", choices=("cores", "keys"), help="measure one of both")
    parser.add_argument("--events", type=int, default=60_000_000, help="of each run (60000000)")
    parser.add_argument("--keys", type=_counts, default=list(KEY_COUNTS), help="such as 10000,100000")
    parser.add_argument("--backends", type=_backends, default=list(BACKENDS), help="such as memory,rocksdb")
    parser.add_argument("--cache-entries", type=int, default=30_000_000, help="of RocksDB in each subtask (30000000)")
    parser.add_argument("--interval", default=KEYS_INTERVAL, help="between checkpoints with more and more keys (10s)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the median counts (1)")
    options = parser.parse_args()
    spark = spark_session(f"local[{PARALLELISM}]")
    result: dict[str, Any] = {"conditions": {**conditions(), "events": options.events, "repeat": options.repeat}}
    try:
        if options.only != "keys":
            result["cores"] = by_parallelism(spark, options.events, options.repeat)
        if options.only != "cores":
            result["keys"] = {
                backend: by_keys(
                    spark,
                    backend,
                    options.keys,
                    options.events,
                    options.repeat,
                    options.cache_entries,
                    options.interval,
                )
                for backend in options.backends
            }
    finally:
        spark.stop()
    if options.json:
        print(json.dumps(result))
    else:
        _tell(result)
    return 0


def by_parallelism(where: Any, events: int, repeat: int) -> dict[str, Any]:
    """Returns events per second with one subtask and with two, and their ratio."""
    events *= CORES_FACTOR
    rates = {
        number: _median([measure("totals", events, KEYS, where, number) for _ in range(repeat)])
        for number in (1, PARALLELISM)
    }
    return {
        "events_per_second": {str(number): rate for number, rate in rates.items()},
        "speedup": rates[PARALLELISM] / rates[1],
    }


def by_keys(
    where: Any, backend: str, keys: Sequence[int], events: int, repeat: int, cache_entries: int, interval: str
) -> dict[str, dict[str, float]]:
    """Returns the cost of an event for each number of keys, and its ratio to the first."""
    found: dict[str, dict[str, float]] = {}
    first_ns: float | None = None
    for count in keys:
        wanted = max(events, count * EVENTS_PER_KEY)
        runs = [
            measure("totals by batch", wanted, count, where, PARALLELISM, backend, interval, cache_entries)
            for _ in range(repeat)
        ]
        rate = _median(runs)
        cost_ns = 1e9 / rate
        first_ns = cost_ns if first_ns is None else first_ns
        found[str(count)] = {
            "events": wanted,
            "events_per_second": rate,
            "ns_per_event": cost_ns,
            "cpu_ns_per_event": float(statistics.median(run["cpu_ns_per_event"] for run in runs)),
            "ratio": cost_ns / first_ns,
        }
    return found


def _median(runs: list[dict[str, Any]]) -> float:
    return float(statistics.median(run["events_per_second"] for run in runs))


def _tell(result: dict[str, Any]) -> None:
    if "cores" in result:
        for parallelism, rate in result["cores"]["events_per_second"].items():
            print(f"parallelism {parallelism:<3}{rate:14,.0f} events/s")
        print(f"{result['cores']['speedup']:.2f} times as fast with {PARALLELISM}")
    for backend, counts in result.get("keys", {}).items():
        for count, figures in counts.items():
            print(
                f"{backend:<8}{int(count):12,} keys{figures['events_per_second']:14,.0f} events/s"
                f"{figures['ns_per_event']:9.0f} ns each, {figures['ratio']:.2f} times the first"
            )


def _counts(text: str) -> list[int]:
    counts = [int(item) for item in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give numbers of keys above 0")
    return counts


def _backends(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no backend {', '.join(unknown)}; choose of {', '.join(BACKENDS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
