"""The vocabulary of every layer: identifiers, kinds and reasons. Plain values, no behaviour beyond derivation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

MAX_WATERMARK = (1 << 63) - 1
"""Watermark after the last row of all."""

IDLE = -(1 << 63)
"""Sent instead of a watermark by an idle subtask: do not wait for it until its next watermark."""

NO_CHECKPOINT = -1
"""Stands for "no checkpoint" where a checkpoint id is expected; real ids start at 1."""


class SubtaskId(NamedTuple):
    """One parallel instance of a vertex, in any attempt."""

    vertex: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which no id needs

    def __str__(self) -> str:
        return f"{self.vertex}/{self.index}"


class ExecutionId(NamedTuple):
    """One execution of a subtask: the subtask, and the job attempt that deployed it."""

    subtask: SubtaskId
    attempt: int

    def __str__(self) -> str:
        return f"{self.subtask}#{self.attempt}"


class SnapshotKind(Enum):
    """What a snapshot is for."""

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"

    @property
    def is_savepoint(self) -> bool:
        return self is not SnapshotKind.CHECKPOINT

    @property
    def is_synchronous(self) -> bool:
        return self is SnapshotKind.SYNC_SAVEPOINT


class SavepointFormat(Enum):
    """How a savepoint stores keyed state: independent of the backend, or as the backend's own files."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


class CheckpointScope(Enum):
    """What a manual checkpoint may reuse: as configured, nothing older (FULL), or all it can (INCREMENTAL)."""

    CONFIGURED = "CONFIGURED"
    FULL = "FULL"
    INCREMENTAL = "INCREMENTAL"


class ClaimMode(Enum):
    """Who owns a snapshot a job was restored from."""

    CLAIM = "CLAIM"
    NO_CLAIM = "NO_CLAIM"
    LEGACY = "LEGACY"


class BarrierKind(Enum):
    """How a barrier travels."""

    ALIGNED = "ALIGNED"
    ALIGNED_WITH_TIMEOUT = "ALIGNED_WITH_TIMEOUT"
    UNALIGNED = "UNALIGNED"
    FORCED_ALIGNED = "FORCED_ALIGNED"


@dataclass(frozen=True, slots=True)
class Barrier:
    """The line between what belongs to checkpoint `id` and what does not.

    `timeout_ms` is how long alignment may take before the checkpoint turns unaligned; it is set for
    ALIGNED_WITH_TIMEOUT, and for a FORCED_ALIGNED barrier that regains that kind after the edge. `location` is where
    the objects of the snapshot go, None if the driver keeps them; a savepoint also has a `format`. A `full` snapshot
    holds all keyed state anew. One that stands `alone` refers to nothing that an older one wrote.
    """

    id: int
    timestamp_ms: int
    kind: BarrierKind = BarrierKind.ALIGNED
    timeout_ms: int | None = None
    snapshot: SnapshotKind = SnapshotKind.CHECKPOINT
    drain: bool = False
    full: bool = False
    location: str | None = None
    format: SavepointFormat | None = None
    alone: bool = True

    @property
    def is_unaligned(self) -> bool:
        return self.kind is BarrierKind.UNALIGNED

    @property
    def is_timeoutable(self) -> bool:
        return self.kind is BarrierKind.ALIGNED_WITH_TIMEOUT

    @property
    def may_capture(self) -> bool:
        """Whether in-flight data may become part of this checkpoint."""
        return self.kind is BarrierKind.UNALIGNED or self.kind is BarrierKind.ALIGNED_WITH_TIMEOUT

    def is_timed_out(self, now_ms: int) -> bool:
        return self.is_timeoutable and self.timeout_ms is not None and self.timeout_ms < now_ms - self.timestamp_ms

    def times_out_ms(self, now_ms: int) -> int:
        """Returns when alignment has taken too long: `timeout_ms` after the trigger, but at most that far from now.

        The trigger was on another machine, whose clock may be ahead of this one.
        """
        assert self.timeout_ms is not None
        return now_ms + max(self.timeout_ms - max(now_ms - self.timestamp_ms, 0), 0)

    def with_kind(self, kind: BarrierKind) -> Barrier:
        return self if kind is self.kind else replace(self, kind=kind)

    def as_unaligned(self) -> Barrier:
        """The barrier once it no longer waits for alignment, also after an edge that forces it to align."""
        return replace(self, kind=BarrierKind.UNALIGNED, timeout_ms=None)

    def for_aligned_only_edge(self) -> Barrier:
        """The barrier as it crosses an edge that cannot be unaligned."""
        return self.with_kind(BarrierKind.FORCED_ALIGNED) if self.may_capture else self

    def behind_aligned_only_edge(self) -> Barrier:
        """The barrier with the kind it had before an edge forced it to align."""
        if self.kind is not BarrierKind.FORCED_ALIGNED:
            return self
        return self.with_kind(BarrierKind.UNALIGNED if self.timeout_ms is None else BarrierKind.ALIGNED_WITH_TIMEOUT)


class AbortReason(Enum):
    """Why a barrier handler aborted a checkpoint."""

    SUBSUMED = "SUBSUMED"
    CANCELLED = "CANCELLED"
    END_OF_STREAM = "END_OF_STREAM"


class FailureReason(Enum):
    """Why a checkpoint failed, as the coordinator reports it."""

    PERIODIC_SCHEDULER_SHUTDOWN = "PERIODIC_SCHEDULER_SHUTDOWN"
    TOO_MANY_CHECKPOINT_REQUESTS = "TOO_MANY_CHECKPOINT_REQUESTS"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "MINIMUM_TIME_BETWEEN_CHECKPOINTS"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "NOT_ALL_REQUIRED_TASKS_RUNNING"
    IO_EXCEPTION = "IO_EXCEPTION"
    BLOCKING_OUTPUT_EXIST = "BLOCKING_OUTPUT_EXIST"
    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
    CHECKPOINT_DECLINED_TASK_CLOSING = "CHECKPOINT_DECLINED_TASK_CLOSING"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
    CHECKPOINT_DECLINED_SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    CHECKPOINT_SUBSUMED = "CHECKPOINT_SUBSUMED"
    CHECKPOINT_COORDINATOR_SUSPEND = "CHECKPOINT_COORDINATOR_SUSPEND"
    CHECKPOINT_COORDINATOR_SHUTDOWN = "CHECKPOINT_COORDINATOR_SHUTDOWN"
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = "CHANNEL_STATE_SHARED_STREAM_EXCEPTION"
    JOB_FAILOVER_REGION = "JOB_FAILOVER_REGION"
    TASK_FAILURE = "TASK_FAILURE"
    TASK_CHECKPOINT_FAILURE = "TASK_CHECKPOINT_FAILURE"
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE"
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"

    @property
    def is_preflight(self) -> bool:
        """Whether the checkpoint failed before any task was triggered."""
        return self in _PREFLIGHT

    @property
    def is_counted(self) -> bool:
        """Whether it counts towards the tolerable number of failures."""
        return self in _COUNTED

    @property
    def is_routine(self) -> bool:
        """Whether nothing went wrong: the job restarts or ends, or another checkpoint makes this one needless."""
        return self in _ROUTINE

    @property
    def is_passing(self) -> bool:
        """Whether it is normal once, while tasks start or end, but not again and again."""
        return self in _PASSING


_PREFLIGHT = frozenset(
    {
        FailureReason.PERIODIC_SCHEDULER_SHUTDOWN,
        FailureReason.TOO_MANY_CHECKPOINT_REQUESTS,
        FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS,
        FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
        FailureReason.IO_EXCEPTION,
        FailureReason.BLOCKING_OUTPUT_EXIST,
    }
)
_COUNTED = frozenset(
    {
        FailureReason.IO_EXCEPTION,
        FailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        FailureReason.CHECKPOINT_DECLINED,
        FailureReason.CHECKPOINT_EXPIRED,
        FailureReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)


_ROUTINE = frozenset(
    {
        FailureReason.PERIODIC_SCHEDULER_SHUTDOWN,
        FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS,
        FailureReason.CHECKPOINT_SUBSUMED,
        FailureReason.CHECKPOINT_COORDINATOR_SUSPEND,
        FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN,
        FailureReason.JOB_FAILOVER_REGION,
    }
)
_PASSING = frozenset(
    {
        FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
        FailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
        FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING,
        FailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER,
        FailureReason.CHECKPOINT_DECLINED_SUBSUMED,
        FailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM,
        FailureReason.TASK_CHECKPOINT_FAILURE,
    }
)


class TaskStatus(Enum):
    """State of an execution."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


class JobStatus(Enum):
    """State of a job."""

    CREATED = "CREATED"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    RESTARTING = "RESTARTING"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"

    @property
    def is_globally_terminal(self) -> bool:
        """Whether the job is over: its end is recorded. Only one that FAILED can go on under the same id."""
        return self in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)


class Partitioning(Enum):
    """How records of an edge find their downstream subtask."""

    FORWARD = "FORWARD"
    HASH = "HASH"
    REBALANCE = "REBALANCE"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"

    @property
    def is_pointwise(self) -> bool:
        return self is Partitioning.FORWARD

    @property
    def may_be_unaligned(self) -> bool:
        """Pointwise and broadcast edges carry no in-flight data in a checkpoint: barriers on them always align."""
        return self not in (Partitioning.FORWARD, Partitioning.BROADCAST)


class OperatorStateMode(Enum):
    """How operator list state is redistributed on restore."""

    SPLIT = "SPLIT"
    UNION = "UNION"
    BROADCAST = "BROADCAST"


class ExternalizedRetention(Enum):
    """What happens to the retained checkpoints when the job ends.

    All three delete them on FINISHED. RETAIN_ON_CANCELLATION keeps them on every other end, DELETE_ON_CANCELLATION
    deletes them on CANCELED, NO_EXTERNALIZED on CANCELED and FAILED. A job that failed goes on from those that are kept
    when it is started again under the same id.
    """

    NO_EXTERNALIZED = "NO_EXTERNALIZED"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
