"""Runs one job, hurts it again and again, and proves its output.

The driver is its own process. All failures come from outside: signals to its processes, a file for user code.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from snapline.devtools.chaos.chaos_driver import INTERVAL_S, MODES, ROWS_PER_SECOND, DriverOrder
from snapline.devtools.kit.exactly_once import Proof, prove
from snapline.devtools.kit.processes import Process, descendants, end, executor_above, look, operator_processes, send
from snapline.devtools.servers.standalone_cluster import StandaloneCluster
from snapline.errors import ConfigurationError, SnaplineError
from snapline.types import JobStatus

FAILURES = ("user", "operator", "worker", "executor", "hang", "driver")
POSSIBLE: dict[str, tuple[str, ...]] = {
    "process": ("user", "operator", "hang", "driver"),
    "local": ("user", "operator", "worker", "hang", "driver"),
    "local-cluster": FAILURES,
    "standalone": FAILURES,
}
"""The failures of each deployment: without Spark there is no Python worker, in local mode no separate executor."""

CHAOS_DRIVER = "snapline.devtools.chaos.chaos_driver"
TIMEOUT_S = 180.0
"""For each single event to happen."""

MAX_CHECKPOINTS_BETWEEN = 3
_SECONDS_PER_FAILURE = 2.0
_LAST_SECONDS = 1.0
_POLL_S = 0.01
_LOG_CHARACTERS = 4000
_ENDED = {status.value for status in JobStatus if status.is_globally_terminal} | {JobStatus.SUSPENDED.value}


class ChaosError(SnaplineError):
    """The run itself failed, so nothing is proved."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do to which job. With `rows` None there are enough for all failures."""

    deployment: str = "local"
    mode: str = "aligned"
    back_pressure: bool = False
    failures: tuple[str, ...] = ("user", "operator", "worker")
    rows: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.deployment not in POSSIBLE:
            raise ConfigurationError(f"deployment {self.deployment!r}: use one of {', '.join(POSSIBLE)}")
        if self.mode not in MODES:
            raise ConfigurationError(f"mode {self.mode!r}: use one of {', '.join(MODES)}")
        possible = POSSIBLE[self.deployment]
        for failure in self.failures:
            if failure not in possible:
                raise ConfigurationError(f"failure {failure!r}: on {self.deployment} use one of {', '.join(possible)}")
        if self.rows is not None and self.rows < 1:
            raise ConfigurationError(f"{self.rows} rows: use at least 1")

    @property
    def rows_in_all(self) -> int:
        seconds = _SECONDS_PER_FAILURE * len(self.failures) + _LAST_SECONDS
        return round(seconds * ROWS_PER_SECOND) if self.rows is None else self.rows


@dataclass(frozen=True, slots=True)
class Suffered:
    """A failure that happened. `recovered_s` is the time until all tasks ran again."""

    failure: str
    what: str
    attempt: int
    recovered_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended. `problems` is empty if all failures happened and the proof holds."""

    plan: Plan
    rows: int
    rows_found: int
    attempts: int
    seconds: float
    suffered: tuple[Suffered, ...]
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "is_good": self.is_good}


class Driver:
    """A driver process, and its last report."""

    def __init__(self, order: DriverOrder, say: Callable[[str], None], module: str = CHAOS_DRIVER) -> None:
        self.status = ""
        self.attempt = 0
        self.completed = 0
        self.cause = ""
        self._say = say
        self._log = Path(order.directory) / "driver.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter
                [sys.executable, "-m", module, json.dumps(asdict(order))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,  # an interrupt at the terminal is for the parent only
            )
        self._reader = threading.Thread(target=self._read, name="chaos-driver", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended."""
        return self.status in _ENDED

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> bool:
        """Wait for a condition. Returns False if the job ends first; `ChaosError` if it takes too long."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if self.has_ended:
                return False
            if time.monotonic() > deadline_s or not self._reader.is_alive():
                how = "not in time" if self._reader.is_alive() else "the driver has ended"
                raise ChaosError(f"{what}: {how}; the job is {self.status or 'not started'}: {self.cause}\n{self.log}")
            time.sleep(_POLL_S)
        return True

    def wait(self) -> None:
        """Wait for the process to end, which it does after the job."""
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ChaosError(f"the job is {self.status}, but its driver does not end\n{self.log}") from None
        self._reader.join(TIMEOUT_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(TIMEOUT_S)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_CHARACTERS:]

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                try:
                    report = json.loads(line)
                except ValueError:  # the driver was killed while it wrote
                    return
                for event in report["events"]:
                    self._say(f"  {event}")
                self.attempt, self.completed = report["attempt"], report["completed"]
                self.cause, self.status = report["cause"], report["status"]


@dataclass(slots=True)
class Chaos:
    """Runs plans, each in its own directory. `say` prints what happens; `cluster` is for standalone."""

    say: Callable[[str], None]
    cluster: StandaloneCluster | None = None
    _chance: random.Random = field(default_factory=random.Random)
    _seen: set[Process] = field(default_factory=set)

    def run(self, plan: Plan, directory: Path) -> Result:
        """Run a plan; leaves no process behind. `ChaosError` if the plan could not be carried out."""
        master, settings = self._master(plan.deployment)
        order = DriverOrder(str(directory), plan.mode, plan.rows_in_all, plan.back_pressure, master, settings)
        self._chance = random.Random(plan.seed)  # noqa: S311  # repeatable
        began_s = time.monotonic()
        suffered: list[Suffered] = []
        driver = Driver(order, self.say)
        try:
            for failure in plan.failures:
                if not self._await_moment(driver):
                    break
                attempt, hurt_s = driver.attempt, time.monotonic()
                with self._inflicted(failure, driver, order) as what:
                    if failure == "driver":
                        driver = Driver(order, self.say)
                    if not self._await_attempt(driver, attempt):
                        break
                    recovered_s = time.monotonic() - hurt_s
                    self.say(f"runs again after {recovered_s:.1f} s")
                    suffered.append(Suffered(failure, what, driver.attempt, round(recovered_s, 2)))
                    if failure == "hang":
                        # Its late actions then meet an attempt that is further on.
                        self._await_checkpoints(driver, 1)
            driver.wait_for(lambda: driver.has_ended, "the end of the job")
            driver.wait()
        finally:
            self._end(driver)
        return self._result(plan, order, driver, suffered, time.monotonic() - began_s)

    def _master(self, deployment: str) -> tuple[str | None, dict[str, str]]:
        match deployment:
            case "process":
                return None, {}
            case "local":
                return "local[4]", {}
            case "local-cluster":
                return "local-cluster[2,2,1024]", {"spark.executor.memory": "512m"}
        assert self.cluster is not None, "a standalone cluster is needed"
        # One slot per executor and none to spare: a lost one must be replaced.
        return self.cluster.url, {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
        }

    def _await_moment(self, driver: Driver) -> bool:
        """Wait for a few more checkpoints and a random moment. Returns False if the job ends first."""
        running = driver.wait_for(lambda: driver.status == JobStatus.RUNNING.value, "the job runs")
        if not running or not self._await_checkpoints(driver, self._chance.randint(1, MAX_CHECKPOINTS_BETWEEN)):
            return False
        time.sleep(self._chance.uniform(0, INTERVAL_S))
        return not driver.has_ended

    def _await_checkpoints(self, driver: Driver, more: int) -> bool:
        wanted = driver.completed + more
        return driver.wait_for(lambda: driver.completed >= wanted, f"{more} more checkpoints")

    def _await_attempt(self, driver: Driver, before: int) -> bool:
        return driver.wait_for(
            lambda: driver.attempt > before and driver.status == JobStatus.RUNNING.value, "the job runs again"
        )

    @contextlib.contextmanager
    def _inflicted(self, failure: str, driver: Driver, order: DriverOrder) -> Iterator[str]:
        """Cause a failure; on exit it is over."""
        if failure == "user":
            order.fail_file.touch()
            yield self._announced("an exception in user code")
            return
        if failure == "driver":
            self._seen.update(descendants(driver.pid))
            driver.kill()
            yield self._announced(f"kill -9 of the driver, {driver.pid}")
            return
        victims = operator_processes(*self._roots(driver))
        if not victims:
            raise ChaosError(f"the job runs without an operator process\n{driver.log}")
        victim, slot, _ = self._chance.choice(victims)
        executor = executor_above(victim)
        if failure == "hang":
            # In local mode stop the slot; without Spark the slots are in the driver, so stop the operator process.
            top = executor or (victim if slot == driver.pid else slot)
            stopped = [process for process in (look(top), *descendants(top)) if process is not None]
            self._seen.update(stopped)
            for process in stopped:
                send(process.pid, signal.SIGSTOP)
            try:
                yield self._announced(f"SIGSTOP of {len(stopped)} processes from {top} down")
            finally:
                woken = [process for process in stopped if send(process.pid, signal.SIGCONT)]
                self.say(f"*** SIGCONT of {len(woken)} processes")
            return
        target = {"operator": victim, "worker": slot, "executor": executor}[failure]
        names = {"operator": "an operator process", "worker": "a Python worker", "executor": "an executor"}
        if target is None:
            raise ChaosError(f"there is no process to kill: {names[failure]}")
        send(target)
        yield self._announced(f"kill -9 of {names[failure]}, {target}")

    def _announced(self, what: str) -> str:
        self.say(f"*** {what}")
        return what

    def _roots(self, driver: Driver) -> list[int]:
        return [driver.pid, *(self.cluster.pids if self.cluster is not None else ())]

    def _end(self, driver: Driver) -> None:
        self._seen.update(descendants(driver.pid))
        driver.kill()
        end(self._seen, 10)
        self._seen.clear()

    def _result(
        self, plan: Plan, order: DriverOrder, driver: Driver, suffered: Sequence[Suffered], seconds: float
    ) -> Result:
        problems: list[str] = []
        if driver.status != JobStatus.FINISHED.value:
            problems.append(f"the job is {driver.status}: {driver.cause}")
        missed = plan.failures[len(suffered) :]
        if missed and not problems:
            problems.append(f"the rows ended before {', '.join(missed)}; use more rows")
        proof: Proof = prove(order.output, order.rows, at_least_once=plan.mode == "at-least-once")
        problems += proof.problems
        return Result(plan, order.rows, proof.rows, driver.attempt, round(seconds, 1), tuple(suffered), tuple(problems))
