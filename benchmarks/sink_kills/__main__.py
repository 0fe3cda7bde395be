"""`python -m benchmarks.sink_kills --json`: rounds of kills for every exactly-once sink."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.sink_kills.kill_round import TIMEOUT_S, RoundError, run_round
from benchmarks.sink_kills.kill_targets import TARGETS

VICTIMS = ("operator", "driver")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sink_kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds for each sink and victim; each has every point")
    parser.add_argument("--targets", nargs="*", default=list(TARGETS), choices=list(TARGETS), help="which sinks")
    parser.add_argument("--victims", nargs="*", default=list(VICTIMS), choices=VICTIMS)
    parser.add_argument(
        "--servers", choices=("calm", "disturbed"), help="only rounds that leave the server alone, or do not"
    )
    parser.add_argument("--jobs", type=int, default=1, help="rounds at a time, but for those that disturb a server (1)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help=f"seconds for a round ({TIMEOUT_S:g})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    failed = 0
    for name in options.targets:
        with tempfile.TemporaryDirectory(prefix="sink-kills-") as folder, TARGETS[name].serving(Path(folder)):
            for victim in options.victims:
                for disturbance in ("", *TARGETS[name].disturbances):
                    if options.servers == ("calm" if disturbance else "disturbed"):
                        continue
                    result = _rounds(name, victim, disturbance, options, Path(folder))
                    results.append(result)
                    failed += len(result["failures"])
                    _say(result)
    if options.json:
        print(json.dumps({"rounds": options.rounds, "failed": failed, "results": results}, indent=2))
    return 1 if failed else 0


def _rounds(name: str, victim: str, disturbance: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    outcomes, failures, started_s = list[dict[str, Any]](), list[str](), time.monotonic()

    def run(number: int) -> None:
        label = f"{name}-{victim}-{disturbance.replace(' ', '-')}-{number}"
        root = folder / f"round-{label}"
        root.mkdir()
        try:
            place = TARGETS[name].place(label, folder)
            outcome = run_round(
                name, victim, options.seed + number, place, root, disturb=disturbance, timeout_s=options.timeout
            )
            outcomes.append(asdict(outcome))
        except RoundError as error:
            failures.append(f"round {number}: {error}")
            print(f"{label}: {error}", file=sys.stderr)

    # What is done to a server concerns all rounds on it.
    with ThreadPoolExecutor(1 if disturbance else options.jobs) as pool:
        list(pool.map(run, range(options.rounds)))
    return {
        "sink": name,
        "victim": victim,
        "disturbance": disturbance,
        "points": outcomes[0]["points"] if outcomes else [],
        "rounds": len(outcomes) + len(failures),
        "exact": len(outcomes),
        "failures": failures,
        "rows": sum(outcome["rows"] for outcome in outcomes),
        "reads": sum(outcome["reads"] for outcome in outcomes),
        "zombies": sorted({outcome["zombie"][:120] for outcome in outcomes}),
        "disturbances": sum(len(outcome["disturbances"]) for outcome in outcomes),
        "seconds": round(time.monotonic() - started_s, 1),
    }


def _say(result: dict[str, Any]) -> None:
    extra = f", {result['disturbance']}" if result["disturbance"] else ""
    print(
        f"{result['sink']}, {result['victim']} killed{extra}: {result['exact']} of {result['rounds']} rounds exact, "
        f"{result['rows']} rows, {result['reads']} looks of a reader, {result['seconds']} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
