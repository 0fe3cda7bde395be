"""Connectors at full speed: `python -m benchmarks.connectors [--json]`.

(kafka) Kafka to Kafka beside Flink SQL and Structured Streaming, each with its own connector, on the same broker:
JSON messages are decoded, filtered, changed, encoded and written. (json) Messages are decoded and dropped, in the same
systems. (sinks) Rows per second of each sink at least once and exactly once.

Everything runs alone, one after another, with parallelism 2 and a checkpoint every second. Before a figure
of (kafka) or (sinks) counts, the output is read: rows must be complete. What (json) drops cannot be looked at.

The command fetches the connectors of the peers from Maven Central. It installs no peers: it names those that are
missing and the command that installs them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.connectors.kafka_systems import WARM_UP_ROWS, Comparison, say
from benchmarks.connectors.messages import INTERVAL_S, PARALLELISM, PARTITIONS
from benchmarks.connectors.sink_rates import CASES, measure
from benchmarks.parts import conditions, spark_session, temporary
from benchmarks.peers.entries import INSTALL
from benchmarks.peers.running import interpreters

from snapline.devtools.servers.kafka_server import KafkaServer

PARTS = ("kafka", "json", "sinks")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connectors", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object, and the table to standard error")
    parser.add_argument("--only", type=_listed(PARTS), default=list(PARTS), help="such as kafka,json (all)")
    parser.add_argument("--rows", type=int, default=2_000_000, help="messages, and rows for most sinks (2000000)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the median counts (3)")
    parser.add_argument("--sinks", type=_listed(CASES), default=list(CASES), help=f"of {', '.join(CASES)} (all)")
    parser.add_argument(
        "--systems", type=_listed(("snapline", "flink", "spark")), default=["snapline", "flink", "spark"]
    )
    parser.add_argument("--warm-up", type=int, default=WARM_UP_ROWS, help="messages that warm up the peers' JVMs")
    parser.add_argument("--peer-python", type=_pythons, default={}, help="interpreters of peers: flink=PATH,spark=PATH")
    options = parser.parse_args(arguments)
    result: dict[str, Any] = {"absent": [], "errors": []}
    load = [os.getloadavg()[0]]
    if {"kafka", "json"} & set(options.only):
        result |= _compare(options)
    if "sinks" in options.only:
        result["sinks"] = _sinks(options)
    load.append(os.getloadavg()[0])
    result["conditions"] = {
        **conditions(),
        "load average before and after": load,
        "messages": options.rows,
        "rounds": options.rounds,
        "partitions": PARTITIONS,
        "parallelism": PARALLELISM,
        "seconds between checkpoints": INTERVAL_S,
        "versions": _versions(),
    }
    print(json.dumps(result)) if options.json else _table(result)
    return 1 if result["errors"] else 0


def _compare(options: argparse.Namespace) -> dict[str, Any]:
    directory = temporary()
    result: dict[str, Any] = {}
    try:
        with KafkaServer(Path(directory)) as kafka:
            comparison = Comparison(
                kafka, options.rows, interpreters(options.peer_python), say, options.warm_up, options.systems
            )
            comparison.fill()
            for part in ("kafka", "json"):
                if part in options.only:
                    say(f"({part}) {options.rows:,} messages of {comparison.size_bytes / options.rows:.0f} bytes")
                    result[part] = comparison.measure(part, options.rounds)
                    for ratio in result[part]["ratios"]:
                        say(f"  {ratio['guarantee']}: {ratio['ratio']:.2f} times as fast as {ratio['peer']}")
            result |= {"absent": comparison.absent, "errors": comparison.errors, "peers": comparison.versions()}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return result


def _sinks(options: argparse.Namespace) -> dict[str, Any]:
    say("(sinks)")
    with contextlib.ExitStack() as stack:
        spark = spark_session(f"local[{PARALLELISM}]")
        stack.callback(spark.stop)
        return measure(lambda: spark, options.sinks, options.rows, options.rounds, say)


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("snapline", "confluent-kafka", "psycopg", "deltalake", "msgspec"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _table(result: dict[str, Any]) -> None:
    """Prints the best way of each system, and the sinks."""
    for part in ("kafka", "json"):
        for item in sorted(result.get(part, {}).get("ways", ()), key=lambda item: -item["rows_per_second"]):
            print(
                f"{part:<6}{item['guarantee']:<15}{item['system']:<22}{item['way']:<37}{item['rows_per_second']:12,.0f}"
            )
        for ratio in result.get(part, {}).get("ratios", ()):
            print(f"{part:<6}{ratio['guarantee']:<15}{ratio['ratio']:.2f} times as fast as {ratio['peer']}")
    for name, item in result.get("sinks", {}).items():
        least, exact = (item[guarantee]["rows_per_second"] for guarantee in ("at_least_once", "exactly_once"))
        print(f"sink  {name:<24}at least once {least:12,.0f}   exactly once {exact:12,.0f}   keeps {item['ratio']:.0%}")
    if result.get("sinks"):
        print(f"median of what sinks keep: {statistics.median(item['ratio'] for item in result['sinks'].values()):.0%}")
    for line in result["absent"] + result["errors"]:
        print(line)


def _listed(known: Any) -> Any:
    def parse(given: str) -> list[str]:
        found = given.split(",")
        unknown = [name for name in found if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; choose of {', '.join(known)}")
        return found

    return parse


def _pythons(given: str) -> dict[str, str]:
    found = {}
    for item in given.split(","):
        peer, equals, path = item.partition("=")
        if not equals or peer not in INSTALL or not path:
            raise argparse.ArgumentTypeError(f"{item!r}: write PEER=PATH, PEER being one of {', '.join(INSTALL)}")
        found[peer] = path
    return found


if __name__ == "__main__":
    sys.exit(main())
