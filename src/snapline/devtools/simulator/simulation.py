"""One seed from beginning to end: the user, the faults, and the verdict."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass

from snapline.devtools.simulator.checkers import Checker
from snapline.devtools.simulator.driver import Driver
from snapline.devtools.simulator.kernel import Kernel, ViolationError
from snapline.devtools.simulator.network import Network
from snapline.devtools.simulator.outside import Outside
from snapline.devtools.simulator.scenario import Ending, Fault, Run, Scenario, make_scenario
from snapline.devtools.simulator.storage import SimStorage
from snapline.devtools.simulator.world import World
from snapline.errors import SnaplineError
from snapline.protocol.barriers.barrier_events import HandlerMode
from snapline.protocol.coordinator.request_decider import TriggerRequest, savepoint_request
from snapline.protocol.journal import Journal
from snapline.protocol.snapshot import Snapshot
from snapline.types import JobStatus, SnapshotKind

PROGRESS_LIMIT_MS = 6_000
"""A job that has not ended this long after the last fault will never end."""

MAX_STEPS = 150_000
_SAVEPOINTS_WANTED = {Ending.CANCEL_AND_RESTORE_SAVEPOINT: 1, Ending.CANCEL_AND_RESTORE_OLDER_SAVEPOINT: 2}
USER_PATIENCE_MS = 40
USER_PATIENCE_GROWTH = 1.4


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed went. `error` is empty if nothing was wrong."""

    seed: int
    error: str
    steps: int
    coverage: Counter[str]
    story: tuple[str, ...] = ()


def simulate(seed: int, handler: HandlerMode | None = None, *, story: bool = False) -> Outcome:
    """Run one seed."""
    return Simulation(make_scenario(seed, handler), story=story).run()


class Simulation:
    """Plays a scenario: submits the job, does to it what its user does, lets things fail, and checks."""

    def __init__(self, scenario: Scenario, *, story: bool = False) -> None:
        self.scenario = scenario
        self.kernel = Kernel(scenario.seed, story=story)
        faults = scenario.faults
        self.storage = SimStorage(self.kernel, faults)
        self.outside = Outside(self.kernel, faults)
        self.network = Network(self.kernel, faults)
        self.checker = Checker(self.kernel, scenario, self.storage, self.outside)
        self.world = World(self.kernel, scenario, self.storage, self.outside, self.network, self.checker)
        self._run_number = -1
        self._incarnation = 0
        self._driver: Driver | None = None
        self._given: Snapshot | None = None
        self._savepoints: list[Snapshot] = []
        self._is_over = False
        self._requests = 0

    def run(self) -> Outcome:
        error = ""
        try:
            self._play()
        except ViolationError as violation:
            error = str(violation)
        except SnaplineError as defect:
            error = f"{type(defect).__name__}: {defect}"
        except Exception:
            error = traceback.format_exc()
        if error:
            self.kernel.tell("checker", "{}", error)
        kernel = self.kernel
        return Outcome(self.scenario.seed, error, kernel.steps, kernel.coverage, tuple(kernel.story or ()))

    def _play(self) -> None:
        kernel = self.kernel
        self._introduce()
        kernel.cover(f"handler: {self.scenario.mode.value}")
        kernel.after(self.scenario.quiet_from_ms, None, self._become_quiet)
        for fault in sorted(self.scenario.faults, key=lambda fault: fault.value):
            for _ in range(kernel.between(1, 2)):
                kernel.after(kernel.between(10, self.scenario.quiet_from_ms - 10), None, self._strike, fault)
        self._next_run()
        deadline_ms = self.scenario.quiet_from_ms + PROGRESS_LIMIT_MS
        while kernel.step():
            if not self._is_over and (kernel.now_ms > deadline_ms or kernel.steps > MAX_STEPS):
                status = self._driver.status.name if self._driver is not None else "nothing"
                raise ViolationError(f"no progress: the job is still {status} after {kernel.steps} steps")
        if not self._is_over:
            raise ViolationError("no progress: nothing is left to happen, and the job has not ended")
        self.checker.everything_cleaned()

    def _introduce(self) -> None:
        scenario, kernel = self.scenario, self.kernel
        if kernel.story is None:
            return
        kernel.tell("scenario", "handler {}, {}", scenario.mode.value, scenario.checkpoints)
        for edge in scenario.topology.edges:
            kernel.tell("scenario", "edge {} {}", edge.id, edge.partitioning.value.lower())
        for run in scenario.runs:
            kernel.tell("scenario", "run {} until {}", run.parallelism, run.ending.value)
        faults = ", ".join(sorted(fault.value for fault in scenario.faults)) or "none"
        kernel.tell("scenario", "faults until {} ms: {}", scenario.quiet_from_ms, faults)

    def _become_quiet(self) -> None:
        self.kernel.tell("world", "no more faults from here on")
        self.storage.is_quiet = self.outside.is_quiet = self.network.is_quiet = True

    # Runs of the job.

    @property
    def _run(self) -> Run:
        return self.scenario.runs[self._run_number]

    def _next_run(self) -> None:
        self._run_number += 1
        self._savepoints = []
        self._patience_ms: float = USER_PATIENCE_MS
        job = f"job{self._run_number}"
        self.checker.job_submitted(job, self._given, self._run.claim_mode)
        self._start_driver(job)
        if self._run.ending is not Ending.FINISH:
            self.kernel.after(self._run.user_acts_at_ms, None, self._act, self._run_number)

    def _start_driver(self, job: str) -> None:
        if self._is_over:
            return
        self._incarnation += 1
        driver = Driver(self.world, job, self._run, self._given, self._incarnation)
        driver.on_end = lambda status, stop: self._on_end(driver, status, stop)
        driver.on_request_done = lambda request, snapshot: self._on_request_done(driver, request, snapshot)
        self._driver = driver
        self.kernel.tell("world", "{} starts", driver.process.name)
        driver.start()

    def _on_end(self, driver: Driver, status: JobStatus, stop: Snapshot | None) -> None:
        if driver is not self._driver:
            return
        self.kernel.tell("world", "{} ends {}", driver.job, status.name)
        if status is JobStatus.SUSPENDED or status is JobStatus.FAILED:
            raise ViolationError(f"the job ended {status.name}: {driver.lifecycle.cause}")
        self.kernel.after(0, None, self._after_end, driver.job, status, stop)

    def _after_end(self, job: str, status: JobStatus, stop: Snapshot | None) -> None:
        ending = self._run.ending
        if stop is not None:
            self.checker.job_stopped(job, stop)
            self._given = stop
            self.kernel.cover(f"ending: {ending.value}")
        elif status is JobStatus.FINISHED:
            self.checker.job_finished(job)
            self.kernel.cover(f"ending: {Ending.FINISH.value}")
            self._is_over = True
            return
        else:
            self.kernel.cover(f"ending: {ending.value}")
            self._given = self._savepoints[0] if self._savepoints else self._latest_checkpoint(job)
        self._next_run()

    def _latest_checkpoint(self, job: str) -> Snapshot | None:
        """What the journal names; a directory may also hold what a fenced driver left there."""
        journal = Journal(self.storage.objects[path] for path in self.storage.list(f"{job}/journal/"))
        if journal.latest is None:
            return None
        snapshot, _ = self.storage.objects[f"{journal.latest.location}/_metadata"]
        assert isinstance(snapshot, Snapshot)
        return snapshot

    # The user.

    def _act(self, run_number: int) -> None:
        """Do the next thing this run's user has in mind, and look again later."""
        if self._is_over or run_number != self._run_number or self._driver is None:
            return
        ending, wanted = self._run.ending, _SAVEPOINTS_WANTED.get(self._run.ending, 0)
        if ending in (Ending.STOP, Ending.STOP_DRAIN):
            self._request(SnapshotKind.SYNC_SAVEPOINT, drain=ending is Ending.STOP_DRAIN)
        elif len(self._savepoints) < wanted:
            self._request(SnapshotKind.SAVEPOINT, drain=False)
        else:
            self.kernel.tell("user", "cancels")
            self._driver.cancel()
        self._patience_ms *= USER_PATIENCE_GROWTH
        self.kernel.after(int(self._patience_ms), None, self._act, run_number)

    def _request(self, kind: SnapshotKind, *, drain: bool) -> None:
        assert self._driver is not None
        if self._driver.status is not JobStatus.RUNNING:
            return
        self._requests += 1
        name = f"user-{self._requests}"
        self.kernel.tell("user", "asks for {}", kind.value.lower())
        now_ms = self.kernel.now_ms
        config = self.scenario.checkpoints
        self._driver.request(savepoint_request(name, config, now_ms, stop=kind.is_synchronous, drain=drain))

    def _on_request_done(self, driver: Driver, request: TriggerRequest, snapshot: Snapshot | None) -> None:
        if driver is self._driver and snapshot is not None and request.kind is SnapshotKind.SAVEPOINT:
            self._savepoints.append(snapshot)

    # Faults.

    def _strike(self, fault: Fault) -> None:
        driver = self._driver
        if self._is_over or driver is None or not driver.process.alive:
            return
        match fault:
            case Fault.SUBTASK_CRASH:
                self._crash_subtask(driver)
            case Fault.SLOT_CRASH:
                self._crash_slot(driver)
            case Fault.DRIVER_CRASH:
                self._crash_driver(driver)
            case Fault.ZOMBIE_DRIVER:
                if driver.lifecycle.attempt > 0:
                    self._freeze_driver(driver)
            case Fault.ZOMBIE_SLOT:
                self._cut_slot(driver)
            case Fault.TWO_CRASHES:
                self._crash_subtask(driver, Fault.TWO_CRASHES)
                again = self._crash_slot if self.kernel.chance(0.5) else self._crash_subtask
                self.kernel.after(self.kernel.between(3, 40), None, lambda: again(driver, Fault.TWO_CRASHES))
            case _:
                pass  # network, storage and the system outside decide for themselves when to fail

    def _struck(self, fault: Fault, whom: str) -> None:
        self.kernel.cover(f"fault: {fault.value}")
        self.kernel.tell("fault", "{}: {}", fault.value, whom)

    def _crash_subtask(self, driver: Driver, fault: Fault = Fault.SUBTASK_CRASH) -> None:
        tasks = driver.running_tasks()
        if tasks:
            task = self.kernel.random.choice(tasks)
            self._struck(fault, str(task.execution))
            task.fail("it crashed")

    def _crash_slot(self, driver: Driver, fault: Fault = Fault.SLOT_CRASH) -> None:
        if driver.slots:
            slot = self.kernel.random.choice(driver.slots)
            self._struck(fault, slot.process.name)
            slot.kill()
            self.kernel.after(15, driver.process, driver.slot_lost, slot)

    def _cut_slot(self, driver: Driver) -> None:
        if driver.slots:
            slot = self.kernel.random.choice(driver.slots)
            self._struck(Fault.ZOMBIE_SLOT, slot.process.name)
            away_ms = self.kernel.between(60, 200)
            self.network.cut(slot.process, self.kernel.now_ms + away_ms)
            self.kernel.after(self.kernel.between(10, 25), driver.process, driver.slot_lost, slot)
            self.kernel.after(away_ms + self.kernel.between(10, 80), None, slot.kill)

    def _crash_driver(self, driver: Driver) -> None:
        self._struck(Fault.DRIVER_CRASH, driver.process.name)
        driver.process.alive = False
        for slot in driver.slots:
            self.kernel.after(self.kernel.between(0, 60), None, slot.kill)
        self.kernel.after(self.kernel.between(5, 60), None, self._replace, driver)

    def _freeze_driver(self, driver: Driver) -> None:
        self._struck(Fault.ZOMBIE_DRIVER, driver.process.name)
        frozen_ms = self.kernel.between(40, 160)
        driver.process.frozen_until_ms = self.kernel.now_ms + frozen_ms
        self.kernel.after(self.kernel.between(5, 40), None, self._replace, driver)
        self.kernel.after(frozen_ms + self.kernel.between(60, 300), None, self._bury, driver)

    def _replace(self, driver: Driver) -> None:
        if driver is self._driver:
            self._start_driver(driver.job)

    def _bury(self, driver: Driver) -> None:
        driver.process.alive = False
        for slot in driver.slots:
            slot.kill()
