"""One round: a job runs into every point of its plan, and its output is read all the while and compared at the end."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sink_kills.deadly_sink import POINTS, KillPlan, wake_zombie
from benchmarks.sink_kills.kill_targets import TARGETS, AwayError, Target
from benchmarks.sink_kills.numbers_source import furthest

from snapline.devtools.kit.forked_programs import ForkedProgram, ForkServer
from snapline.devtools.kit.processes import descendants, end

TIMEOUT_S = 240.0
LAST_ROWS = 2000
"""How many more rows there are once every point is done: the source must not be beyond that when it hears of it."""

MAX_DRIVERS = 50

PATIENCE_S = 5.0
_POLL_S = 0.05
_LOG_CHARACTERS = 6000


class RoundError(Exception):
    """The output is wrong, or the round did not come to its end."""


@dataclass(slots=True)
class Outcome:
    """What a round has shown."""

    target: str
    victim: str
    points: list[str]
    seed: int
    seconds: float = 0.0
    rows: int = 0
    reads: int = 0
    drivers: int = 0
    zombie: str = ""
    disturbances: list[str] = field(default_factory=list)


class Watcher:
    """A reader beside the job: rows may only be added, and none may be there twice."""

    def __init__(self, target: Target, place: Any) -> None:
        self._read: Callable[[], list[int]] = lambda: target.read(place)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error = ""
        self.reads = 0
        self.seen: set[int] = set()

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S) and not self.error:
            try:
                rows = self._read()
            except AwayError:
                continue
            except Exception as error:
                self.error = f"the reader failed: {type(error).__name__}: {error}"
                return
            self.reads += 1
            now = set(rows)
            if len(now) != len(rows):
                twice = sorted(rows)
                doubled = [a for a, b in itertools.pairwise(twice) if a == b]
                self.error = f"a reader saw {len(doubled)} rows twice, such as {doubled[:3]}"
            elif self.seen - now:
                gone = sorted(self.seen - now)
                self.error = f"a reader saw {len(gone)} rows that are gone again, such as {gone[:3]}: not committed"
            self.seen = now


def run_round(
    target_name: str,
    victim: str,
    seed: int,
    place: Any,
    root: Path,
    disturb: str = "",
    timeout_s: float = TIMEOUT_S,
    in_threads: bool = False,
    server: ForkServer | None = None,
) -> Outcome:
    """Run a round in the empty directory `root`. Raises `RoundError` with what went wrong.

    `disturb` names something that the target does to its server while the job runs. With `in_threads` the operators are
    threads of the driver, and die with it. Drivers are started by `server`, which is faster, or as new interpreters.
    """
    assert not in_threads or victim == "driver", "threads cannot be killed"
    target, started_s = TARGETS[target_name], time.monotonic()
    points = tuple(point for point in POINTS if point in target.points)
    plan = KillPlan(str(root), victim, points, seed)
    outcome = Outcome(target_name, victim, list(points), seed)
    order = {"target": target_name, "victim": victim, "points": points, "seed": seed, "place": place}
    order["in_threads"] = in_threads
    (root / "order.json").write_text(json.dumps(order))
    is_over = threading.Event()
    arguments = disturb, place, is_over, outcome.disturbances
    disturber = threading.Thread(target=target.disturb, args=arguments, daemon=True)
    driver = _start(root, server)
    outcome.drivers = 1
    zombie_file = root / "zombie"
    deadline_s = started_s + timeout_s
    is_ending = False
    if disturb:
        disturber.start()
    try:
        with Watcher(target, place) as watcher:
            while True:
                code = driver.poll()
                if code == 0:
                    break
                if code is not None:
                    # A driver that finds the server away says so and ends; whoever started it starts it again.
                    if code != -signal.SIGKILL and (not disturb or outcome.drivers >= MAX_DRIVERS):
                        raise RoundError(f"the driver ended with {code}: {_log(root)}")
                    if isinstance(driver, ForkedProgram):
                        driver.close()
                    driver = _start(root, server)
                    outcome.drivers += 1
                if watcher.error:
                    raise RoundError(watcher.error)
                if time.monotonic() > deadline_s:
                    state = f"done are {plan.done()}, {len(watcher.seen)} rows seen, {outcome}"
                    raise RoundError(f"no end within {timeout_s:g} s; {state}: {_log(root)}")
                if zombie_file.exists() and not outcome.zombie and _has_recovered(watcher, zombie_file):
                    outcome.zombie = wake_zombie(zombie_file)
                is_done = len(plan.done()) == len(points) and (not target.has_zombie or bool(outcome.zombie))
                if is_done and not is_ending and (not disturb or outcome.disturbances):
                    is_ending = True
                    last = furthest(root) + LAST_ROWS
                    (root / "end.new").write_text(str(last))
                    (root / "end.new").rename(root / "end")
                time.sleep(_POLL_S)
        if watcher.error:
            raise RoundError(watcher.error)
        outcome.reads = watcher.reads
        expected = int((root / "end").read_text())
        is_over.set()
        if disturb:
            disturber.join(TIMEOUT_S)
        found = sorted(target.read_all(place))
        outcome.rows = len(found)
        if found != list(range(expected)):
            missing, extra = set(range(expected)) - set(found), set(found) - set(range(expected))
            raise RoundError(
                f"{len(found)} rows instead of {expected}: {len(missing)} are missing, such as {sorted(missing)[:5]}, "
                f"{len(extra)} should not be there, {len(found) - len(set(found))} are there twice"
            )
    finally:
        below = descendants(driver.pid)
        driver.kill()
        driver.wait(TIMEOUT_S)
        if isinstance(driver, ForkedProgram):
            driver.close()
        end(below, PATIENCE_S)
        is_over.set()
        if disturber.is_alive():
            disturber.join(TIMEOUT_S)
    outcome.seconds = time.monotonic() - started_s
    return outcome


def _has_recovered(watcher: Watcher, zombie_file: Path) -> bool:
    """Whether newer rows than before the crash are visible: the next attempt has committed."""
    mark = zombie_file.with_suffix(".seen")
    if not mark.exists():
        mark.write_text(str(len(watcher.seen)))
        return False
    return len(watcher.seen) > int(mark.read_text())


def _start(root: Path, server: ForkServer | None) -> subprocess.Popen[bytes] | ForkedProgram:
    arguments = ["-m", "benchmarks.sink_kills.kill_driver", str(root)]
    with (root / "driver.log").open("ab") as log:
        if server is not None:
            return server.start(arguments, output=log)
        return subprocess.Popen([sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _log(root: Path) -> str:
    return (root / "driver.log").read_text(errors="replace")[-_LOG_CHARACTERS:]
