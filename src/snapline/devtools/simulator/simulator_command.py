"""Command line of the simulator: `python -m snapline.testing.sim --help`."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from typing import TypeAlias

from snapline.devtools.simulator.line_coverage import LineTracer, line_report
from snapline.devtools.simulator.mutant import Mutant
from snapline.devtools.simulator.mutants import MUTANTS, find_mutant
from snapline.devtools.simulator.report import coverage_report
from snapline.devtools.simulator.scenario import Fault, Handler
from snapline.devtools.simulator.simulation import Outcome, simulate

MAX_SEEDS = 10_000_000
MUTANT_SEEDS = 50
CHUNK = 16
EXAMPLES = """examples:
  python -m snapline.testing.sim --seeds 2000            two thousand runs under every fault
  python -m snapline.testing.sim --seed 7 --story        what happened in run 7, line by line
  python -m snapline.testing.sim --handler unaligned     only runs with that barrier handler
  python -m snapline.testing.sim --mutants               each broken piece, and the first seed that catches it
  python -m snapline.testing.sim --coverage              which lines of the shells the seeds execute
  python -m snapline.testing.sim --seed 3 --story --mutant no-fence
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 if nothing was wrong and every mutant was caught."""
    options = _parse(arguments)
    try:
        if options.mutants is not None:
            return _run_mutants(options)
        if options.seed is not None:
            return _run_one(options)
        return _run_many(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m snapline.testing.sim",
        description="Runs the production code on a seeded kernel, under every fault, and checks the results.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=_positive, default=200, metavar="N", help="how many seeds (default 200)")
    parser.add_argument("--start", type=_natural, default=0, metavar="S", help="the first seed (default 0)")
    parser.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, metavar="J", help="processes (default: one per core)"
    )
    parser.add_argument("--handler", choices=[mode.value for mode in Handler], help="only this barrier handler")
    parser.add_argument(
        "--coverage", action="store_true", help="report which lines of the production shells the seeds execute (slower)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--seed", type=_natural, metavar="K", help="run this one seed")
    parser.add_argument("--story", action="store_true", help="with --seed: tell what happens, line by line")
    parser.add_argument("--mutant", type=_mutant, metavar="NAME", help="break one machine on purpose while running")
    parser.add_argument(
        "--mutants", type=_mutant, nargs="*", metavar="NAME", help="run every mutant, or those named, until caught"
    )
    parser.add_argument("--list-mutants", action="store_true", help="list the mutants and exit")
    options = parser.parse_args(arguments)
    if options.list_mutants:
        print("\n".join(f"{mutant.name:<37}{mutant.about}" for mutant in MUTANTS))
        parser.exit(0)
    if options.story and options.seed is None:
        parser.error("--story tells one run: give it a --seed")
    if options.story and options.json:
        parser.error("--story is for people, --json for programs: choose one")
    if options.mutants is not None and (options.seed is not None or options.mutant is not None):
        parser.error("--mutants looks for seeds by itself; use --mutant NAME with --seed")
    options.handler = Handler(options.handler) if options.handler else None
    return options


def _natural(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 0 <= value <= MAX_SEEDS:
        raise argparse.ArgumentTypeError(f"{value} is not between 0 and {MAX_SEEDS}")
    return value


def _positive(text: str) -> int:
    value = _natural(text)
    if value == 0:
        raise argparse.ArgumentTypeError("use at least 1")
    return value


def _mutant(name: str) -> Mutant:
    mutant = find_mutant(name)
    if mutant is None:
        known = ", ".join(mutant.name for mutant in MUTANTS)
        raise argparse.ArgumentTypeError(f"there is no mutant {name!r}; known are {known}")
    return mutant


# One seed, many seeds, mutants.


def _run_one(options: argparse.Namespace) -> int:
    mutant: Mutant | None = options.mutant
    with mutant.applied() if mutant else nullcontext():
        outcome = simulate(options.seed, *_conditions(mutant, options.handler), story=options.story)
    for line in outcome.story:
        print(line)
    if options.json:
        print(json.dumps({"seed": outcome.seed, "error": outcome.error or None, "steps": outcome.steps}))
    else:
        print(f"seed {outcome.seed}: {outcome.error or 'nothing wrong'} ({outcome.steps} steps)")
    return 1 if outcome.error else 0


def _conditions(mutant: Mutant | None, handler: Handler | None) -> tuple[Handler | None, Fault | None]:
    """The handler and the fault to simulate with; an explicit handler wins."""
    return (handler, None) if mutant is None else (handler or mutant.handler, mutant.fault)


Lines: TypeAlias = dict[str, set[int]]


def _simulate_chunk(task: tuple[range, Handler | None, str | None, bool]) -> tuple[list[Outcome], Lines]:
    seeds, handler, mutant_name, traces = task
    mutant = find_mutant(mutant_name) if mutant_name else None
    tracer = LineTracer() if traces else None
    with mutant.applied() if mutant else nullcontext():
        outcomes = [simulate(seed, *_conditions(mutant, handler), tracer=tracer) for seed in seeds]
    return outcomes, tracer.lines if tracer is not None else {}


def _outcomes(options: argparse.Namespace, executed: Lines) -> Iterator[Outcome]:
    """Outcomes in the order of seeds, with progress on a terminal. Adds traced lines to `executed`."""
    end = options.start + options.seeds
    mutant_name = options.mutant.name if options.mutant else None
    tasks = [
        (range(first, min(first + CHUNK, end)), options.handler, mutant_name, options.coverage)
        for first in range(options.start, end, CHUNK)
    ]
    jobs = min(options.jobs, len(tasks))
    done = 0
    with ProcessPoolExecutor(jobs, initializer=gc.freeze) if jobs > 1 else nullcontext() as pool:
        for outcomes, lines in pool.map(_simulate_chunk, tasks) if pool else map(_simulate_chunk, tasks):
            for name, ran in lines.items():
                executed.setdefault(name, set()).update(ran)
            yield from outcomes
            done += len(outcomes)
            if sys.stderr.isatty():
                print(f"\r{done} of {options.seeds} seeds", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)


def _run_many(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    coverage: Counter[str] = Counter()
    failures = []
    steps = 0
    executed: Lines = {}
    for outcome in _outcomes(options, executed):
        coverage += outcome.coverage
        steps += outcome.steps
        if outcome.error:
            failures.append({"seed": outcome.seed, "error": outcome.error})
    seconds = round(time.perf_counter() - started, 2)
    report = coverage_report(coverage)
    shells = line_report(executed) if options.coverage else {}
    if options.json:
        result = {"seeds": options.seeds, "failures": failures, "seconds": seconds, "steps": steps, "coverage": report}
        print(json.dumps({**result, "lines": shells} if shells else result))
    else:
        for name, entry in shells.items():
            left = f"; left: {', '.join(entry['left'])}" if entry["left"] else ""
            print(f"{entry['share']:>7.1%}  of the {entry['lines']} lines of {name}{left}")
        for group, counts in report.items():
            print(f"{group}:")
            for what, count in counts.items():
                print(f"  {count:>8}  {what}")
        for failure in failures:
            print(f"seed {failure['seed']}: {failure['error']}")
        verdict = f"{len(failures)} failed" if failures else "nothing wrong"
        print(f"{options.seeds} seeds, {steps} steps, {seconds} s: {verdict}")
        if failures:
            print(f"see what happened: python -m snapline.testing.sim --seed {failures[0]['seed']} --story")
    return 1 if failures else 0


def _run_mutants(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    mutants: Sequence[Mutant] = options.mutants or MUTANTS
    found: dict[str, dict[str, object]] = {}
    for mutant in mutants:
        caught = _first_catch(mutant, options.start, options.handler)
        found[mutant.name] = {
            "about": mutant.about,
            "seed": caught.seed if caught else None,
            "error": caught.error.strip().splitlines()[-1] if caught else None,
        }
        if not options.json:
            verdict = f"seed {caught.seed}: {found[mutant.name]['error']}" if caught else "NOT CAUGHT"
            print(f"{mutant.name:<37}{mutant.about}\n{'':<37}{verdict}", flush=True)
    missed = [name for name, entry in found.items() if entry["seed"] is None]
    seconds = round(time.perf_counter() - started, 2)
    if options.json:
        print(json.dumps({"mutants": found, "missed": missed, "seconds": seconds}))
    else:
        verdict = f"missed: {', '.join(missed)}" if missed else "all caught"
        print(f"{len(found)} mutants, {MUTANT_SEEDS} seeds each at most, {seconds} s: {verdict}")
    return 1 if missed else 0


def _first_catch(mutant: Mutant, start: int, handler: Handler | None) -> Outcome | None:
    """The first seed that fails with the mutant and not without."""
    conditions = _conditions(mutant, handler)
    for seed in range(start, start + MUTANT_SEEDS):
        with mutant.applied():
            outcome = simulate(seed, *conditions)
        if outcome.error and not simulate(seed, *conditions).error:
            return outcome
    return None


if __name__ == "__main__":
    sys.exit(main())
