"""What the lifecycle of a job takes in, and what it orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.messages import TaskReport
from snapline.protocol.snapshot import Snapshot
from snapline.types import JobStatus, SubtaskId

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
    """The restore is planned; `subtasks` of the regions that start have to run, except those `finished` before."""

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
    """Too many failed checkpoints, a lost slot or the like demand a failover; no restart unless `recoverable`.

    `attempt` is the job's newest. With `regions` only these have failed.
    """

    attempt: int
    cause: str
    recoverable: bool = True
    identity: ErrorIdentity | None = None
    regions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint is complete. Where sources have moved, an error after it is not a repetition of one before."""

    moved: frozenset[int]


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
    """Read the store, choose what to restore and plan it, for these regions or for all."""

    attempt: int
    regions: frozenset[int] | None = None


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
    """The job has left the running state, because of these regions or as a whole."""

    attempt: int
    shutdown: bool
    regions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """Stop all tasks of this and older attempts, or only those of `regions`, and report `TasksStopped`."""

    attempt: int
    regions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class ScheduleRestart:
    """Report `RestartDue` after this delay. With `regions` only these restart."""

    delay_ms: int
    regions: frozenset[int] | None = None


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
