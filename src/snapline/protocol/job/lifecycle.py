"""The life of a job: attempts, failures, restarts of the whole job or of regions, and the ways it ends."""

from __future__ import annotations

from collections.abc import Iterable

from snapline.protocol.executions import Executions
from snapline.protocol.job.lifecycle_events import (
    AttemptClaimed,
    AttemptPrepared,
    CancelRequested,
    CancelTasks,
    CheckpointSaved,
    ClaimAttempt,
    DeploymentTimedOut,
    DeployTasks,
    DriverFenced,
    EndJob,
    FailureRequested,
    JobEffect,
    JobEvent,
    JobHadEnded,
    JobSubmitted,
    PreparationFailed,
    PrepareAttempt,
    RestartDue,
    ScheduleRestart,
    StartCheckpoints,
    StopCheckpoints,
    StopFailed,
    StopSavepointCompleted,
    SuspendRequested,
    TasksStopped,
)
from snapline.protocol.job.regions import Regions
from snapline.protocol.job.repeated_errors import RepeatedErrors
from snapline.protocol.job.restart_policy import RestartPolicy
from snapline.protocol.machine import Story, TransitionTable, recorded
from snapline.protocol.messages import TaskReport
from snapline.protocol.snapshot import Snapshot
from snapline.types import ExecutionId, JobStatus, SubtaskId, TaskStatus

HOLD_MARGIN_MS = 500
"""After an error of the job's code, checkpoints wait until the attempt has outlived the failed one by this and more."""

_FINISHED = TaskStatus.FINISHED

_J = JobStatus
LIFECYCLE = TransitionTable(
    "Job",
    "A failure leads through the restart strategy to the next attempt, or to the end.",
    _J.CREATED,
    [
        (_J.CREATED, "submitted", _J.INITIALIZING),
        (_J.INITIALIZING, "all tasks running", _J.RUNNING),
        (_J.INITIALIZING, "all tasks finished", _J.FINISHED),
        *[(_J.INITIALIZING, f"ended before as {status.name}", status) for status in (_J.FINISHED, _J.CANCELED)],
        (_J.INITIALIZING, "failure", _J.FAILING),
        (_J.RUNNING, "failure", _J.FAILING),
        (_J.RUNNING, "all tasks finished", _J.FINISHED),
        (_J.FAILING, "tasks stopped, restart allowed", _J.RESTARTING),
        (_J.FAILING, "tasks stopped, no restart", _J.FAILED),
        (_J.RESTARTING, "restart due", _J.INITIALIZING),
        (_J.RESTARTING, "another region failed", _J.FAILING),
        *[
            (status, "cancel", _J.CANCELLING)
            for status in (_J.CREATED, _J.INITIALIZING, _J.RUNNING, _J.FAILING, _J.RESTARTING)
        ],
        (_J.CANCELLING, "tasks stopped", _J.CANCELED),
        *[
            (status, "fenced or suspended", _J.SUSPENDED)
            for status in (_J.CREATED, _J.INITIALIZING, _J.RUNNING, _J.FAILING, _J.RESTARTING, _J.CANCELLING)
        ],
    ],
)


class JobLifecycle:
    """One driver's view of a job. The first failure of an attempt is its cause, not what follows from it.

    A failure takes down the regions it concerns; the others go on, and so do their executions. What fails among those
    meanwhile waits for a moment at which no claim is under way, and then goes down too.
    """

    def __init__(
        self, policy: RestartPolicy, same_error_limit: int | None = None, regions: Regions | None = None
    ) -> None:
        self.errors = RepeatedErrors(same_error_limit)
        self.status = LIFECYCLE.initial
        self.story = Story()
        self.attempt = 0
        self.cause = ""
        self.is_stopping = False
        """Set by the shell while the job stops with a savepoint: then all regions restart together."""
        self._policy = policy
        self._regions = regions or Regions()
        self.executions = Executions(0)
        self._tasks: dict[SubtaskId, TaskStatus] = {}
        self._down = self._regions.all
        self._failed_too: list[FailureRequested] = []
        self._delay_ms: int | None = None
        self._is_deployed = False
        self._running_since_ms: int | None = None
        self._hold_ms = 0
        self._stop_snapshot: Snapshot | None = None

    @property
    def down(self) -> frozenset[int]:
        """The regions that restart, or started with the newest attempt."""
        return self._down

    @property
    def has_survivors(self) -> bool:
        """Whether some regions go on while others restart."""
        return self._down != self._regions.all

    def can_fail(self, regions: frozenset[int]) -> bool:
        """Whether a failure of these regions takes something down that is not down already."""
        return (self._is_deployed and self._may_fail) or not regions <= self._down

    def is_current(self, execution: ExecutionId) -> bool:
        """Whether this execution counts: its subtask runs in this attempt, or has not restarted since it."""
        return self.executions.is_current(execution) and (
            self._is_deployed or self._regions.of(execution.subtask.vertex) not in self._down
        )

    def unfinished(self, regions: frozenset[int]) -> frozenset[int]:
        """Those of the regions that have not come to their end: what has can't fail any more."""
        busy = {self._regions.of(task.vertex) for task, status in self._tasks.items() if status is not _FINISHED}
        return regions & (busy if self._is_deployed else busy | self._down)

    @recorded
    def handle(self, event: JobEvent, now_ms: int, jitter: float = 0.0) -> list[JobEffect]:
        """Take one event, return its effects. `jitter` in [-1, 1] varies a restart's delay."""
        if self.status in LIFECYCLE.final_states:
            return []
        match event:
            case JobSubmitted():
                self._step("submitted")
                return [ClaimAttempt()]
            case AttemptClaimed(attempt):
                if self.status is not JobStatus.INITIALIZING:
                    return []
                self.attempt = attempt
                return [PrepareAttempt(attempt, self._part(self._down))]
            case JobHadEnded(status, stop):
                return self._on_had_ended(status, stop) if self.status is JobStatus.INITIALIZING else []
            case AttemptPrepared(subtasks, finished):
                if self.status is not JobStatus.INITIALIZING:
                    return []
                return self._on_prepared(subtasks, finished, now_ms, jitter)
            case PreparationFailed(error, recoverable, identity):
                if self.status is not JobStatus.INITIALIZING:
                    return []
                return self._fail(
                    FailureRequested(self.attempt, error, recoverable, identity, self._down), now_ms, jitter
                )
            case TaskReport():
                return self._on_task(event, now_ms, jitter)
            case DeploymentTimedOut(attempt):
                if self.status is not JobStatus.INITIALIZING or not self._is_deployed or attempt != self.attempt:
                    return []
                missing = [task for task, status in self._tasks.items() if status is TaskStatus.DEPLOYING]
                cause = f"tasks did not start in time: {', '.join(map(str, missing))}"
                regions = frozenset(self._regions.of(task.vertex) for task in missing)
                return self._fail(FailureRequested(attempt, cause, regions=regions), now_ms, jitter)
            case FailureRequested(attempt):
                return self._on_failure(event, now_ms, jitter) if attempt == self.attempt else []
            case CheckpointSaved(moved):
                self.errors.checkpoint_completed(moved)
                if moved & self._down:
                    self._hold_ms = 0
                return []
            case TasksStopped(attempt):
                return self._on_stopped(now_ms, jitter) if attempt == self.attempt else []
            case RestartDue():
                if self.status is not JobStatus.RESTARTING:
                    return []
                self._step("restart due")
                return [ClaimAttempt()]
            case CancelRequested():
                return self._on_cancel()
            case DriverFenced(attempt):
                return self._suspend(f"attempt {attempt} of another driver runs this job")
            case SuspendRequested():
                return self._suspend("its driver lets it go; started again, it goes on from its last checkpoint")
            case StopSavepointCompleted(snapshot):
                if self.status is not JobStatus.RUNNING or snapshot.attempt != self.attempt:
                    return [StopFailed(snapshot, self.cause)]
                self._stop_snapshot = snapshot
                return []

    def _part(self, regions: frozenset[int]) -> frozenset[int] | None:
        """For an effect: None means the whole job."""
        return None if regions == self._regions.all else regions

    @property
    def _is_running(self) -> bool:
        """Whether tasks of any region may run."""
        return self._is_deployed or self.has_survivors

    def _on_had_ended(self, status: JobStatus, stop: Snapshot | None) -> list[JobEffect]:
        self._step(f"ended before as {status.name}")
        return [EndJob(status, self.cause, stop)]

    def _on_prepared(
        self, subtasks: frozenset[SubtaskId], finished: frozenset[SubtaskId], now_ms: int, jitter: float
    ) -> list[JobEffect]:
        if self._failed_too:
            return self._fail(self._failed_too.pop(0), now_ms, jitter)
        self.executions.restarted(self.attempt, self._tasks)
        starting = dict.fromkeys(sorted(subtasks - finished), TaskStatus.DEPLOYING)
        self._tasks.update(starting)
        self._is_deployed = True
        if self._all(TaskStatus.FINISHED):
            return self._finish()
        return [DeployTasks(self.attempt, tuple(starting))] if starting else self._run_if_ready(now_ms)

    def _on_task(self, report: TaskReport, now_ms: int, jitter: float) -> list[JobEffect]:
        execution, status = report.execution, report.status
        known = self._tasks.get(execution.subtask)
        if known is None or known is TaskStatus.FINISHED or not self.is_current(execution):
            return []
        if status is TaskStatus.FAILED or status is TaskStatus.CANCELED:
            cause, regions = f"{execution}: {report.error}", frozenset({self._regions.of(execution.subtask.vertex)})
            failure = FailureRequested(self.attempt, cause, not report.is_final, report.identity, regions)
            return self._on_failure(failure, now_ms, jitter)
        if not (self._may_fail or self.has_survivors) or (
            known is TaskStatus.RUNNING and status is TaskStatus.DEPLOYING
        ):
            return []
        self._tasks[execution.subtask] = status
        return self._run_if_ready(now_ms)

    @property
    def _may_fail(self) -> bool:
        return self.status is JobStatus.INITIALIZING or self.status is JobStatus.RUNNING

    def _run_if_ready(self, now_ms: int) -> list[JobEffect]:
        if not self._is_deployed or not self._may_fail:
            return []
        if self._all(TaskStatus.FINISHED):
            return self._finish()
        if self.status is JobStatus.INITIALIZING and self._all(TaskStatus.RUNNING, TaskStatus.FINISHED):
            self._step("all tasks running")
            self._running_since_ms = now_ms
            return [StartCheckpoints(self.attempt, self._hold_ms)]
        return []

    def _all(self, *statuses: TaskStatus) -> bool:
        return all(status in statuses for status in self._tasks.values())

    def _finish(self) -> list[JobEffect]:
        self._step("all tasks finished")
        return [StopCheckpoints(self.attempt, shutdown=True), EndJob(JobStatus.FINISHED, "", self._stop_snapshot)]

    # Failures.

    def _on_failure(self, failure: FailureRequested, now_ms: int, jitter: float) -> list[JobEffect]:
        regions = self._regions.all if failure.regions is None else failure.regions
        if not self.can_fail(regions):
            return []
        if (self._is_deployed and self._may_fail) or self.status is JobStatus.RESTARTING:
            return self._fail(failure, now_ms, jitter)
        if self.status in (JobStatus.FAILING, JobStatus.INITIALIZING):
            self._failed_too.append(failure)
        return []

    def _fail(self, failure: FailureRequested, now_ms: int, jitter: float) -> list[JobEffect]:
        """Take down the regions that failed, with those that are not up again."""
        self.errors.failed(failure.identity, self._regions.all if failure.regions is None else failure.regions)
        if failure.identity is not None:
            ran_ms = 0 if self._running_since_ms is None else max(now_ms - self._running_since_ms, 0)
            self._hold_ms = max(2 * ran_ms + HOLD_MARGIN_MS, self._hold_ms if self.has_survivors else 0)
        self._running_since_ms = None
        failures, self._failed_too = [failure, *self._failed_too], []
        may_restart = all(each.recoverable for each in failures) and not self.errors.is_too_many
        decision = self._policy.failed(now_ms, jitter) if may_restart else None
        self._delay_ms = decision.delay_ms if decision is not None and decision.restart else None
        note = self.errors.note
        self.cause = cause = f"{failure.cause} ({note})" if note else failure.cause
        effects: list[JobEffect] = []
        if self._stop_snapshot is not None:
            effects.append(StopFailed(self._stop_snapshot, cause))
        down = self._restarting(failures)
        to_stop = down if self._is_deployed else down - self._down
        self._down, self._is_deployed, self._stop_snapshot = down, False, None
        kept = [task for task in self._tasks if self._regions.of(task.vertex) not in down]
        self._tasks = {task: self._tasks[task] for task in kept}
        if self.status is not JobStatus.FAILING:
            self._step("another region failed" if self.status is JobStatus.RESTARTING else "failure")
        if not to_stop:
            return [*effects, *self._on_stopped(now_ms, jitter)]
        part = self._part(to_stop)
        return [*effects, StopCheckpoints(self.attempt, shutdown=False, regions=part), CancelTasks(self.attempt, part)]

    def _restarting(self, failures: Iterable[FailureRequested]) -> frozenset[int]:
        """The regions that restart after these failures."""
        everything, regions = self._regions.all, frozenset[int]()
        for failure in failures:
            regions |= everything if failure.regions is None else failure.regions
        if self.status is not JobStatus.RUNNING:
            regions |= self._down
        is_together = bool(self._regions.coupled) or self.is_stopping or self._stop_snapshot is not None
        return everything if is_together or self._delay_ms is None else regions

    def _on_stopped(self, now_ms: int, jitter: float) -> list[JobEffect]:
        if self.status is JobStatus.CANCELLING:
            return self._end("tasks stopped")
        if self.status is not JobStatus.FAILING:
            return []
        if self._failed_too:
            return self._fail(self._failed_too.pop(0), now_ms, jitter)
        if self._delay_ms is None:
            return self._end("tasks stopped, no restart")
        self._step("tasks stopped, restart allowed")
        return [ScheduleRestart(self._delay_ms, self._part(self._down))]

    # The end.

    def _on_cancel(self) -> list[JobEffect]:
        if self.status is JobStatus.CANCELLING:
            return []
        was_failing = self.status is JobStatus.FAILING
        self._step("cancel")
        if not self._is_running:
            return [] if was_failing else self._end("tasks stopped")
        return [StopCheckpoints(self.attempt, shutdown=True), CancelTasks(self.attempt)]

    def _suspend(self, cause: str) -> list[JobEffect]:
        may_run = self._is_running or self.status is JobStatus.FAILING or self.status is JobStatus.CANCELLING
        stop: Iterable[JobEffect] = (
            [StopCheckpoints(self.attempt, shutdown=False), CancelTasks(self.attempt)] if may_run else []
        )
        self.cause = cause
        self._step("fenced or suspended")
        return [*stop, EndJob(JobStatus.SUSPENDED, cause)]

    def _end(self, cause: str) -> list[JobEffect]:
        self._step(cause)
        return [EndJob(self.status, self.cause)]

    def _step(self, cause: str) -> None:
        self.status = LIFECYCLE.step(self.status, cause)
