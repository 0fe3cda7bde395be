"""The life of a job: attempts, failures, restarts, and the ways it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.job.repeated_errors import RepeatedErrors
from snapline.protocol.job.restart_policy import RestartPolicy
from snapline.protocol.machine import Story, TransitionTable, recorded
from snapline.protocol.messages import TaskReport
from snapline.protocol.snapshot import Snapshot
from snapline.types import JobStatus, SubtaskId, TaskStatus

HOLD_MARGIN_MS = 500
"""After an error of the job's code, checkpoints wait until the attempt has outlived the failed one by this and more."""

# Events.


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """The job is to run."""


@dataclass(frozen=True, slots=True)
class AttemptClaimed:
    """This driver owns the attempt: its claim is in the journal."""

    attempt: int


@dataclass(frozen=True, slots=True)
class JobHadEnded:
    """According to the journal the job is closed: it finished or was cancelled, perhaps with the savepoint `stop`."""

    status: JobStatus
    stop: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class AttemptPrepared:
    """The restore is planned; `subtasks` have to run, except those `finished` before."""

    subtasks: frozenset[SubtaskId]
    finished: frozenset[SubtaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class PreparationFailed:
    """Claiming, reading the store or planning the restore failed; a retry may help if `recoverable`."""

    error: str
    recoverable: bool = True
    identity: ErrorIdentity | None = None


@dataclass(frozen=True, slots=True)
class DriverFenced:
    """Another driver runs this job now."""

    attempt: int


@dataclass(frozen=True, slots=True)
class DeploymentTimedOut:
    """Tasks of this attempt did not start in time."""

    attempt: int


@dataclass(frozen=True, slots=True)
class FailureRequested:
    """Too many failed checkpoints, a lost slot or the like demand a failover; no restart unless `recoverable`."""

    attempt: int
    cause: str
    recoverable: bool = True
    identity: ErrorIdentity | None = None


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint is complete, and sources have moved: an error after it is not a repetition of one before."""


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """No task of this attempt can have any effect any more."""

    attempt: int


@dataclass(frozen=True, slots=True)
class RestartDue:
    """The delay before the next attempt is over."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user cancels the job."""


@dataclass(frozen=True, slots=True)
class SuspendRequested:
    """The driver shuts down cleanly; another one will take over."""


@dataclass(frozen=True, slots=True)
class StopSavepointCompleted:
    """The savepoint of a stop is durable."""

    snapshot: Snapshot


JobEvent: TypeAlias = (
    JobSubmitted
    | AttemptClaimed
    | JobHadEnded
    | AttemptPrepared
    | PreparationFailed
    | DriverFenced
    | TaskReport
    | DeploymentTimedOut
    | FailureRequested
    | CheckpointSaved
    | TasksStopped
    | RestartDue
    | CancelRequested
    | SuspendRequested
    | StopSavepointCompleted
)

# Effects.


@dataclass(frozen=True, slots=True)
class ClaimAttempt:
    """Claim the next attempt in the journal."""


@dataclass(frozen=True, slots=True)
class PrepareAttempt:
    """Read the store, choose what to restore and plan it."""

    attempt: int


@dataclass(frozen=True, slots=True)
class DeployTasks:
    """Start these subtasks; report `DeploymentTimedOut` if they do not start in time."""

    attempt: int
    subtasks: tuple[SubtaskId, ...]


@dataclass(frozen=True, slots=True)
class StartCheckpoints:
    """Every task runs: checkpoints may begin, the first periodic one after `hold_ms`."""

    attempt: int
    hold_ms: int = 0


@dataclass(frozen=True, slots=True)
class StopCheckpoints:
    """The job has left the running state."""

    attempt: int
    shutdown: bool


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """Stop all tasks of this attempt and report `TasksStopped`."""

    attempt: int


@dataclass(frozen=True, slots=True)
class ScheduleRestart:
    """Report `RestartDue` after this delay."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class StopFailed:
    """The savepoint is complete, but the job did not end with it and continues from it."""

    snapshot: Snapshot
    cause: str


@dataclass(frozen=True, slots=True)
class EndJob:
    """The job is over for this driver: record the end and clean up as the status demands.

    `stop` is the savepoint the job stopped with. Report no end before it is recorded: until then another driver may
    take over and continue.
    """

    status: JobStatus
    cause: str
    stop: Snapshot | None = None


JobEffect: TypeAlias = (
    ClaimAttempt
    | PrepareAttempt
    | DeployTasks
    | StartCheckpoints
    | StopCheckpoints
    | CancelTasks
    | ScheduleRestart
    | StopFailed
    | EndJob
)

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
    """One driver's view of a job. The first failure of an attempt is its cause, not what follows from it."""

    def __init__(self, policy: RestartPolicy, same_error_limit: int | None = None) -> None:
        self.errors = RepeatedErrors(same_error_limit)
        self.status = LIFECYCLE.initial
        self.story = Story()
        self.attempt = 0
        self.cause = ""
        self._policy = policy
        self._tasks: dict[SubtaskId, TaskStatus] = {}
        self._delay_ms: int | None = None
        self._is_deployed = False
        self._running_since_ms: int | None = None
        self._hold_ms = 0
        self._stop_snapshot: Snapshot | None = None

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
                return [PrepareAttempt(attempt)]
            case JobHadEnded(status, stop):
                return self._on_had_ended(status, stop) if self.status is JobStatus.INITIALIZING else []
            case AttemptPrepared(subtasks, finished):
                return self._on_prepared(subtasks, finished) if self.status is JobStatus.INITIALIZING else []
            case PreparationFailed(error, recoverable, identity):
                if self.status is not JobStatus.INITIALIZING:
                    return []
                return self._fail(error, now_ms, jitter, may_restart=recoverable, identity=identity)
            case TaskReport():
                return self._on_task(event, now_ms, jitter)
            case DeploymentTimedOut(attempt):
                if self.status is not JobStatus.INITIALIZING or not self._is_current(attempt):
                    return []
                missing = [str(task) for task, status in self._tasks.items() if status is TaskStatus.DEPLOYING]
                return self._fail(f"tasks did not start in time: {', '.join(missing)}", now_ms, jitter)
            case FailureRequested(attempt, cause, recoverable, identity):
                if not self._is_current(attempt) or not self._may_fail:
                    return []
                return self._fail(cause, now_ms, jitter, may_restart=recoverable, identity=identity)
            case CheckpointSaved():
                self.errors.checkpoint_completed()
                self._hold_ms = 0
                return []
            case TasksStopped(attempt):
                return self._on_stopped() if attempt == self.attempt else []
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
                return self._suspend("the driver is shutting down")
            case StopSavepointCompleted(snapshot):
                if self.status is not JobStatus.RUNNING or snapshot.attempt != self.attempt:
                    return [StopFailed(snapshot, self.cause)]
                self._stop_snapshot = snapshot
                return []

    def _is_current(self, attempt: int) -> bool:
        """Whether this attempt's tasks are deployed; late messages of older attempts do not count."""
        return self._is_deployed and attempt == self.attempt

    @property
    def _may_fail(self) -> bool:
        return self.status is JobStatus.INITIALIZING or self.status is JobStatus.RUNNING

    def _on_had_ended(self, status: JobStatus, stop: Snapshot | None) -> list[JobEffect]:
        self._step(f"ended before as {status.name}")
        return [EndJob(status, self.cause, stop)]

    def _on_prepared(self, subtasks: frozenset[SubtaskId], finished: frozenset[SubtaskId]) -> list[JobEffect]:
        self._tasks = dict.fromkeys(sorted(subtasks - finished), TaskStatus.DEPLOYING)
        self._is_deployed = True
        if not self._tasks:
            return self._finish()
        return [DeployTasks(self.attempt, tuple(self._tasks))]

    def _on_task(self, report: TaskReport, now_ms: int, jitter: float) -> list[JobEffect]:
        execution, status = report.execution, report.status
        known = self._tasks.get(execution.subtask)
        if known is None or known is TaskStatus.FINISHED or not self._is_current(execution.attempt):
            return []
        if not self._may_fail or (known is TaskStatus.RUNNING and status is TaskStatus.DEPLOYING):
            return []
        if status is TaskStatus.FAILED or status is TaskStatus.CANCELED:
            cause, may_restart = f"{execution}: {report.error}", not report.is_final
            return self._fail(cause, now_ms, jitter, may_restart=may_restart, identity=report.identity)
        self._tasks[execution.subtask] = status
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

    def _fail(
        self,
        cause: str,
        now_ms: int,
        jitter: float,
        *,
        may_restart: bool = True,
        identity: ErrorIdentity | None = None,
    ) -> list[JobEffect]:
        self.errors.failed(identity)
        if identity is not None:
            ran_ms = 0 if self._running_since_ms is None else max(now_ms - self._running_since_ms, 0)
            self._hold_ms = 2 * ran_ms + HOLD_MARGIN_MS
        self._running_since_ms = None
        decision = self._policy.failed(now_ms, jitter) if may_restart and not self.errors.is_too_many else None
        self._delay_ms = decision.delay_ms if decision is not None and decision.restart else None
        note = self.errors.note
        self.cause = cause = f"{cause} ({note})" if note else cause
        effects: list[JobEffect] = []
        if self._stop_snapshot is not None:
            effects.append(StopFailed(self._stop_snapshot, cause))
            self._stop_snapshot = None
        self._step("failure")
        if not self._is_deployed:
            return [*effects, *self._on_stopped()]
        return [*effects, StopCheckpoints(self.attempt, shutdown=False), CancelTasks(self.attempt)]

    def _on_stopped(self) -> list[JobEffect]:
        if self.status is JobStatus.CANCELLING:
            return self._end("tasks stopped")
        if self.status is not JobStatus.FAILING:
            return []
        self._is_deployed = False
        if self._delay_ms is None:
            return self._end("tasks stopped, no restart")
        self._step("tasks stopped, restart allowed")
        return [ScheduleRestart(self._delay_ms)]

    def _on_cancel(self) -> list[JobEffect]:
        if self.status is JobStatus.CANCELLING:
            return []
        was_failing = self.status is JobStatus.FAILING
        self._step("cancel")
        if not self._is_deployed:
            return self._end("tasks stopped")
        if was_failing:
            return []
        return [StopCheckpoints(self.attempt, shutdown=True), CancelTasks(self.attempt)]

    def _suspend(self, cause: str) -> list[JobEffect]:
        stop: Iterable[JobEffect] = (
            [StopCheckpoints(self.attempt, shutdown=False), CancelTasks(self.attempt)] if self._is_deployed else []
        )
        self.cause = cause
        self._step("fenced or suspended")
        return [*stop, EndJob(JobStatus.SUSPENDED, cause)]

    def _end(self, cause: str) -> list[JobEffect]:
        self._step(cause)
        return [EndJob(self.status, self.cause)]

    def _step(self, cause: str) -> None:
        self.status = LIFECYCLE.step(self.status, cause)
