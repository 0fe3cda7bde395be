"""One soak run, from the cluster to the verdict."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.soak import soak_job
from benchmarks.soak.figures import Figures, highest, leaks, look_at, middle, still_running
from benchmarks.soak.hosts import Clock, network_hosts, small_disk
from benchmarks.soak.paced_source import Limit
from benchmarks.soak.troubles import DRIVER, Troubles, dealt, possible_troubles

import snapline
from snapline.devtools.chaos.chaos_driver import DriverOrder
from snapline.devtools.chaos.chaos_run import ChaosError, Driver
from snapline.devtools.kit.processes import Process, descendants, end, operator_processes
from snapline.devtools.servers.spark_classes import java_options
from snapline.devtools.servers.standalone_cluster import StandaloneCluster
from snapline.types import JobStatus

LEAST_MINUTES = 1.0
DISK_MEGABYTES = 600
CALM_S = (0.5, 3.0)
"""Pause between the first checkpoint after a trouble and the next trouble."""

RECOVERY_S = 120.0
"""In which a checkpoint completes after a trouble."""

LAST_S = 20.0
"""Without new trouble, to recover from the last one and to end."""

LEAST_TROUBLES = 2
"""A machine on which everything takes long gets more time for these."""

SETTLE_S = 75.0
"""In which what was started for a recovery is gone; Spark's pools keep a thread for a minute."""

STOP_S = 10.0
"""In which the processes of the cluster are gone after its end."""

SAMPLES = 3
"""The start is the median of so many."""

_PACE_S = 0.2
_POLL_S = 0.1
_OF_SPARK = ("spark-", "blockmgr-", "hsperfdata", "liblz4", "libzstd", "snappy")


def run(minutes: float, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the job under trouble. `problems` of the result is empty if all went well. Leaves nothing behind."""
    began_s = time.monotonic()
    tell, say = say, lambda text: tell(f"{time.monotonic() - began_s:7.1f} {text}")
    seen: set[Process] = set()
    left: list[int] = []
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="snapline-soak-")))
        clock = Clock(root / "clock" / "offset")
        stack.enter_context(_environment(root, clock))
        stack.callback(_clear_away, seen, left)
        hosts = stack.enter_context(network_hosts())
        if hosts.refusal:
            say(f"no network namespaces, so links stay up: {hosts.refusal}")
        disk = stack.enter_context(small_disk(root, DISK_MEGABYTES))
        if disk.refusal:
            say(f"no disk of its own, so none fills up: {disk.refusal}")
        cluster = stack.enter_context(
            StandaloneCluster(
                root / "cluster", host=hosts.driver, places=list(zip(hosts.workers, hosts.prefixes, strict=True))
            )
        )
        say(f"the cluster runs at {cluster.url}")
        settings = {
            "spark.driver.host": hosts.driver,
            "spark.driver.bindAddress": hosts.driver,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
        }
        order = DriverOrder(str(disk.directory), "timeout", 0, False, cluster.url, settings)
        troubles = Troubles(order, hosts, disk, clock, random.Random(seed), say, cluster.pids, seen)  # noqa: S311
        soak = Soak(order, cluster, troubles, root / "tmp", say, began_s + minutes * 60, minutes * 60)
        result = soak.run()
    if left:
        result["problems"].append(f"processes are left: {left}")
    result["verdict"] = "breached" if result["problems"] else "held"
    result.update(seed=seed, minutes=round((time.monotonic() - began_s) / 60, 2), namespaces=hosts.refusal or True)
    result["small_disk"] = disk.refusal or True
    return result


def _clear_away(seen: set[Process], left: list[int]) -> None:
    """With the cluster stopped all processes have ended. Kill those that have not, and name them in `left`."""
    deadline_s = time.monotonic() + STOP_S
    while still_running(seen) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    left += still_running(seen)
    end(seen, 0.0)


@contextmanager
def _environment(root: Path, clock: Clock) -> Iterator[None]:
    """Variables of all processes of the run: clock, temporary files, and the modules of the job."""
    saved = dict(os.environ)
    directory, variables = clock.install()
    path = [directory, str(Path(__file__).parents[2]), str(Path(snapline.__file__).parents[1])]
    if "PYTHONPATH" in saved:
        path.append(saved["PYTHONPATH"])
    for name, variable in (("tmp", "TMPDIR"), ("local", "SPARK_LOCAL_DIRS")):
        (root / name).mkdir()
        variables[variable] = str(root / name)
    os.environ.update(variables, PYTHONPATH=os.pathsep.join(path), JAVA_TOOL_OPTIONS=java_options())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@dataclass(slots=True)
class Soak:
    """Keeps a job running under trouble until the time is over."""

    order: DriverOrder
    cluster: StandaloneCluster
    troubles: Troubles
    temporary: Path
    say: Callable[[str], None]
    ends_s: float
    length_s: float
    happened: Counter[str] = field(default_factory=Counter)
    longest_s: dict[str, float] = field(default_factory=dict)
    samples: list[Figures] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _driver: Driver | None = None
    _rows: int = 0

    def run(self) -> dict[str, Any]:
        limit = Limit(soak_job.limit_file(self.order))
        ended = threading.Event()
        pacing = threading.Thread(target=self._pace, args=(limit, ended), name="soak-pace")
        pacing.start()
        attempts = 0
        try:
            self._start()
            self._suffer()
            ended.set()
            pacing.join()
            limit.set(self._rows, is_last=True)
            self.say(f"the rows end after {self._rows}")
            driver = self._running
            driver.wait_for(lambda: driver.has_ended, "the end of the job", RECOVERY_S)
            driver.wait()
            attempts = driver.attempt
            if driver.status == JobStatus.FINISHED.value:
                self.problems += soak_job.problems(replace(self.order, rows=self._rows))
            else:
                self.problems.append(f"the job is {driver.status}: {driver.cause}\n{driver.log}")
        except ChaosError as error:
            self.problems.append(str(error))
        finally:
            ended.set()
            pacing.join()
            self._stop()
        self._check_end()
        return self._result(attempts)

    @property
    def _running(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def _start(self) -> None:
        self._driver = Driver(self.order, self.say, module="benchmarks.soak.soak_job")

    def _suffer(self) -> None:
        chance, kind = self.troubles.chance, ""
        deck = dealt(possible_troubles(self.troubles.hosts, self.troubles.disk), chance)
        while self._await_checkpoint(kind):
            # The driver is killed once in any case, and never again once figures are taken.
            is_measured = bool(self.happened) and time.monotonic() > self.ends_s - self.length_s * 2 / 3
            if is_measured:
                self._measure()
            self._pause(chance.uniform(*CALM_S))
            if time.monotonic() > self.ends_s - LAST_S and self.happened.total() >= LEAST_TROUBLES:
                break
            kind = next(it for it in deck if it != DRIVER or not is_measured)
            self.happened[kind] += 1
            self.troubles.inflict(kind, self._running)
            if kind == DRIVER:
                self._start()
        self._judge()

    def _pace(self, limit: Limit, ended: threading.Event) -> None:
        """There are more and more rows while the job runs."""
        rows = 0.0
        while not ended.wait(_PACE_S):
            if self._driver is not None and self._driver.status == JobStatus.RUNNING.value:
                rows += soak_job.ROWS_PER_SECOND * _PACE_S
                self._rows = int(rows) // soak_job.STEP_ROWS * soak_job.STEP_ROWS
                limit.set(self._rows)

    def _await_checkpoint(self, kind: str) -> bool:
        """Wait until the job runs and a checkpoint completes. Returns False if the job ends, which it must not."""
        driver, began_s = self._running, time.monotonic()
        wanted = driver.completed + 1
        done = driver.wait_for(
            lambda: driver.status == JobStatus.RUNNING.value and driver.completed >= wanted,
            f"a checkpoint after {kind or 'the start'}",
            timeout_s=RECOVERY_S,
        )
        took_s = time.monotonic() - began_s
        self.longest_s[kind or "start"] = max(self.longest_s.get(kind or "start", 0.0), round(took_s, 1))
        return done

    def _pause(self, seconds: float) -> None:
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s and not self._running.has_ended:
            time.sleep(_POLL_S)

    def _measure(self) -> Figures | None:
        self._see()
        found = look_at(self._running.pid, self.cluster.pids, Path(self.order.directory) / "chk", self.temporary)
        if found is not None:
            self.samples.append(found)
        return found

    def _judge(self) -> None:
        """Compare what the job uses with what it used. What a recovery has left may take a while to go."""
        deadline_s = time.monotonic() + SETTLE_S
        while not self._running.has_ended:
            first = middle(self.samples[:SAMPLES]) if self.samples else None
            last = self._measure()
            found = leaks(first, last) if first is not None and last is not None else []
            if last is not None and not found:
                return
            if time.monotonic() > deadline_s:
                self.problems += found or ["there was nothing to measure"]
                return
            time.sleep(1)
        self.problems.append("the job ended before its figures could be judged")

    def _see(self) -> None:
        for root in (self._running.pid, *self.cluster.pids):
            self.troubles.seen.update(descendants(root))

    def _stop(self) -> None:
        if self._driver is not None:
            self._see()
            self._driver.kill()

    def _check_end(self) -> None:
        """Nothing of the job is left, with the cluster still running."""
        deadline_s = time.monotonic() + SETTLE_S
        while (left := operator_processes(*self.cluster.pids)) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        if left:
            self.problems.append(f"operator processes are left: {[process.pid for process in left]}")
        files = [it.name for it in self.temporary.iterdir() if not it.name.startswith(_OF_SPARK)]
        if files:
            self.problems.append(f"temporary files are left: {files}")

    def _result(self, attempts: int) -> dict[str, Any]:
        return {
            "verdict": "",
            "problems": self.problems,
            "rows": self._rows,
            "attempts": attempts,
            "happened": dict(self.happened),
            "longest_recovery_s": self.longest_s,
            "samples": len(self.samples),
            "start": middle(self.samples[:SAMPLES]).as_json() if self.samples else None,
            "end": self.samples[-1].as_json() if self.samples else None,
            "highest": highest(self.samples).as_json() if self.samples else None,
        }
