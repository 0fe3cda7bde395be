"""Whether a job survives everything at once: `python -m benchmarks.soak --minutes 20 [--json]`.

A job with windows, a join, timers and two-phase sinks runs on a standalone Spark cluster, two workers on hosts of their
own (network namespaces, where the machine allows them), while processes are killed and stopped, links go down, the disk
fills up, clocks jump and strangers connect and say nothing. At the end every output is compared with what it must be,
and what the job uses with what it used at the start. Exits with 1 if anything is lost, doubled or leaked.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.soak import soak_job
from benchmarks.soak.figures import Figures, figures, leaks
from benchmarks.soak.hosts import Clock, Disk, Hosts, network_hosts, small_disk

from snapline.devtools.chaos.chaos_driver import DriverOrder
from snapline.devtools.chaos.chaos_run import Driver
from snapline.devtools.kit.processes import (
    Process,
    descendants,
    end,
    executor_above,
    listening_addresses,
    look,
    operator_processes,
    send,
)
from snapline.devtools.servers.standalone_cluster import StandaloneCluster
from snapline.types import JobStatus

DISK_MEGABYTES = 600
STRANGERS = 300
CALM_S = (3.0, 9.0)
"""Pause between two troubles."""

RECOVERY_S = 120.0
_POLL_S = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long the rows last (20)")
    parser.add_argument("--seed", type=int, default=0, help="decides what happens when (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = run(options.minutes, options.seed, lambda text: print(text, file=sys.stderr, flush=True))
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name}: {value}")
    return 1 if result["problems"] else 0


def run(minutes: float, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the job under trouble. `problems` of the result is empty if all went well."""
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="snapline-soak-")))
        clock = Clock(root / "clock" / "offset")
        clock.file.parent.mkdir()
        saved = dict(os.environ)
        stack.callback(_restore_environment, saved)
        clock.install()
        hosts = stack.enter_context(network_hosts())
        disk = stack.enter_context(small_disk(root, DISK_MEGABYTES))
        cluster = stack.enter_context(
            StandaloneCluster(
                root / "cluster", host=hosts.driver, places=list(zip(hosts.workers, hosts.prefixes, strict=True))
            )
        )
        settings = {
            "spark.driver.host": hosts.driver,
            "spark.driver.bindAddress": hosts.driver,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
        }
        rows = round(minutes * 60 * soak_job.ROWS_PER_SECOND)
        order = DriverOrder(str(disk.directory), "timeout", rows, False, cluster.url, settings)
        return Soak(order, cluster, hosts, disk, clock, random.Random(seed), say).run(minutes)  # noqa: S311


def _restore_environment(saved: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(saved)


@dataclass(slots=True)
class Soak:
    """One run."""

    order: DriverOrder
    cluster: StandaloneCluster
    hosts: Hosts
    disk: Disk
    clock: Clock
    chance: random.Random
    say: Callable[[str], None]
    happened: Counter[str] = field(default_factory=Counter)
    _seen: set[Process] = field(default_factory=set)

    def run(self, minutes: float) -> dict[str, Any]:
        began_s = time.monotonic()
        driver = self._start()
        first: Figures | None = None
        last: Figures | None = None
        try:
            while not driver.has_ended:
                if not self._calm_down(driver):
                    break
                now = figures(driver.pid, [driver.pid, *self.cluster.pids], Path(self.order.directory) / "chk")
                is_late = time.monotonic() - began_s > minutes * 20
                if is_late and now is not None:
                    first, last = first or now, now
                driver = self._trouble(driver, may_kill_driver=not is_late)
            driver.wait_for(lambda: driver.has_ended, "the end of the job")
            driver.wait()
        finally:
            self._seen.update(descendants(driver.pid))
            driver.kill()
        problems = [] if driver.status == JobStatus.FINISHED.value else [f"job {driver.status}: {driver.cause}"]
        problems += soak_job.problems(self.order)
        if first is not None and last is not None:
            problems += leaks(first, last)
        end(self._seen, 10)
        if left := [process.pid for process in operator_processes(*self.cluster.pids)]:
            problems.append(f"operator processes are left: {left}")
        return {
            "problems": problems,
            "minutes": round((time.monotonic() - began_s) / 60, 1),
            "rows": self.order.rows,
            "attempts": driver.attempt,
            "happened": dict(self.happened),
            "namespaces": bool(self.hosts.links),
            "small_disk": self.disk.is_small,
            "start": None if first is None else first.as_json(),
            "end": None if last is None else last.as_json(),
        }

    def _start(self) -> Driver:
        return Driver(self.order, self.say, module="benchmarks.soak.soak_job")

    def _calm_down(self, driver: Driver) -> bool:
        """Wait until the job runs and a checkpoint completes. Returns False if the job ends first."""
        wanted = driver.completed + 1
        done = driver.wait_for(
            lambda: driver.status == JobStatus.RUNNING.value and driver.completed >= wanted,
            "a checkpoint after trouble",
            timeout_s=RECOVERY_S,
        )
        if done:
            deadline_s = time.monotonic() + self.chance.uniform(*CALM_S)
            while time.monotonic() < deadline_s and not driver.has_ended:
                time.sleep(_POLL_S)
        return done and not driver.has_ended

    def _trouble(self, driver: Driver, *, may_kill_driver: bool) -> Driver:
        kinds = ["user", "operator", "worker", "executor", "hang", "clock", "strangers"]
        kinds += ["driver"] if may_kill_driver else []
        kinds += ["link", "link"] if self.hosts.links else []
        kinds += ["disk"] if self.disk.is_small else []
        kind = self.chance.choice(kinds)
        self.say(f"*** {kind}")
        self.happened[kind] += 1
        match kind:
            case "user":
                self.order.fail_file.touch()
            case "driver":
                self._seen.update(descendants(driver.pid))
                driver.kill()
                return self._start()
            case "clock":
                self.clock.set(self.chance.choice((-3600, -60, 0, 60, 3600)))
            case "strangers":
                self._strangers(driver)
            case "link":
                number = self.chance.randrange(len(self.hosts.links))
                self.hosts.set_link(number, up=False)
                self._wait(1, 8)
                self.hosts.set_link(number, up=True)
            case "disk":
                self.disk.fill()
                self._wait(2, 8)
                self.disk.empty()
            case _:
                self._hurt(kind, driver)
        return driver

    def _hurt(self, kind: str, driver: Driver) -> None:
        victims = operator_processes(driver.pid, *self.cluster.pids)
        if not victims:
            return
        victim, slot, _ = self.chance.choice(victims)
        executor = executor_above(victim) or slot
        if kind != "hang":
            send({"operator": victim, "worker": slot, "executor": executor}[kind])
            return
        stopped = [process for process in (look(executor), *descendants(executor)) if process is not None]
        self._seen.update(stopped)
        for process in stopped:
            send(process.pid, signal.SIGSTOP)
        self._wait(2, 10)
        for process in stopped:
            send(process.pid, signal.SIGCONT)

    def _strangers(self, driver: Driver) -> None:
        """Connect to the driver's port, and say nothing for a while."""
        addresses = listening_addresses(driver.pid)
        sockets: list[socket.socket] = []
        try:
            for number in range(STRANGERS if addresses else 0):
                with contextlib.suppress(OSError):
                    sockets.append(socket.create_connection(addresses[number % len(addresses)], timeout=2))
            self._wait(1, 6)
        finally:
            for it in sockets:
                it.close()

    def _wait(self, least_s: float, most_s: float) -> None:
        time.sleep(self.chance.uniform(least_s, most_s))


if __name__ == "__main__":
    sys.exit(main())
