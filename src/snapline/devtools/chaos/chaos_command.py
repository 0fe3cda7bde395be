"""Runs jobs under real failures and proves that they counted every row: `python -m snapline.devtools.chaos`.

Failures: `user` code raises; an `operator` process, a Python `worker` of Spark, an `executor` or the `driver` is killed
(kill -9); an executor `hang`s (SIGSTOP of all its processes) and wakes up when the job has continued without it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from snapline.devtools.chaos.chaos_driver import MODES
from snapline.devtools.chaos.chaos_run import FAILURES, POSSIBLE, Chaos, ChaosError, Plan, Result
from snapline.devtools.servers.standalone_cluster import StandaloneCluster
from snapline.errors import ConfigurationError

EXACT_MODES = ("aligned", "unaligned", "timeout")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 if all proofs hold, 1 if one does not, 2 if a run could not be carried out."""
    options = _options(arguments)
    began_s = time.monotonic()

    def say(text: str) -> None:
        if not options.quiet:
            print(f"{time.monotonic() - began_s:7.2f} s  {text}", file=sys.stderr if options.json else sys.stdout)

    try:
        plans = _matrix(options) if options.all else [_plan(options)]
        results = _run(plans, say, options.keep)
    except (ConfigurationError, ChaosError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([result.as_json() for result in results]))
    else:
        print("\n".join(table(results)))
    return 0 if all(result.is_good for result in results) else 1


def table(results: Sequence[Result]) -> list[str]:
    """One line per run: how long it took after each failure until all tasks ran again, and what is proved."""
    head = "".join(f"{name:>10}" for name in FAILURES)
    lines = [f"{'deployment':<15}{'mode':<15}{'back-pressure':<15}{head}{'rows':>9}{'attempts':>10}{'s':>7}  proof"]
    for result in results:
        plan = result.plan
        took = {name: "" if name not in plan.failures else "missed" for name in FAILURES}
        took.update({it.failure: f"{it.recovered_s:.1f} s" for it in result.suffered})
        cells = "".join(f"{took[name]:>10}" for name in FAILURES)
        proof = "; ".join(result.problems) or (
            "nothing lost" if plan.mode == "at-least-once" else "every row exactly once"
        )
        lines.append(
            f"{plan.deployment:<15}{plan.mode:<15}{'on' if plan.back_pressure else 'off':<15}{cells}"
            f"{result.rows:>9}{result.attempts:>10}{result.seconds:>7}  {proof}"
        )
    return lines


def _run(plans: Sequence[Plan], say: Callable[[str], None], keep: str | None) -> list[Result]:
    root = Path(tempfile.mkdtemp(prefix="snapline-chaos-")) if keep is None else Path(keep).absolute()
    results: list[Result] = []
    try:
        with contextlib.ExitStack() as stack:
            chaos = Chaos(say)
            if any(plan.deployment == "standalone" for plan in plans):
                say("starting a standalone cluster")
                chaos.cluster = stack.enter_context(StandaloneCluster(root / "cluster"))
            for number, plan in enumerate(plans):
                directory = root / str(number)
                directory.mkdir(parents=True)
                pressure = "with" if plan.back_pressure else "without"
                say(f"{plan.deployment}, {plan.mode}, {pressure} back-pressure: {', '.join(plan.failures)}")
                results.append(chaos.run(plan, directory))
                say(f"proof: {'; '.join(results[-1].problems) or 'holds'}")
    finally:
        if keep is None and len(results) == len(plans) and all(result.is_good for result in results):
            shutil.rmtree(root, ignore_errors=True)
        else:
            say(f"all files are in {root}")
    return results


def _matrix(options: argparse.Namespace) -> list[Plan]:
    """Every failure in every mode, with and without back-pressure; some share a job."""
    together = [("local", ("user", "operator", "worker", "driver")), ("standalone", ("executor", "hang"))]
    return [
        Plan(deployment, mode, pressure, failures, options.rows, options.seed)
        for deployment, failures in together
        for mode in EXACT_MODES
        for pressure in (False, True)
    ]


def _plan(options: argparse.Namespace) -> Plan:
    failures = tuple(POSSIBLE[options.deployment])
    if options.failures is not None:
        failures = tuple(name.strip() for name in options.failures.split(",") if name.strip())
    return Plan(options.deployment, options.mode, options.back_pressure, failures, options.rows, options.seed)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m snapline.devtools.chaos", description=__doc__)
    parser.add_argument("--deployment", choices=list(POSSIBLE), default="local", help="where the job runs (local)")
    parser.add_argument("--mode", choices=list(MODES), default="aligned", help="how checkpoints are taken (aligned)")
    parser.add_argument(
        "--back-pressure",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="slow the sink down",
    )
    parser.add_argument("--failures", metavar="NAME,...", help=f"in this order, of {', '.join(FAILURES)} (all)")
    parser.add_argument("--rows", type=int, help="how many rows (enough for the failures)")
    parser.add_argument("--seed", type=int, default=0, help="decides when and what to hurt (0)")
    parser.add_argument("--all", action="store_true", help="every failure in three modes, with and without pressure")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--quiet", action="store_true", help="only the results")
    parser.add_argument("--keep", metavar="DIRECTORY", help="write all files here and keep them")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
