"""One seed from start to end: the user, the faults, and the verdict."""

from __future__ import annotations

import gc
import logging
import traceback
from collections import Counter
from dataclasses import dataclass

from snapline.devtools.simulator.kernel import ViolationError
from snapline.devtools.simulator.line_coverage import LineTracer
from snapline.devtools.simulator.scenario import Ending, Fault, Handler, Role, Run, Scenario, make_scenario
from snapline.devtools.simulator.sim_driver import SimDriver
from snapline.devtools.simulator.slot_farm import SimSlot
from snapline.devtools.simulator.world import World
from snapline.errors import SnaplineError
from snapline.protocol.coordinator.request_decider import savepoint_request
from snapline.protocol.journal import Journal
from snapline.protocol.snapshot import Snapshot
from snapline.storage import snapshot_metadata
from snapline.types import JobStatus, Partitioning, SnapshotKind

PROGRESS_LIMIT_MS = 90_000
"""A job that has not ended this long after the last fault never will."""

MAX_STEPS = 300_000
_SAVEPOINTS_WANTED = {Ending.CANCEL_AND_RESTORE_SAVEPOINT: 1, Ending.CANCEL_AND_RESTORE_OLDER_SAVEPOINT: 2}
MAX_DELAY_MS = 600_000
CLOCK_STEP_MS = 7_200_000
USER_PATIENCE_MS = 400
_PARTLY_FINISHED = "ahead of them had not; the graph has changed"
USER_PATIENCE_GROWTH = 1.4


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a seed. `error` is empty if nothing was wrong."""

    seed: int
    error: str
    steps: int
    coverage: Counter[str]
    story: tuple[str, ...] = ()


def simulate(
    seed: int,
    handler: Handler | None = None,
    fault: Fault | None = None,
    *,
    story: bool = False,
    tracer: LineTracer | None = None,
) -> Outcome:
    """Run one seed, with this handler and this fault if given. `tracer` collects the executed lines."""
    return play(make_scenario(seed, handler, fault), story=story, tracer=tracer)


def play(
    scenario: Scenario, *, story: bool = False, tracer: LineTracer | None = None, max_steps: int = MAX_STEPS
) -> Outcome:
    """Run a scenario, to its end or for `max_steps`."""
    # The shells log the faults, which are expected here.
    log = logging.getLogger("snapline")
    before, log.disabled = log.disabled, True
    level, log.level = log.level, logging.CRITICAL + 1
    gc.disable()  # a run creates many cycles but lives for a tenth of a second
    try:
        simulation = Simulation(scenario, story=story, max_steps=max_steps)
        if tracer is not None:
            simulation.kernel.on_fiber = tracer.start
            tracer.start()
        return simulation.run()
    finally:
        if tracer is not None:
            tracer.stop()
        gc.enable()
        log.disabled, log.level = before, level
        log.manager._clear_cache()  # type: ignore[attr-defined]


class Simulation:
    """Plays a scenario: submits the job, acts as its user, injects faults, and checks."""

    def __init__(self, scenario: Scenario, *, story: bool = False, max_steps: int = MAX_STEPS) -> None:
        self.scenario = scenario
        self._max_steps = max_steps
        self.world = World(scenario, story=story)
        self.kernel = self.world.kernel
        self.kernel.max_delay_ms = MAX_DELAY_MS
        self.checker = self.world.checker
        self._run_number = -1
        self._incarnation = 0
        self._driver: SimDriver | None = None
        self._given: Snapshot | None = None
        self._savepoints: list[Snapshot] = []
        self._is_over = False
        self._requests = 0

    def run(self) -> Outcome:
        kernel, error = self.kernel, ""
        try:
            self._play()
        except ViolationError as violation:
            error = str(violation)
        except SnaplineError as defect:
            error = f"{type(defect).__name__}: {defect}"
        except Exception:
            error = traceback.format_exc()
        error = kernel.violation or error
        if error:
            kernel.tell("checker", "{}", error)
        outcome = Outcome(self.scenario.seed, error, kernel.steps, kernel.coverage, tuple(kernel.story or ()))
        kernel.end()
        return outcome

    def _play(self) -> None:
        kernel = self.kernel
        self._introduce()
        kernel.cover(f"handler: {self.scenario.mode.value}")
        kernel.after(self.scenario.quiet_from_ms, None, self._become_quiet)
        for fault in sorted(self.scenario.faults, key=lambda fault: fault.value):
            for _ in range(kernel.between(1, 2)):
                kernel.after(kernel.between(100, self.scenario.quiet_from_ms - 100), None, self._strike, fault)
        self._next_run()
        deadline_ms = self.scenario.quiet_from_ms + PROGRESS_LIMIT_MS
        while not self._is_idle and kernel.step():
            if kernel.violation:
                raise ViolationError(kernel.violation)
            if not self._is_over and (kernel.now_ms > deadline_ms or kernel.steps > self._max_steps):
                assert self._driver is not None
                status, cause = self._driver.status.name, self._driver.cause
                raise ViolationError(f"no progress: the job is still {status} after {kernel.steps} steps; {cause}")
        if not self._is_over:
            raise ViolationError("no progress: nothing is scheduled, and the job has not ended")
        self.checker.everything_cleaned()

    @property
    def _is_idle(self) -> bool:
        """Whether all processes have ended and everything under way has happened."""
        return self._is_over and self.kernel.is_empty

    def _introduce(self) -> None:
        scenario, kernel = self.scenario, self.kernel
        if kernel.story is None:
            return
        kernel.tell("scenario", "handler {}, {}", scenario.mode.value, dict(scenario.settings))
        for edge in scenario.topology.edges:
            kernel.tell("scenario", "edge {} {}", edge.id, edge.partitioning.value.lower())
        for run in scenario.runs:
            kernel.tell("scenario", "run {} until {}", run.parallelism, run.ending.value)
        faults = ", ".join(sorted(fault.value for fault in scenario.faults)) or "none"
        kernel.tell("scenario", "faults until {} ms: {}", scenario.quiet_from_ms, faults)

    def _become_quiet(self) -> None:
        self.kernel.tell("world", "no more faults from here on")
        self.world.become_quiet()

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
        given = None if self._given is None else self._given.location
        driver = SimDriver(self.world, job, self._run, given, self._incarnation)
        driver.on_end = lambda status: self._on_end(driver, status)
        self._driver = driver
        self.kernel.tell("world", "{} starts", driver.process.name)
        driver.start()

    def _on_end(self, driver: SimDriver, status: JobStatus) -> None:
        if driver is not self._driver:
            return
        self.kernel.tell("world", "{} ends {}", driver.job, status.name)
        if status is JobStatus.FAILED and self.world.broken is not None:
            self.kernel.after(self.kernel.between(0, 600), None, self._mend, driver)
            return
        if status is JobStatus.FAILED and _PARTLY_FINISHED in driver.cause and self._has_cut_edge:
            # Subtasks of a forward edge end in pairs, which there are no longer: no rule could restore that.
            self.kernel.cover("restore refused: subtasks ended before their forward edge was cut")
            self._is_over = True
            return
        ended = Journal(self.world.storage.records[driver.job].values()).ended
        if status is JobStatus.SUSPENDED and ended is not None:
            # One that came back from a long pause claimed the job before this one had, and brought it to its end.
            self.kernel.cover("ended by an older driver")
            status = ended
        if status is JobStatus.SUSPENDED or status is JobStatus.FAILED:
            raise self.kernel.violated(f"the job ended {status.name}: {driver.cause}")
        self.kernel.after(0, None, self._after_end, driver.job, status)

    @property
    def _has_cut_edge(self) -> bool:
        """Whether the ends of a forward edge have different numbers of subtasks in this run."""
        parallelism = self._run.parallelism
        return any(
            edge.partitioning is Partitioning.FORWARD and parallelism[edge.source] != parallelism[edge.target]
            for edge in self.scenario.topology.edges
        )

    def _mend(self, driver: SimDriver) -> None:
        """The user mends the code and starts the job again under the same id."""
        self.kernel.tell("user", "mends {}", self.world.broken)
        self.world.broken = None
        self._replace(driver)

    def _after_end(self, job: str, status: JobStatus) -> None:
        ending, latest = self._run.ending, self._latest(job)
        stop = latest if latest is not None and latest.kind.is_synchronous else None
        if stop is not None and status is JobStatus.FINISHED:
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
            self._given = self._savepoints[0] if self._savepoints else latest
        self._next_run()

    def _latest(self, job: str) -> Snapshot | None:
        """What the journal names; a directory may also hold leftovers of a fenced driver."""
        latest = Journal(self.world.storage.records[job].values()).latest
        return None if latest is None else self._read(str(latest.location))

    def _read(self, location: str) -> Snapshot | None:
        data = self.world.storage.objects.get(f"{location}/_metadata")
        return None if data is None else snapshot_metadata.decode(data, location)

    # The user.

    def _act(self, run_number: int) -> None:
        """Take the user's next action in this run, and come back later."""
        driver = self._driver
        if self._is_over or run_number != self._run_number or driver is None:
            return
        ending, wanted = self._run.ending, _SAVEPOINTS_WANTED.get(self._run.ending, 0)
        if ending in (Ending.STOP, Ending.STOP_DRAIN):
            self._request(driver, SnapshotKind.SYNC_SAVEPOINT, drain=ending is Ending.STOP_DRAIN)
        elif len(self._savepoints) < wanted:
            self._request(driver, SnapshotKind.SAVEPOINT, drain=False)
        else:
            self.kernel.tell("user", "cancels")
            self.kernel.after(0, driver.process, driver.cancel)
        self._patience_ms *= USER_PATIENCE_GROWTH
        self.kernel.after(int(self._patience_ms), None, self._act, run_number)

    def _request(self, driver: SimDriver, kind: SnapshotKind, *, drain: bool) -> None:
        if driver.status is not JobStatus.RUNNING:
            return
        self._requests += 1
        name = f"user-{self._requests}"
        self.kernel.tell("user", "asks for {}", kind.value.lower())
        config = self.scenario.checkpoints(self._run)
        request = savepoint_request(name, config, self.kernel.now_ms, stop=kind.is_synchronous, drain=drain)

        def done(location: str | None) -> None:
            if driver is self._driver and location is not None and kind is SnapshotKind.SAVEPOINT:
                snapshot = self._read(location)
                assert snapshot is not None
                self._savepoints.append(snapshot)

        self.kernel.after(0, driver.process, driver.request, request, done)

    # Faults.

    def _strike(self, fault: Fault) -> None:
        driver = self._driver
        if self._is_over or driver is None or not driver.process.alive:
            return
        match fault:
            case Fault.SUBTASK_CRASH:
                self._crash_subtask(driver)
            case Fault.REGION_CRASH:
                self._crash_subtask(driver, fault)
                # Perhaps in the other region, while the first restarts.
                self.kernel.after(self.kernel.between(30, 600), None, lambda: self._crash_subtask(driver, fault))
            case Fault.SLOT_CRASH:
                self._crash_slot(driver)
            case Fault.DRIVER_CRASH:
                self._crash_driver(driver)
            case Fault.ZOMBIE_DRIVER:
                if driver.attempt > 0:
                    self._freeze_driver(driver)
            case Fault.ZOMBIE_SLOT:
                self._cut_slot(driver)
            case Fault.CLOCK_SET:
                self._set_clock(driver)
            case Fault.TWO_CRASHES:
                self._crash_subtask(driver, Fault.TWO_CRASHES)
                again = self._crash_slot if self.kernel.chance(0.5) else self._crash_subtask
                self.kernel.after(self.kernel.between(30, 400), None, lambda: again(driver, Fault.TWO_CRASHES))
            case Fault.BROKEN_CODE:
                vertices = [vertex for vertex in self.scenario.topology.vertices if vertex.role is not Role.SOURCE]
                self.world.broken = self.kernel.random.choice(vertices).id
                self._struck(fault, self.world.broken)
            case _:
                pass  # network, storage and the external system decide themselves when to fail

    def _struck(self, fault: Fault, whom: str) -> None:
        self.kernel.cover(f"fault: {fault.value}")
        self.kernel.tell("fault", "{}: {}", fault.value, whom)

    def _crash_subtask(self, driver: SimDriver, fault: Fault = Fault.SUBTASK_CRASH) -> None:
        tasks = driver.farm.running_tasks()
        if tasks:
            task = self.kernel.random.choice(tasks)
            self._struck(fault, str(task.execution))
            task.mailbox.post(_crash)

    def _live_slots(self, driver: SimDriver) -> list[SimSlot]:
        return [slot for slot in driver.farm.slots if slot.process.alive]

    def _crash_slot(self, driver: SimDriver, fault: Fault = Fault.SLOT_CRASH) -> None:
        """Kill an operator process, or its supervisor with it."""
        slots = self._live_slots(driver)
        if slots:
            slot = self.kernel.random.choice(slots)
            victim = slot.process
            if slot.child is not None and self.kernel.chance(0.6):
                victim = slot.child.process
            self._struck(fault, victim.name)
            victim.die()

    def _cut_slot(self, driver: SimDriver) -> None:
        slots = self._live_slots(driver)
        if slots:
            slot = self.kernel.random.choice(slots)
            self._struck(Fault.ZOMBIE_SLOT, slot.process.name)
            until_ms = self.kernel.now_ms + self.kernel.between(600, 4000)
            self.world.network.cut(slot.process, until_ms)
            if slot.child is not None:
                self.world.network.cut(slot.child.process, until_ms)

    def _set_clock(self, driver: SimDriver) -> None:
        """Set the wall clock of one machine, or of all, back or forward."""
        kernel = self.kernel
        children = [slot.child.process for slot in self._live_slots(driver) if slot.child is not None]
        process = None if kernel.chance(0.5) else kernel.random.choice([driver.process, *children])
        step_ms = kernel.between(1, CLOCK_STEP_MS) * kernel.random.choice((-1, 1))
        self._struck(Fault.CLOCK_SET, f"{'all' if process is None else process.name} by {step_ms} ms")
        if process is None:
            kernel.wall_ahead_ms += step_ms
        else:
            process.wall_ahead_ms += step_ms

    def _crash_driver(self, driver: SimDriver) -> None:
        self._struck(Fault.DRIVER_CRASH, driver.process.name)
        driver.process.die()
        for slot in driver.farm.slots:
            self.kernel.after(self.kernel.between(0, 600), None, slot.process.die)
        self.kernel.after(self.kernel.between(50, 600), None, self._replace, driver)

    def _freeze_driver(self, driver: SimDriver) -> None:
        self._struck(Fault.ZOMBIE_DRIVER, driver.process.name)
        frozen_ms = self.kernel.between(400, 2500)
        driver.process.frozen_until_ms = self.kernel.now_ms + frozen_ms
        self.kernel.after(self.kernel.between(50, 400), None, self._replace, driver)
        self.kernel.after(frozen_ms + self.kernel.between(600, 3000), None, self._bury, driver)

    def _replace(self, driver: SimDriver) -> None:
        if driver is self._driver:
            self._start_driver(driver.job)

    def _bury(self, driver: SimDriver) -> None:
        driver.process.die()
        for slot in driver.farm.slots:
            slot.process.die()


def _crash() -> None:
    raise RuntimeError("it crashed")
