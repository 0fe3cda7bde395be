"""A simulated driver: hosts the production job master and observes it for the checkers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.kernel_scheduler import KernelScheduler
from snapline.devtools.simulator.scenario import Run
from snapline.devtools.simulator.sim_job import make_shipment, make_spec
from snapline.devtools.simulator.sim_storage import SimJournal
from snapline.devtools.simulator.slot_farm import SlotFarm
from snapline.devtools.simulator.world import World
from snapline.errors import StorageError
from snapline.protocol.coordinator.coordinator_events import FailRequest
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.job.first_failure import FailureDetails
from snapline.protocol.job.lifecycle import JobLifecycle
from snapline.protocol.messages import TaskReport
from snapline.protocol.snapshot import Snapshot
from snapline.runtime.master.job_log import EventLog
from snapline.runtime.master.job_master import JobMaster
from snapline.runtime.master.job_recovery import Recovery
from snapline.runtime.master.job_storage import open_storage
from snapline.runtime.master.master_calls import MasterCalls
from snapline.runtime.master.operator_coordinators import OperatorCoordinators
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.master.slots import Slots
from snapline.runtime.wire.credentials import Credentials
from snapline.storage.cleaner import Cleaner
from snapline.types import JobStatus

CLEANER_THREADS = 2
OPEN_AGAIN_MS = 100


class SimDriver:
    """One driver process of one job. `given` is the location of the snapshot the user starts from, or None."""

    def __init__(self, world: World, job: str, run: Run, given: str | None, incarnation: int) -> None:
        self.job = job
        self.process = Process(f"driver-{job}-{incarnation}")
        self.on_end: Callable[[JobStatus], None] = lambda _status: None
        self.master: ObservedMaster | None = None
        self._world = world
        self._kernel = world.kernel
        self._run = run
        self._scheduler = KernelScheduler(world.kernel, self.process)
        self._spec = make_spec(world, world.scenario, job, run, given)
        self._slots: Slots
        shipment = make_shipment(world, world.scenario, self._spec)
        self.farm = SlotFarm(world, self.process, shipment, lambda: self._slots)

    def start(self) -> None:
        self._kernel.spawn(self.process, "driver", self._open)

    @property
    def status(self) -> JobStatus:
        return JobStatus.CREATED if self.master is None else self.master.lifecycle.status

    @property
    def attempt(self) -> int:
        return 0 if self.master is None else self.master.lifecycle.attempt

    @property
    def cause(self) -> str:
        return "" if self.master is None else self.master.lifecycle.cause

    def _open(self) -> None:
        """Retry until the storage opens, then start the master."""
        journal = SimJournal(self._world.storage, self.job)
        while True:
            try:
                storage = open_storage(
                    self._spec, self._world.objects, journal, token=self.process.name, sleep=self._sleep
                )
                break
            except StorageError as error:
                self._kernel.tell(self.process.name, "storage cannot be opened: {}", error)
                self._kernel.sleep(OPEN_AGAIN_MS)
        spec, scheduler = self._spec, self._scheduler
        events = EventLog(scheduler.wall_ms)
        calls = MasterCalls.of(scheduler)
        cleaner = Cleaner(storage.archive, scheduler.executor(CLEANER_THREADS, "cleaner"), retry_pause_s=0)
        generations = SlotGenerations(scheduler, spec, self.farm, self._provider_failed)
        master = ObservedMaster(
            spec, storage, cleaner, scheduler, calls, generations, events, self._end, self._kernel.random
        )
        master.observe(self._world, self.job, self._run, self.process)
        self._slots = Slots(
            spec.plan.slots, spec.execution, scheduler, generations, self._probe, master, master.effects, events
        )
        self.master = master
        scheduler.post(master.start, self._slots)

    def _sleep(self, seconds: float) -> None:
        self._kernel.sleep(round(seconds * 1000))

    def _provider_failed(self, generation: int, error: str, is_fatal: bool) -> None:
        self._slots.provider_failed(generation, error, is_fatal)

    def _probe(
        self, address: tuple[str, int], slot: int, credentials: Credentials, done: Callable[[str | None], None]
    ) -> None:
        del slot, credentials
        plane = self._world.data_network.planes[address[1]]
        answer = None if plane.process.alive else "connection refused"
        self._scheduler.call_later(self._kernel.between(1, 20) / 1000, done, answer)

    # User actions.

    def request(self, request: TriggerRequest, done: Callable[[str | None], None]) -> None:
        """Request a snapshot; `done` gets its location, or None."""
        answer: Future[str] = Future()
        answer.add_done_callback(lambda over: done(None if over.exception() is not None else over.result()))
        if self.master is not None:
            self.master.request(request, answer)

    def cancel(self) -> None:
        if self.master is not None:
            self.master.cancel()

    # The end.

    def _end(self, status: JobStatus) -> None:
        assert self.master is not None
        self._kernel.cover(f"job {status.value}")
        self.master.close()
        self.master.requests.ended(status)
        self.on_end(status)
        self._slots.close(self.process.die, has_ended=status is not JobStatus.SUSPENDED)


class ObservedMaster(JobMaster):
    """A master that reports what it does to the checkers."""

    def observe(self, world: World, job: str, run: Run, process: Process) -> None:
        self._world = world
        self._kernel: Kernel = world.kernel
        self._job = job
        self._run = run
        self._process = process
        self._attempts = {vertex.id: 0 for vertex in self._spec.plan.vertices}

    @property
    def lifecycle(self) -> JobLifecycle:
        return self._lifecycle

    def request_completed(self, request: TriggerRequest, snapshot: Snapshot) -> None:
        kind = snapshot.kind.value
        self._kernel.cover(f"completed: {kind}")
        self._kernel.tell(self._process.name, "{} {} is complete", kind.lower(), snapshot.id)
        self._world.checker.reported_complete(self._job, snapshot)
        super().request_completed(request, snapshot)

    def request_failed(self, failed: FailRequest) -> None:
        reason = failed.reason.value
        self._kernel.cover(f"failed: {reason}")
        self._kernel.tell(self._process.name, "{} failed: {} {}", failed.request.name, reason, failed.message)
        super().request_failed(failed)

    def _task_reported(self, report: TaskReport) -> None:
        lifecycle = self._lifecycle
        before = (lifecycle.attempt, lifecycle.status, dict(lifecycle._tasks))
        is_stale = report.execution.attempt != self._attempts[report.execution.subtask.vertex]
        super()._task_reported(report)
        if is_stale and before != (lifecycle.attempt, lifecycle.status, lifecycle._tasks):
            raise self._kernel.violated(f"attempt {before[0]} accepts a report of {report.execution}")
        if lifecycle.errors.count > (self._spec.execution.same_error_limit or 0):
            raise self._kernel.violated(f"the same error came {lifecycle.errors.count} times: {lifecycle.cause}")

    def _status_changed(self, before: JobStatus, after: JobStatus, known: FailureDetails) -> None:
        self._kernel.tell(self._process.name, "job {}: {}", after.name, self._lifecycle.cause)
        super()._status_changed(before, after, known)

    def _claimed(self, *claimed: Any) -> None:
        super()._claimed(*claimed)
        if self._lifecycle.attempt:
            self._kernel.tell(self._process.name, "claims attempt {}", self._lifecycle.attempt)

    def _prepared(self, recovery: Recovery, coordinators: OperatorCoordinators) -> None:
        if self._lifecycle.status is JobStatus.INITIALIZING and self._lifecycle.attempt == recovery.attempt:
            cover_recovery(self._kernel, self._run, recovery)
            vertices = recovery.vertices(self._regions)
            self._attempts.update(dict.fromkeys(vertices, recovery.attempt))
            self._world.checker.attempt_started(self._job, recovery.attempt, recovery.snapshot, vertices)
        super()._prepared(recovery, coordinators)


def cover_recovery(kernel: Kernel, run: Run, recovery: Recovery) -> None:
    """Count which kind of recovery this is."""
    start = recovery.snapshot
    if recovery.regions is not None:
        kernel.cover("restore: some regions only")
    if start is None:
        kernel.cover("restore: from the beginning")
        return
    if recovery.given is not None and start.location == recovery.given.location:
        kind = "savepoint" if start.kind.is_savepoint else "checkpoint of another run"
        kernel.cover(f"restore: {kind}, {run.claim_mode.value}")
    else:
        kind = "own stop savepoint" if start.kind.is_savepoint else "own latest checkpoint"
        kernel.cover(f"restore: {kind}")
    has_in_flight = any(
        part.inputs or part.outputs for state in start.operators.values() for part in state.subtasks.values()
    )
    is_rescaled = any(
        state.parallelism != run.parallelism[uid.partition("/")[0]] for uid, state in start.operators.items()
    )
    if is_rescaled:
        kernel.cover("restore: rescaled with in-flight data" if has_in_flight else "restore: rescaled")
    elif has_in_flight:
        kernel.cover("restore: with in-flight data")
    if any(state.fully_finished or state.is_partly_finished for state in start.operators.values()):
        kernel.cover("restore: with finished tasks")
