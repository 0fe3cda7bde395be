"""Four functions of rows beside other systems: `python -m benchmarks.functions [--json]`.

A running count, sessions with timers, a fraud detector with two maps, a value and timers, and the ten largest values in
a list: each as one would write it in Snapline, PyFlink (process and thread mode), bytewax and Spark's
`transformWithState` (rows and pandas). All get the same rows, with a checkpoint every second; before the measurement,
the results of all for few rows are compared with those of plain dicts. Snapline's operator also runs alone on one
core, without Spark, which shows its rows per second of CPU time.

The command installs nothing: it names missing peers and the command that installs them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.functions.payments import CARDS, FUNCTIONS, expected
from benchmarks.peers.__main__ import _pythons
from benchmarks.peers.running import PeerError, interpreters, missing, run

CHECK_EVENTS = 9_000
CHECK_CARDS = 300
DEFAULT_EVENTS = 1_000_000


@dataclass(frozen=True, slots=True)
class System:
    """A system and how to run it. `share` multiplies the number of events, so that slow systems finish too."""

    key: str
    name: str
    peer: str
    module: str
    modules: tuple[str, ...]
    arguments: tuple[str, ...]
    share: float
    functions: tuple[str, ...] = FUNCTIONS


_FLINK = ("flink", "benchmarks.functions.flink_functions", ("pyflink",))
_BYTEWAX = ("bytewax", "benchmarks.functions.bytewax_functions", ("bytewax",))
_SPARK = ("spark", "benchmarks.functions.spark_functions", ("pyspark", "pandas", "google.protobuf", "grpc"))
OWN = "Snapline"
SYSTEMS = (
    System("snapline", OWN, "snapline", "benchmarks.functions.snapline_functions", ("snapline", "pyspark"), (), 1.0),
    System("thread", "PyFlink, thread mode", *_FLINK, ("--mode", "thread"), 0.1),
    System("process", "PyFlink, process mode", *_FLINK, ("--mode", "process"), 0.05),
    System(
        "bytewax",
        "bytewax",
        "bytewax",
        "benchmarks.functions.bytewax_functions",
        ("bytewax",),
        (),
        0.5,
        ("count", "topk"),
    ),
    System("rows", "transformWithState", *_SPARK, ("--form", "rows"), 0.03),
    System("pandas", "transformWithStateInPandas", *_SPARK, ("--form", "pandas"), 0.03),
)
KEYS = tuple(system.key for system in SYSTEMS)
ONE_CORE = {"rows_per_cpu_second": 40_000}
"""The target for the fraud detector alone on one core."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.functions", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", type=_names, default=list(FUNCTIONS), help="such as count,fraud (all four)")
    parser.add_argument("--events", type=int, default=DEFAULT_EVENTS, help="slow systems get fewer (1000000)")
    parser.add_argument("--systems", type=_systems, default=list(KEYS), help=f"of {','.join(KEYS)} (all)")
    parser.add_argument("--one-core", action="store_true", help="only Snapline's operator alone, without Spark")
    parser.add_argument(
        "--peer-python", type=_pythons, default={}, help="interpreters of peers: flink=PATH,bytewax=PATH"
    )
    options = parser.parse_args()
    pythons = interpreters(options.peer_python)
    said = sys.stderr if options.json else sys.stdout
    result: dict[str, Any] = {"one core": {}, "functions": {}, "missing": [], "errors": []}
    systems = [] if options.one_core else _there(options.systems, pythons, result["missing"])
    for function in options.only:
        print(function, file=said, flush=True)
        alone = _one_core(function, options.events, result["errors"])
        result["one core"][function] = alone
        for backend, figures in alone.items():
            rate, row_us = figures["rows_per_cpu_second"], figures["microseconds_per_row"]
            print(
                f"  one core, {backend:<24}{rate:12,.0f} rows per CPU second   {row_us:.1f} us a row, "
                f"{figures['microseconds_of_timers_per_row']:.1f} us of timers",
                file=said,
                flush=True,
            )
        result["functions"][function] = _compared(function, systems, pythons, options.events, result["errors"], said)
    result["conditions"] = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load average before the end": os.getloadavg()[0],
        "events": options.events,
        "cards": CARDS,
        "checkpoints": "every second; Spark: with every micro-batch, of about one second",
        "targets": {"fraud on one core": ONE_CORE, "ratio to PyFlink, thread mode": 10, "ratio to bytewax": 1},
    }
    for line in [*result["missing"], *result["errors"]]:
        print(line, file=said)
    if options.json:
        print(json.dumps(result))
    return 1 if result["errors"] else 0


def _there(keys: Sequence[str], pythons: dict[str, str], said: list[str]) -> list[System]:
    """The systems that can run; says once why the others cannot."""
    found = []
    for system in SYSTEMS:
        if system.key not in keys:
            continue
        reason = missing(system.peer, system.modules, pythons[system.peer])
        if reason is None:
            found.append(system)
        elif reason not in said:
            said.append(reason)
    return found


def _one_core(function: str, events: int, errors: list[str]) -> dict[str, Any]:
    module, found = "benchmarks.functions.snapline_functions", {}
    wanted = expected(function, events, CARDS)
    for backend in ("memory", "rocksdb"):
        arguments = ["--function", function, "--events", str(events), "--backend", backend, "--one-core"]
        try:
            found[backend] = run(sys.executable, module, arguments)
        except PeerError as error:
            errors.append(f"{function} on one core, {backend}: {error}")
            continue
        if found[backend]["result"] != wanted:
            errors.append(f"{function} on one core, {backend}: {found[backend]['result']}, expected {wanted}")
    return found


def _compared(
    function: str, systems: Sequence[System], pythons: dict[str, str], events: int, errors: list[str], said: Any
) -> dict[str, Any]:
    """The figures of all systems, and how many times as fast as each of them Snapline is."""
    wanted = expected(function, CHECK_EVENTS, CHECK_CARDS)
    found: dict[str, Any] = {}
    for system in systems:
        if function not in system.functions:
            continue
        arguments = [*system.arguments, "--function", function]
        python = pythons[system.peer]
        try:
            few = ["--events", str(CHECK_EVENTS), "--cards", str(CHECK_CARDS), "--check"]
            result = run(python, system.module, [*arguments, *few])["result"]
            if result != wanted:
                errors.append(f"{function} in {system.name}: {result}, expected {wanted}")
                continue
            figures = run(python, system.module, [*arguments, "--events", str(max(int(events * system.share), 3_000))])
        except PeerError as error:
            errors.append(f"{function} in {system.name}: {error}")
            continue
        found[system.name] = figures
        if OWN in found:
            figures["ratio"] = found[OWN]["events_per_second"] / figures["events_per_second"]
        rate, ratio = figures["events_per_second"], figures.get("ratio", 0.0)
        print(
            f"  {system.name:<34}{rate:12,.0f} events/s   ratio {ratio:8.1f}   "
            f"{figures['events']:,} events in {figures['seconds']:.1f} s, {figures['version']}",
            file=said,
            flush=True,
        )
    return found


def _names(text: str) -> list[str]:
    return _chosen(text, FUNCTIONS)


def _systems(text: str) -> list[str]:
    return _chosen(text, KEYS)


def _chosen(text: str, known: Sequence[str]) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; choose of {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
