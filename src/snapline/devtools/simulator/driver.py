"""The shell of a driver: carries out what the job's lifecycle orders, one attempt after the other."""

from __future__ import annotations

from collections.abc import Callable

from snapline.config import ExponentialDelay
from snapline.devtools.simulator.archive import Archive
from snapline.devtools.simulator.checkpointing import Checkpointing
from snapline.devtools.simulator.cleaning import Cleaning
from snapline.devtools.simulator.deployment import Deployment, Slot
from snapline.devtools.simulator.kernel import Process
from snapline.devtools.simulator.recovery import Recovery, cover_recovery, make_coordinator, plan_recovery
from snapline.devtools.simulator.scenario import Run
from snapline.devtools.simulator.splits import Splits
from snapline.devtools.simulator.task import SimTask
from snapline.devtools.simulator.world import World
from snapline.errors import RestoreError, StorageError
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.carryover import CoordinatorMemory
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.job import lifecycle as j
from snapline.protocol.job.restart_policy import RestartPolicy
from snapline.protocol.journal import Journal, RecordKind
from snapline.protocol.snapshot import Snapshot
from snapline.types import ClaimMode, ExecutionId, JobStatus, SubtaskId, TaskStatus

HEARTBEAT_MS = 40
DEPLOY_TIMEOUT_MS = 400


class Driver:
    """One driver process of one job. `given` is the snapshot the user told it to start from."""

    def __init__(self, world: World, job: str, run: Run, given: Snapshot | None, incarnation: int) -> None:
        self.job = job
        self.process = Process(f"driver-{job}-{incarnation}")
        self.lifecycle = j.JobLifecycle(
            RestartPolicy.for_config(ExponentialDelay(initial_backoff="5ms", max_backoff="40ms", reset_threshold="1s"))
        )
        self.on_request_done: Callable[[TriggerRequest, Snapshot | None], None] = lambda _request, _snapshot: None
        self.on_end: Callable[[JobStatus, Snapshot | None], None] = lambda _status, _stop: None
        self._world = world
        self._kernel = world.kernel
        self._run = run
        self._given = given
        self._memory = CoordinatorMemory.fresh(world.scenario.checkpoints)
        self._archive = Archive(world.storage, self.process, job)
        self._deployment = Deployment(world, job, run, self.process, self)
        self._splits = Splits(world, self.process, self._deployment)
        self._recovery: Recovery | None = None
        self._checkpointing: Checkpointing | None = None

    def start(self) -> None:
        self._job_event(j.JobSubmitted())
        self._kernel.after(HEARTBEAT_MS, self.process, self._heartbeat)

    @property
    def status(self) -> JobStatus:
        return self.lifecycle.status

    @property
    def attempt(self) -> int:
        return self.lifecycle.attempt

    @property
    def slots(self) -> list[Slot]:
        return self._deployment.slots

    def running_tasks(self) -> list[SimTask]:
        return self._deployment.running_tasks(self.attempt)

    # What the user and the faults do.

    def request(self, request: TriggerRequest) -> None:
        """Ask for a snapshot; `on_request_done` is told what becomes of it."""
        if self._checkpointing is None:
            self.on_request_done(request, None)
        else:
            self._coordinator_event(c.CheckpointRequested(request))

    def cancel(self) -> None:
        self._job_event(j.CancelRequested())

    def slot_lost(self, slot: Slot) -> None:
        """Heartbeats of a slot have stopped."""
        if slot in self.slots:
            self.slots.remove(slot)
            self._job_event(j.FailureRequested(self.attempt, f"{slot.process.name} is lost"))

    # What subtasks report.

    def task_reported(self, execution: ExecutionId, status: TaskStatus, error: str) -> None:
        if execution.attempt == self.attempt and status is not TaskStatus.FAILED:
            self._coordinator_event(c.TaskStatusChanged(execution.subtask, status))
        self._job_event(j.TaskReported(execution, status, error))

    def checkpoint_answered(self, event: c.CoordinatorEvent) -> None:
        self._coordinator_event(event)

    def split_requested(self, execution: ExecutionId) -> None:
        if self._checkpointing is not None and execution.attempt == self._checkpointing.attempt:
            self._coordinator_event(self._splits.assign(execution.subtask))

    def tasks_stopped(self, attempt: int) -> None:
        self._job_event(j.TasksStopped(attempt))

    # What coordinators report.

    def request_completed(self, request: TriggerRequest, snapshot: Snapshot) -> None:
        if snapshot.kind.is_synchronous:
            self._job_event(j.StopSavepointCompleted(snapshot))
        self._world.checker.reported_complete(self.job, snapshot)
        self.on_request_done(request, snapshot)

    def request_failed(self, request: TriggerRequest) -> None:
        self.on_request_done(request, None)

    def failure_requested(self, attempt: int, cause: str) -> None:
        self._job_event(j.FailureRequested(attempt, cause))

    def publication_fenced(self, newest_attempt: int) -> None:
        self._job_event(j.DriverFenced(newest_attempt))

    # The job's lifecycle.

    def _job_event(self, event: j.JobEvent) -> None:
        if not self.process.alive:
            return
        jitter = self._kernel.random.random() * 2 - 1
        before = self.lifecycle.status
        effects = self.lifecycle.handle(event, self._kernel.now_ms, jitter)
        if self.lifecycle.status is not before:
            self._kernel.tell(self.process.name, "job {}: {}", self.lifecycle.status.name, self.lifecycle.cause)
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: j.JobEffect) -> None:
        match effect:
            case j.ClaimAttempt():
                self._archive.claim(self.attempt, self._claimed, self._preparation_failed)
            case j.PrepareAttempt(attempt):
                self._prepare(attempt)
            case j.DeployTasks(attempt, subtasks):
                assert self._recovery is not None
                self._deployment.deploy(self._recovery, subtasks)
                self._kernel.after(DEPLOY_TIMEOUT_MS, self.process, self._job_event, j.DeploymentTimedOut(attempt))
            case j.StartCheckpoints():
                self._kernel.tell(self.process.name, "attempt {} runs", self.attempt)
                self._coordinator_event(c.JobRunning(self._kernel.random.random()))
            case j.StopCheckpoints(_, shutdown):
                self._coordinator_event(c.JobLeftRunning(shutdown))
            case j.CancelTasks(attempt):
                self._deployment.cancel(attempt)
            case j.ScheduleRestart(delay_ms):
                self._kernel.after(delay_ms, self.process, self._job_event, j.RestartDue())
            case j.StopFailed():
                self._kernel.cover("stop failed after its savepoint")
            case j.EndJob(status, _, stop):
                self._end(status, stop)

    def _coordinator_event(self, event: c.CoordinatorEvent) -> None:
        if self._checkpointing is not None and self.process.alive:
            self._checkpointing.feed(event)

    def _heartbeat(self) -> None:
        """Repeat what may have been lost, both ways."""
        self._coordinator_event(c.HeartbeatDue())
        self._deployment.repeat_reports(self.attempt)
        self._kernel.after(HEARTBEAT_MS, self.process, self._heartbeat)

    # A new attempt: claimed, then prepared.

    def _claimed(self, journal: Journal, is_ours: bool) -> None:
        if journal.ended is not None:
            self._had_ended(journal, journal.ended)
        elif is_ours:
            self._kernel.tell(self.process.name, "claims attempt {}", journal.attempt)
            self._job_event(j.AttemptClaimed(journal.attempt))
        else:
            self._job_event(j.DriverFenced(journal.attempt))

    def _had_ended(self, journal: Journal, status: JobStatus) -> None:
        self._kernel.cover("job had ended under an earlier driver")
        latest = journal.latest
        stops = [latest] if latest is not None and latest.kind is RecordKind.STOP else []
        found = self._archive.read_snapshots(stops, ended=True)
        self._job_event(j.JobHadEnded(status, found[0] if found else None))

    def _preparation_failed(self, error: StorageError) -> None:
        self._job_event(j.PreparationFailed(str(error)))

    def _prepare(self, attempt: int) -> None:
        def done(journal: Journal, snapshots: list[Snapshot]) -> None:
            if journal.attempt != attempt:
                self._job_event(j.DriverFenced(journal.attempt))
                return
            try:
                self._recover(attempt, snapshots, journal.prepared_until)
            except RestoreError as error:
                self._job_event(j.PreparationFailed(str(error), recoverable=False))
            except StorageError as error:
                self._preparation_failed(error)

        self._archive.recover(attempt, done, self._preparation_failed)

    def _recover(self, attempt: int, own: list[Snapshot], prepared_until: int) -> None:
        """Make everything ready for the subtasks to start from the restored state."""
        world, scenario, run, given = self._world, self._world.scenario, self._run, self._given
        recovery = plan_recovery(scenario, run, attempt, own, given, prepared_until)
        self._recovery = recovery
        if given is not None and recovery.is_from_given:
            self._archive.read_metadata(given.location)
        has_given = given is not None and self._archive.has_metadata(given)
        coordinator = make_coordinator(scenario, run, recovery, self._memory, has_given=has_given)
        self._checkpointing = Checkpointing(
            self._kernel,
            self.process,
            coordinator,
            self._archive,
            self._deployment,
            self._splits,
            self,
            ids_after=0 if given is None else given.id,
        )
        self._splits.restore(recovery, self._archive)
        cover_recovery(self._kernel, run, recovery)
        world.checker.attempt_started(self.job, attempt, recovery.snapshot)
        subtasks = frozenset(
            SubtaskId(vertex.id, index)
            for vertex in scenario.topology.vertices
            for index in range(run.parallelism[vertex.id])
        )
        self._job_event(j.AttemptPrepared(subtasks, recovery.finished))

    # The end.

    def _end(self, status: JobStatus, stop: Snapshot | None) -> None:
        self._kernel.cover(f"job {status.value}")

        def leave() -> None:
            self.on_end(status, stop)
            self.process.alive = False
            self._deployment.kill()

        if not status.is_globally_terminal:
            leave()
            return
        claimed = self._given if self._run.claim_mode is ClaimMode.CLAIM else None
        config = self._world.scenario.checkpoints
        cleaning = Cleaning(self.job, self._archive, self._world.checker, config, claimed, self._retained)
        cleaning.clean(self.attempt, status, leave)

    def _retained(self) -> tuple[Snapshot, ...] | None:
        return self._checkpointing.retained if self._checkpointing is not None else None
