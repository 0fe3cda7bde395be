"""Snapline beside Flink, Spark Structured Streaming and bytewax: `python -m benchmarks.peers [--json]`.

Every system does the same work on the same rows, one after another, with a checkpoint every second: (a) count and sum
by key, (b) a Python function with state, (c) queries of Nexmark, (sql) all queries of Nexmark from SQL texts. Where a
system can run in several ways, the best one counts, and all are reported. Before the measurement, a run on few rows
compares the results of all systems.

The command installs nothing: it names missing peers and the command that installs them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.entries import (
    ALL_QUERIES,
    CHECK_EVENTS,
    CHECK_KEYS,
    DEFAULT_EVENTS,
    INSTALL,
    PARTS,
    SYSTEMS,
    VARIANTS,
    System,
    Variant,
)
from benchmarks.peers.running import PeerError, interpreters, missing, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", type=_parts, default=list(PARTS), help="such as a,b (a,b,c,sql)")
    parser.add_argument("--queries", type=_queries, default=None, help="of the part sql, such as q0,q5 (all)")
    parser.add_argument(
        "--events", type=int, default=DEFAULT_EVENTS, help="of most; fast ones get more, slow ones less (10000000)"
    )
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the median counts (1)")
    parser.add_argument(
        "--peer-python", type=_pythons, default={}, help="interpreters of peers: flink=PATH,bytewax=PATH"
    )
    parser.add_argument("--skip-check", action="store_true", help="do not compare results")
    options = parser.parse_args()
    pythons = interpreters(options.peer_python)
    tell = _Teller(sys.stderr if options.json else sys.stdout)
    result: dict[str, Any] = {"missing": [], "parts": {}}
    for part in options.only:
        there = _there(part, pythons, result["missing"])
        if there:
            tell.part(part)
            made: dict[str, Any] = {}
            if not options.skip_check:
                made["results"] = _check(part, there, pythons, options.queries, tell)
                tell.results(made["results"])
            made["refused"] = {}
            made["systems"] = _measure(part, there, pythons, options, made["refused"], tell)
            made["ratios"] = _ratios(part, made["systems"])
            tell.ratios(part, made["ratios"])
            result["parts"][part] = made
    result["errors"] = tell.errors
    result["conditions"] = _conditions(options.events, options.repeat)
    if options.json:
        print(json.dumps(result))
    else:
        for line in result["missing"]:
            print(line)
    differs = any(not made.get("results", {"equal": True})["equal"] for made in result["parts"].values())
    return 1 if differs or result["errors"] else 0


def _there(part: str, pythons: Mapping[str, str], said: list[str]) -> list[System]:
    """Returns the systems that can run; reports once why the others can't."""
    found = []
    for system in SYSTEMS[part]:
        reason = missing(system.peer, system.modules, pythons[system.peer])
        if reason is None:
            found.append(system)
        elif reason not in said:
            said.append(reason)
    return found


def _check(
    part: str, systems: Sequence[System], pythons: Mapping[str, str], queries: Sequence[str] | None, tell: _Teller
) -> dict[str, Any]:
    """Returns the checksums of all systems for the same few rows, and whether they are equal."""
    checksums: dict[str, Any] = {}
    keyed = ("--keys", str(CHECK_KEYS)) if part in ("a", "b") else ()
    for system in systems:
        if system.check is None:
            continue
        chosen = _chosen(part, system, queries)
        arguments = [*system.check, "--events", str(CHECK_EVENTS[part]), *keyed, *chosen, "--check"]
        try:
            made = run(pythons[system.peer], system.module, arguments)
        except PeerError as error:
            tell.error(f"{system.name}: {error}")
            continue
        if part in ALL_QUERIES:
            checksums[system.name] = {query: figures["result"] for query, figures in made.items()}
        else:
            checksums[system.name] = _by_workload(made, "result")
    # a system that could not run is an error of its own
    return {"events": CHECK_EVENTS[part], "equal": _are_equal(part, checksums), "checksums": checksums}


def _are_equal(part: str, checksums: Mapping[str, Any]) -> bool:
    """Whether all systems agree, query by query where not all have the same queries."""
    if part not in ALL_QUERIES:
        return len({json.dumps(item, sort_keys=True) for item in checksums.values()}) <= 1
    by_query: dict[str, set[str]] = {}
    for item in checksums.values():
        for query, checksum in item.items():
            by_query.setdefault(query, set()).add(json.dumps(checksum, sort_keys=True))
    return all(len(distinct) == 1 for distinct in by_query.values())


def _chosen(part: str, system: System, queries: Sequence[str] | None) -> list[str]:
    """The argument for the queries of a system, in parts that have it."""
    if part not in ALL_QUERIES:
        return []
    return ["--queries", ",".join(query for query in queries or ALL_QUERIES[part] if query not in system.leaves_out)]


def _by_workload(made: Mapping[str, Any], what: str) -> Any:
    """Returns one figure of a script's output: of its only workload, or of each query."""
    if what in made:
        return made[what]
    found = {name: figures[what] for name, figures in made.items()}
    return next(iter(found.values())) if len(found) == 1 else found


def _measure(
    part: str,
    systems: Sequence[System],
    pythons: Mapping[str, str],
    options: argparse.Namespace,
    refused: dict[str, dict[str, str]],
    tell: _Teller,
) -> dict[str, Any]:
    """Returns all variants per system and workload, and which is the best; notes what a system refuses to run."""
    made: dict[str, Any] = {system.name: {} for system in systems}
    by_name = {system.name: system for system in systems}
    for variant in VARIANTS[part]:
        if variant.system not in by_name:
            continue
        system = by_name[variant.system]
        try:
            chosen = _chosen(part, system, options.queries)
            figures = _repeated(system, variant, pythons[system.peer], options.events, options.repeat, chosen)
        except PeerError as error:
            tell.error(f"{variant.system}, {variant.name}: {error}")
            continue
        for workload, figure in figures.items():
            if "refused" in figure:
                refused.setdefault(variant.system, {})[workload] = figure["refused"]
                continue
            made[variant.system].setdefault(workload, {"variants": {}})["variants"][variant.name] = figure
            tell.figure(variant, workload, figure)
    for workloads in made.values():
        for item in workloads.values():
            best = max(item["variants"], key=lambda name: item["variants"][name]["events_per_second"])
            item["best"] = best
            item["events_per_second"] = item["variants"][best]["events_per_second"]
    return made


def _repeated(
    system: System, variant: Variant, python: str, events: int, repeat: int, chosen: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Returns the figures per workload of a variant: those of the run with the median rate, and the rates of all."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(repeat):
        made = run(python, system.module, [*variant.arguments, *chosen, "--events", str(variant.events(events))])
        for workload, figures in ({"": made} if "events_per_second" in made else made).items():
            runs.setdefault(workload if workload.startswith("q") else "", []).append(figures)
    return {workload: _median(figures) for workload, figures in runs.items()}


def _median(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if "refused" in figures[0]:
        return figures[0]
    rates = [item["events_per_second"] for item in figures]
    middle = statistics.median_low(rates)
    return {**figures[rates.index(middle)], "rates": rates}


def _ratios(part: str, systems: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns how many times as fast as each peer the first system of the part is, per workload."""
    own = SYSTEMS[part][0].name
    found: dict[str, dict[str, float]] = {}
    for name, workloads in systems.items():
        for workload, item in workloads.items():
            if name != own and workload in systems.get(own, {}):
                mine = systems[own][workload]["events_per_second"]
                found.setdefault(name, {})[workload] = mine / item["events_per_second"]
    return found


def _conditions(events: int, repeat: int) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load average before the end": os.getloadavg()[0],
        "events": events,
        "repeat": repeat,
        "checkpoints": "every second; Structured Streaming: with every micro-batch, of about one second",
    }


class _Teller:
    """Prints readable lines as figures arrive, and keeps the failures."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.errors: list[str] = []

    def error(self, message: str) -> None:
        self.errors.append(message)
        self._print(f"  FAILED: {message}")

    def _print(self, line: str) -> None:
        print(line, file=self._file, flush=True)

    def part(self, part: str) -> None:
        self._print(f"({part}) {PARTS[part]}")

    def results(self, results: Mapping[str, Any]) -> None:
        if results["equal"]:
            names = ", ".join(results["checksums"])
            self._print(f"  equal results for {results['events']:,} events: {names}")
        else:
            self._print("  THE RESULTS DIFFER:")
            for name, item in results["checksums"].items():
                self._print(f"    {name}: {json.dumps(item)}")

    def figure(self, variant: Variant, workload: str, figure: Mapping[str, Any]) -> None:
        self._print(
            f"  {variant.system:<30}{workload:<5}{variant.name:<20}{figure['events_per_second']:14,.0f} events/s"
            f"   {figure['events']:,} events in {figure['seconds']:.1f} s, {figure['version']}"
        )

    def ratios(self, part: str, ratios: Mapping[str, Mapping[str, float]]) -> None:
        own = SYSTEMS[part][0].name
        for name, workloads in ratios.items():
            for workload, ratio in workloads.items():
                self._print(f"  {own} is {ratio:.2f} times as fast as {name}{' in ' + workload if workload else ''}")


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no part {', '.join(unknown)}; choose of {', '.join(PARTS)}")
    return parts


def _queries(text: str) -> list[str]:
    queries = text.split(",")
    unknown = [query for query in queries if query not in ALL_QUERIES["sql"]]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(ALL_QUERIES['sql'])}")
    return queries


def _pythons(text: str) -> dict[str, str]:
    found = {}
    for item in text.split(","):
        peer, equals, path = item.partition("=")
        if not equals or peer not in INSTALL or not path:
            raise argparse.ArgumentTypeError(f"{item!r}: write PEER=PATH, PEER being one of {', '.join(INSTALL)}")
        found[peer] = path
    return found


if __name__ == "__main__":
    sys.exit(main())
