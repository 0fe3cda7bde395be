"""What is done to the job of the soak run, in an order that a seed decides."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.soak.hosts import LOOPBACK, Clock, Disk, Hosts

from snapline.devtools.chaos.chaos_driver import DriverOrder
from snapline.devtools.chaos.chaos_run import Driver
from snapline.devtools.kit.processes import (
    Process,
    descendants,
    executor_above,
    listening_addresses,
    look,
    operator_processes,
    send,
)

DRIVER = "driver"
STRANGERS = 300
"""More than the driver allows to be there before they have said who they are."""

FREE_BYTES = (0, 16 << 10, 256 << 10)
"""How much of the disk stays free: a part of a checkpoint, or none."""

CLOCK_STEPS_S = (-3600, -60, 60, 3600)
_ALWAYS = ("user", "operator", "worker", "executor", "hang", "clock", "strangers")


def possible_troubles(hosts: Hosts, disk: Disk) -> tuple[str, ...]:
    """What this machine allows."""
    return (DRIVER, *_ALWAYS, *(("link",) if hosts.links else ()), *(("disk",) if disk.is_small else ()))


def dealt(kinds: Sequence[str], chance: random.Random) -> Iterator[str]:
    """All kinds in a random order, and again. The driver is the first: later ones would spoil its figures."""
    first = True
    while True:
        deck = list(kinds)
        chance.shuffle(deck)
        if first and DRIVER in deck:
            deck.remove(DRIVER)
            deck.insert(0, DRIVER)
        first = False
        yield from deck


@dataclass(slots=True)
class Troubles:
    """Inflicts troubles; each is over when `inflict` returns. `seen` collects processes that may outlive them."""

    order: DriverOrder
    hosts: Hosts
    disk: Disk
    clock: Clock
    chance: random.Random
    say: Callable[[str], None]
    cluster: Sequence[int]
    seen: set[Process] = field(default_factory=set)
    _offset_s: float = 0.0

    def inflict(self, kind: str, driver: Driver) -> None:
        """Do it. The driver is dead after its own trouble."""
        match kind:
            case "user":
                self.say("*** an exception in user code")
                self.order.fail_file.touch()
            case "driver":
                self.say(f"*** kill -9 of the driver, {driver.pid}")
                self.seen.update(descendants(driver.pid))
                driver.kill()
            case "clock":
                self._step_clock()
            case "strangers":
                self._strangers(driver)
            case "link":
                self._cut_link()
            case "disk":
                self._fill_disk()
            case _:
                self._hurt(kind, driver)

    def _step_clock(self) -> None:
        step_s = self.chance.choice([it for it in CLOCK_STEPS_S if it * self._offset_s <= 0])
        self._offset_s += step_s
        self.say(f"*** clocks are set by {step_s} s, now {self._offset_s:+.0f} s")
        self.clock.set(self._offset_s)

    def _cut_link(self) -> None:
        number, seconds = self.chance.randrange(len(self.hosts.links)), self.chance.uniform(1, 8)
        self.say(f"*** the link of worker {number} is down for {seconds:.1f} s")
        self.hosts.set_link(number, up=False)
        try:
            time.sleep(seconds)
        finally:
            self.hosts.set_link(number, up=True)

    def _fill_disk(self) -> None:
        seconds, free_bytes = self.chance.uniform(2, 8), self.chance.choice(FREE_BYTES)
        self.say(f"*** the disk is full but for {free_bytes} bytes, for {seconds:.1f} s")
        try:
            self.disk.fill(free_bytes)
            time.sleep(seconds)
        finally:
            self.disk.empty()

    def _hurt(self, kind: str, driver: Driver) -> None:
        victims = operator_processes(driver.pid, *self.cluster)
        # Drawn in any case: what follows must not depend on who is there.
        number, seconds = self.chance.random(), self.chance.uniform(2, 10)
        if not victims:
            self.say(f"*** {kind}: there is no process to hurt at this moment")
            return
        victim, slot, _ = victims[int(number * len(victims))]
        executor = executor_above(victim) or slot
        if kind != "hang":
            target = {"operator": victim, "worker": slot, "executor": executor}[kind]
            self.say(f"*** kill -9 of the {kind}, {target}")
            send(target)
            return
        stopped = [process for process in (look(executor), *descendants(executor)) if process is not None]
        self.seen.update(stopped)
        self.say(f"*** SIGSTOP of {len(stopped)} processes from executor {executor} down, for {seconds:.1f} s")
        try:
            for process in stopped:
                send(process.pid, signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            for process in stopped:
                send(process.pid, signal.SIGCONT)

    def _strangers(self, driver: Driver) -> None:
        """Connect to the ports of the driver and of the operator processes, and say nothing for a while."""
        seconds = self.chance.uniform(1, 6)
        found: list[tuple[str, int]] = []
        for pid in (driver.pid, *(process.pid for process in operator_processes(*self.cluster))):
            with contextlib.suppress(OSError):  # it has just ended
                found += [it for it in listening_addresses(pid) if pid != driver.pid or it[0] != LOOPBACK]
        self.say(f"*** {STRANGERS} silent connections to each of {len(found)} ports for {seconds:.1f} s")
        with contextlib.ExitStack() as stack:
            for address in found:
                for _ in range(STRANGERS):
                    stranger = stack.enter_context(socket.socket())
                    stranger.setblocking(False)
                    with contextlib.suppress(OSError):  # begun, or refused because the process has just ended
                        stranger.connect(address)
            time.sleep(seconds)
