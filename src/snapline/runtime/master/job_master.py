"""The job master: carries out the effects of the job's lifecycle, attempt after attempt, on one loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from random import Random, SystemRandom

from snapline.errors import FencedError, PeerError, SnaplineError, is_final
from snapline.graph.job_spec import JobSpec
from snapline.protocol import messages as m
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.job import lifecycle_events as j
from snapline.protocol.job.first_failure import NO_DETAILS, FailureDetails, FirstFailure
from snapline.protocol.job.lifecycle import JobLifecycle
from snapline.protocol.job.repeated_errors import has_moved
from snapline.protocol.job.restart_policy import RestartPolicy
from snapline.protocol.snapshot import Snapshot
from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master import job_recovery as r
from snapline.runtime.master.attempt_start import AttemptStart
from snapline.runtime.master.checkpoint_reports import CheckpointReports
from snapline.runtime.master.coordinator_shell import CoordinatorShell
from snapline.runtime.master.deployment import Deployment
from snapline.runtime.master.job_end import EndRecorder
from snapline.runtime.master.job_log import EventLog
from snapline.runtime.master.job_monitor import JobMonitor
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.master.master_calls import MasterCalls
from snapline.runtime.master.operator_coordinators import OperatorCoordinators
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.master.slots import Slots
from snapline.runtime.master.snapshot_requests import Requests
from snapline.runtime.master.source_ends import SourceEnds
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.named_timers import NamedTimers
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.runtime.wire.control_messages import Metrics, SourceEnded, TasksCancelled, ToMaster
from snapline.storage.cleaner import Cleaner
from snapline.types import ExecutionId, JobStatus, TaskStatus

NOTIFY_AGAIN_S = 5.0
"""Minimum pause between repeated notifications about the last completed checkpoint."""

_FAILED = (JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.FAILED)
_ACTIVE = (JobStatus.INITIALIZING, JobStatus.RUNNING)

_log = JobLogger(__name__)


class JobMaster:
    """One driver's side of one job. Other threads use only its public attributes. Calls `on_end` once, at the end."""

    def __init__(
        self,
        spec: JobSpec,
        storage: MasterStorage,
        cleaner: Cleaner,
        scheduler: Scheduler,
        calls: MasterCalls,
        generations: SlotGenerations,
        events: EventLog,
        on_end: Callable[[JobStatus], None],
        random: Random | None = None,
    ) -> None:
        self.status = JobStatus.CREATED
        self.attempt = 0
        self.failure = FirstFailure()
        self.requests = Requests()
        self.effects = EffectQueue()
        self._spec = spec
        self._storage = storage
        self._cleaner = cleaner
        self._scheduler = scheduler
        self._calls = calls
        self._events = events
        self._on_end = on_end
        self._random = random or SystemRandom()
        self._regions = spec.regions
        self._start = AttemptStart(spec, storage, scheduler, calls)
        policy = RestartPolicy.for_config(spec.restart)
        self._lifecycle = JobLifecycle(policy, spec.execution.same_error_limit, self._regions)
        self._memory = Carryover.fresh(spec.checkpoints, spec.monitoring.history)
        self._source_ends = SourceEnds(
            is_wanted=spec.takes_last_checkpoint,
            scheduler=scheduler,
            effects=self.effects,
            request=lambda request: self._coordinator_event(c.CheckpointRequested(request)),
        )
        self._end_recorder = EndRecorder(spec, storage, cleaner, scheduler, calls.journal, generations, self.failure)
        self._subtasks = r.all_subtasks(spec.plan)
        self.monitor = JobMonitor(spec, self._subtasks, self._memory, self.failure, events, scheduler)
        self._reports = CheckpointReports(spec.name, events, scheduler.time_s, self.monitor)
        self._recovery: r.Recovery | None = None
        self.coordinator: CoordinatorShell | None = None
        self._timers = NamedTimers(scheduler)
        self._notified_s = 0.0
        self._early_requests: list[TriggerRequest] = []
        self._fatal: str | None = None
        self._has_run = self._is_closed = self._is_let_go = False
        self._must_record = True
        self._slots: Slots
        self._deployment: Deployment

    def start(self, slots: Slots) -> None:
        """`slots` must report to this master and share its effects."""
        shared = None if self._storage.is_in_driver else self._storage.archive.shared_directory
        self._slots = slots
        self._deployment = Deployment(self._spec, self._scheduler, slots, shared, self)
        self._job_event(j.JobSubmitted())
        self._heartbeat()

    def close(self) -> None:
        """Stop everything that would happen by itself."""
        self._is_closed = True
        self._timers.cancel_all()
        if self.coordinator is not None:
            self.coordinator.close()
        self._source_ends.close()
        self._deployment.close()

    @property
    def repeats(self) -> int:
        """How often the last error of the job's code has happened since the last completed checkpoint."""
        return self._lifecycle.errors.count

    @property
    def coordinators_closed(self) -> list[Future[None]]:
        """Set on the loop when the operator coordinators of the last attempt are closed."""
        return [] if self.coordinator is None else self.coordinator.coordinators_closed

    @property
    def statistics(self) -> StatisticsSnapshot:
        return self._memory.statistics.snapshot()

    # User requests.

    def request(self, request: TriggerRequest, answer: Future[str]) -> None:
        """Take a snapshot once the job runs; `answer` gets its path or the error."""
        self.requests.add(request, answer)
        self._early_requests.append(request)
        if self._lifecycle.status is JobStatus.RUNNING:
            self._submit_early_requests()

    def _submit_early_requests(self) -> None:
        requests, self._early_requests = self._early_requests, []
        for request in requests:
            self._coordinator_event(c.CheckpointRequested(replace(request, timestamp_ms=self._scheduler.now_ms())))

    def cancel(self) -> None:
        self._job_event(j.CancelRequested())

    def suspend(self) -> None:
        self._is_let_go = True
        self._job_event(j.SuspendRequested())

    # Reports of slots.

    def slots_ready(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._events.add(f"attempt {self.attempt}: all slots ready, tasks deployed")
        self.monitor.slots_ready(addresses)
        self._deployment.slots_ready(addresses)

    def slot_failed(self, cause: str, log: str, slot: int | None, is_loss: bool) -> None:
        regions = self._lifecycle.unfinished(self._regions.in_slot(None if self._slots.is_doomed else slot))
        if regions and self._lifecycle.can_fail(regions):
            known = FailureDetails(log=log, lost_slot=slot if is_loss else None)
            self._job_event(j.FailureRequested(self._lifecycle.attempt, cause, regions=regions), known)
        elif is_loss:
            self._events.add(cause)  # a second report may say why
        else:
            self.failure_explained(cause, log, slot)

    def tasks_stopped(self, attempt: int) -> None:
        self._job_event(j.TasksStopped(attempt))

    def process_killed(self, slot: int) -> None:
        cause = f"the operator process of slot {slot} was killed, because tasks there did not stop in time"
        self.slot_failed(cause, "", slot, is_loss=True)

    def failure_explained(self, cause: str, log: str, slot: int | None) -> None:
        self._events.add(cause)
        level = logging.WARNING if self.failure.explained(cause, log, slot) else logging.INFO
        self.monitor.failure_explained()
        _log.log(level, "job %s: %s", self._spec.name, cause, attempt=self.attempt)

    def slots_failed(self, cause: str, is_fatal: bool) -> None:
        if is_fatal:
            self._fatal = cause
            self._must_record = False  # the environment is at fault, not the job: it can continue once that is fixed
        if is_fatal and self._lifecycle.status is JobStatus.INITIALIZING:
            self._job_event(j.PreparationFailed(cause, recoverable=False))
        elif self._lifecycle.status in _ACTIVE or self._lifecycle.has_survivors:
            self._job_event(j.FailureRequested(self._lifecycle.attempt, cause, recoverable=not is_fatal))
        else:
            self.failure_explained(cause, "", None)

    def process_unable(self, cause: str) -> None:
        # A job that ran before can run again, once the storage or whatever it lacks is back.
        self.slots_failed(cause, is_fatal=not self._has_run)

    def process_gone(self, slot: int) -> None:
        self.monitor.process_gone(slot)
        if self.coordinator is not None and self._lifecycle.status in _ACTIVE:
            self.coordinator.slot_lost(slot)
        self._deployment.process_gone(slot)

    def process_said(self, slot: int, message: ToMaster) -> None:
        match message:
            case m.TaskReport():
                self._check_sender(slot, message.execution)
                self._task_reported(message)
            case m.Acknowledge() | m.Decline() | m.CheckpointMeasured():
                self._check_sender(slot, message.execution)
                self._coordinator_event(message)
            case m.EventToCoordinator(execution):
                self._check_sender(slot, execution)
                if self.coordinator is not None and self.coordinator.tasks.executions.is_current(execution):
                    self.coordinator.event_received(message)
            case SourceEnded(execution):
                self._check_sender(slot, execution)
                if self._lifecycle.executions.is_current(execution):
                    self._source_ends.source_ended(execution.subtask)
            case m.OperatorEventReceived():
                self._coordinator_event(message)
            case TasksCancelled(attempt, regions):
                self._deployment.tasks_cancelled(slot, attempt, regions)
            case Metrics(tasks):
                self.monitor.memory_reported(slot, message.memory_bytes, message.state_memory_bytes)
                for metrics in tasks:
                    self._check_sender(slot, metrics.execution)
                    if self._lifecycle.executions.is_current(metrics.execution):
                        self.monitor.metrics_reported(metrics)
            case _:
                raise PeerError(f"an operator process may not send {type(message).__name__}")

    def _check_sender(self, slot: int, execution: ExecutionId) -> None:
        if execution.subtask not in self._subtasks or execution.subtask.index != slot:
            raise PeerError(f"slot {slot} reports for {execution}, which it does not run")

    def _task_reported(self, report: m.TaskReport) -> None:
        execution, status = report.execution, report.status
        self.monitor.task_reported(report)
        is_current = self._lifecycle.is_current(execution)
        if is_current and status is not TaskStatus.FAILED:
            self._coordinator_event(c.TaskStatusChanged(execution.subtask, status))
        elif self.coordinator is not None and self.coordinator.tasks.executions.is_current(execution):
            self.coordinator.subtask_failed(execution.subtask, report.error)
        if report.is_final and is_current:
            # Another version of the job, another setting or a backup may fit: leave everything for it.
            self._must_record = False
        self._job_event(report, FailureDetails(report.trace, report.log))

    # Reports of coordinators.

    def request_completed(self, request: TriggerRequest, snapshot: Snapshot) -> None:
        self._reports.completed(snapshot)
        self.requests.completed(request, snapshot)
        if snapshot.kind.is_synchronous:
            self._job_event(j.StopSavepointCompleted(snapshot))
        elif not snapshot.kind.is_savepoint:
            start = None if self._recovery is None else self._recovery.snapshot
            sources = {region: self._spec.sources_of({region}) for region in self._regions.all}
            if moved := frozenset(region for region in sources if has_moved(start, snapshot, sources[region])):
                self._job_event(j.CheckpointSaved(moved))
            self._source_ends.checkpoint_completed()

    def request_failed(self, failed: c.FailRequest) -> None:
        request, reason, message = failed.request, failed.reason, failed.message
        self._reports.failed(failed.checkpoint_id, reason, message)
        self.requests.failed(request, reason, message)
        if request.is_last:
            self._source_ends.checkpoint_failed()

    def failure_requested(
        self, attempt: int, cause: str, identity: ErrorIdentity | None = None, vertex: str | None = None
    ) -> None:
        regions = None if vertex is None else frozenset({self._regions.of(vertex)})
        if regions is not None and not regions <= self._lifecycle.down:
            attempt = self._lifecycle.attempt  # its coordinator goes on, whatever attempt has begun since
        self._job_event(j.FailureRequested(attempt, cause, identity=identity, regions=regions))

    def storage_lost(self, attempt: int, cause: str) -> None:
        if attempt == self._lifecycle.attempt and self._lifecycle.status in _ACTIVE:
            self._must_record = False  # or the directory would be made again
            self._job_event(j.FailureRequested(attempt, cause, recoverable=False))

    def publication_fenced(self, newest_attempt: int) -> None:
        self._job_event(j.DriverFenced(newest_attempt))

    # The job's lifecycle.

    def _job_event(self, event: j.JobEvent, known: FailureDetails = NO_DETAILS) -> None:
        if self._is_closed:
            return
        before = self._lifecycle.status
        self._lifecycle.is_stopping = self.coordinator is not None and self.coordinator.is_stopping
        effects = self._lifecycle.handle(event, self._scheduler.now_ms(), self._random.uniform(-1.0, 1.0))
        after = self._lifecycle.status
        if after is not before:
            self._status_changed(before, after, known)
        self.effects.add(self._carry_out, effects)

    def _status_changed(self, before: JobStatus, after: JobStatus, known: FailureDetails) -> None:
        self._events.add(f"{before.value} -> {after.value}")
        cause = self._lifecycle.cause
        if (before in _ACTIVE and after in _FAILED) or (before, after) == (JobStatus.RESTARTING, JobStatus.FAILING):
            self.failure.failed(cause, known)
            self.monitor.attempt_failed(self._lifecycle.attempt, self.repeats, self._lifecycle.errors.note)
        elif after is JobStatus.SUSPENDED:
            self.failure.replaced(cause)
            log = _log.info if self._is_let_go else _log.warning
            log("job %s is suspended: %s", self._spec.name, cause, attempt=self.attempt)
        # Nobody may hear of an end before it is recorded.
        if not after.is_globally_terminal and after is not JobStatus.SUSPENDED:
            self.status = after
            self.monitor.status_changed(after)

    def _carry_out(self, effect: j.JobEffect) -> None:
        match effect:
            case j.ClaimAttempt():
                self._claim()
            case j.PrepareAttempt(attempt, regions):
                self._start.prepare(attempt, regions, self._prepared, self._preparation_failed)
            case j.DeployTasks(attempt, subtasks):
                assert self._recovery is not None
                timeout_ms = self._spec.execution.start_timeout_ms
                self._timers.set("deployment", timeout_ms, self._deployment_timed_out, attempt)
                self._deployment.deploy(self._recovery, subtasks)
            case j.StartCheckpoints(attempt, hold_ms):
                self._has_run = True
                self.monitor.attempt_runs(attempt)
                self._coordinator_event(c.JobRunning(self._random.random(), hold_ms))
                self._reports.running()
                self._submit_early_requests()
                self._source_ends.running()
            case j.StopCheckpoints(_, shutdown, regions):
                self._reports.left()
                self._source_ends.left()
                self._coordinator_event(c.JobLeftRunning(shutdown, self._regions.part(regions)))
            case j.CancelTasks(attempt, regions):
                self._deployment.cancel(attempt, regions)
            case j.ScheduleRestart(delay_ms, regions):
                trace = self.failure.trace and f" after\n{self.failure.trace}"
                self._events.add(text := f"restarting {self._regions.restart_text(regions)}")
                _log.info("job %s: %s in %d ms%s", self._spec.name, text, delay_ms, trace, attempt=self.attempt)
                self._slots.warm_up()
                self._timers.set("restart", delay_ms, self._job_event, j.RestartDue())
            case j.StopFailed(snapshot, cause):
                self.requests.stop_failed(snapshot, cause)
            case j.EndJob(status):
                self._end(status)

    def _coordinator_event(self, event: c.CoordinatorEvent) -> None:
        if self.coordinator is not None and not self._is_closed:
            self.coordinator.feed(event)

    def _heartbeat(self) -> None:
        self._timers.set("heartbeat", self._spec.execution.heartbeat_interval_ms, self._heartbeat)
        self._slots.beat()
        self._reports.look(self._memory.schedule.interval_ms)
        now_s = self._scheduler.time_s()
        if now_s - self._notified_s >= NOTIFY_AGAIN_S:
            self._notified_s = now_s
            self._coordinator_event(c.HeartbeatDue())

    def _deployment_timed_out(self, attempt: int) -> None:
        is_awaited = self._lifecycle.status is JobStatus.INITIALIZING and self._lifecycle.attempt == attempt
        if is_awaited and not self._slots.start_timed_out():
            self._job_event(j.DeploymentTimedOut(attempt))

    # A new attempt: claimed, then prepared.

    def _claim(self) -> None:
        if self._fatal is not None:
            self._job_event(j.PreparationFailed(self._fatal, recoverable=False))
            return
        self._start.claim(self._lifecycle.attempt, self._claimed, self._preparation_failed)

    def _claimed(self, found: r.Claim) -> None:
        journal = found.journal
        self.monitor.claimed(journal.attempt, is_ours=found.is_ours)
        if journal.is_closed and journal.ended is not None:
            r.warn_of_end(self._spec, journal.ended)
            self._job_event(j.JobHadEnded(journal.ended, found.stop))
        elif found.is_ours:
            self.attempt = max(self.attempt, journal.attempt)
            if past := found.earlier_failure(self._spec.checkpoints):
                self._events.add(past)
                _log.warning("job %s: %s", self._spec.name, past, attempt=journal.attempt)
            self._job_event(j.AttemptClaimed(journal.attempt))
        else:
            self._job_event(j.DriverFenced(journal.attempt))

    def _preparation_failed(self, error: Exception) -> None:
        if isinstance(error, FencedError):
            self._job_event(j.DriverFenced(error.current))
            return
        if is_final(error) and self._lifecycle.status is JobStatus.INITIALIZING:
            # Another version of the job or a backup may fit: leave everything for it.
            self._must_record = False
        if not isinstance(error, SnaplineError):
            _log.error("preparing an attempt failed unexpectedly", exc_info=error, attempt=self.attempt)
        text = str(error) if isinstance(error, SnaplineError) else f"{type(error).__name__}: {error}"
        self._job_event(j.PreparationFailed(text, not is_final(error), ErrorIdentity.of(error, "driver")))

    def _prepared(self, recovery: r.Recovery, coordinators: OperatorCoordinators) -> None:
        if self._lifecycle.status is not JobStatus.INITIALIZING or self._lifecycle.attempt != recovery.attempt:
            coordinators.close(finish=False)
            return
        self._recovery = recovery
        vertices, before = recovery.vertices(self._regions), self.coordinator
        starting = frozenset(subtask for subtask in self._subtasks if subtask.vertex in vertices)
        sources = (task for task in starting - recovery.plan.finished if task.vertex in self._spec.sources)
        self._source_ends.prepared(sources, again=starting)
        self.monitor.deployed(recovery.attempt, starting, recovery.plan.finished)
        if before is not None and recovery.regions is not None:
            before.hand_over(coordinators, vertices)
        elif before is not None:
            before.close()
        self.coordinator = CoordinatorShell(
            self._spec,
            r.make_coordinator(self._spec, recovery, self._memory, None if before is None else before.tasks),
            coordinators,
            self._storage,
            self._cleaner,
            self._scheduler,
            self._calls,
            self.effects,
            self._deployment,
            self,
        )
        self.coordinator.start()
        r.announce(self._spec.name, recovery, self._memory.statistics, self._events, self._scheduler.wall_ms())
        self._job_event(j.AttemptPrepared(starting, recovery.plan.finished))

    # The end.

    def _end(self, status: JobStatus) -> None:
        if not self._must_record or not status.is_globally_terminal:
            self._on_end(status)
            return
        retained = self.coordinator.retained if self.coordinator is not None else None
        self._end_recorder.record(self._lifecycle.attempt, status, retained, self._on_end)
