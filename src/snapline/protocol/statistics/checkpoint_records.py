"""Records of a job's checkpoints at one moment, immutable, for the monitoring page, REST and users.

Times are epoch milliseconds; -1 (`NO_ACK`) is a time or duration that is not known yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from snapline.protocol.statistics.summary import EMPTY, Summary
from snapline.text import duration_text, size_text
from snapline.types import FailureReason, SavepointFormat, SnapshotKind

NO_ACK = -1


class CheckpointStatus(Enum):
    """The status of a checkpoint."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class CheckpointType(Enum):
    """The type of a checkpoint as monitoring shows it."""

    CHECKPOINT = "CHECKPOINT"
    UNALIGNED_CHECKPOINT = "UNALIGNED_CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """What a subtask reports with its acknowledgement. A negative number was not measured.

    `aborted` says that the subtask gave the checkpoint up: the rest is what it had measured until then, with -1 for
    what it had not come to.
    `checkpointed_bytes` were written for this checkpoint; `state_bytes` is the full size, reused files included.
    `processed_bytes` and `persisted_bytes` are in-flight data processed and stored during alignment.
    """

    checkpointed_bytes: int = 0
    state_bytes: int = 0
    sync_ms: int = 0
    async_ms: int = 0
    alignment_ms: int = 0
    start_delay_ms: int = 0
    processed_bytes: int = 0
    persisted_bytes: int = 0
    unaligned: bool = False
    aborted: bool = False


@dataclass(frozen=True, slots=True)
class Totals:
    """What the subtasks of a vertex, or of all, have reported so far. Sizes that were not measured count as 0."""

    subtasks: int
    acknowledged: int = 0
    latest_ack_ms: int = NO_ACK
    checkpointed_bytes: int = 0
    state_bytes: int = 0
    processed_bytes: int = 0
    persisted_bytes: int = 0
    any_unaligned: bool = False

    def with_ack(self, ack_ms: int, metrics: SubtaskMetrics) -> Totals:
        """These totals with one more acknowledgement."""
        return Totals(
            self.subtasks,
            self.acknowledged + 1,
            max(self.latest_ack_ms, ack_ms),
            self.checkpointed_bytes + max(metrics.checkpointed_bytes, 0),
            self.state_bytes + max(metrics.state_bytes, 0),
            self.processed_bytes + max(metrics.processed_bytes, 0),
            self.persisted_bytes + max(metrics.persisted_bytes, 0),
            self.any_unaligned or metrics.unaligned,
        )


@dataclass(frozen=True, slots=True)
class SubtaskStatistics:
    """One subtask's part in a checkpoint; until it acknowledges, `metrics` is None and the times are -1.

    If the checkpoint failed, `metrics` is what the subtask had measured when it gave up; None if the barrier had not
    arrived, or the report was lost. `commit_ms` is the time from the completion of the checkpoint until the subtask
    had committed its output; -1 if it has none, or not yet.
    """

    index: int
    ack_ms: int = NO_ACK
    end_to_end_duration_ms: int = NO_ACK
    metrics: SubtaskMetrics | None = None
    commit_ms: int = NO_ACK

    @property
    def is_acknowledged(self) -> bool:
        return self.ack_ms != NO_ACK


@dataclass(frozen=True, slots=True)
class VertexSummary:
    """Measurements over the subtasks of one vertex that have reported any."""

    checkpointed_bytes: Summary
    state_bytes: Summary
    end_to_end_duration_ms: Summary
    sync_ms: Summary
    async_ms: Summary
    processed_bytes: Summary
    persisted_bytes: Summary
    alignment_ms: Summary
    start_delay_ms: Summary


@dataclass(frozen=True, slots=True)
class VertexStatistics:
    """One vertex's part in a checkpoint, with every subtask in order of its index."""

    vertex: str
    trigger_ms: int
    totals: Totals
    subtasks: Sequence[SubtaskStatistics]

    @property
    def end_to_end_duration_ms(self) -> int:
        """From the trigger to the latest acknowledgement of a subtask; -1 without any."""
        return duration_ms(self.trigger_ms, self.totals.latest_ack_ms)

    def __repr__(self) -> str:
        done = f"{self.totals.acknowledged} of {self.totals.subtasks} subtasks"
        return f"<{self.vertex}: {done}, {size_text(self.totals.checkpointed_bytes)}>"

    def unpacked(self) -> VertexStatistics:
        """The same, with subtasks that are quick to read again."""
        return self if isinstance(self.subtasks, tuple) else replace(self, subtasks=tuple(self.subtasks))

    def summary(self) -> VertexSummary:
        """Computed on each call, since few vertices are looked at this closely."""
        reported = [subtask.metrics for subtask in self.subtasks if subtask.metrics is not None]
        measured = {
            item.name: Summary.of(getattr(metrics, item.name) for metrics in reported)
            for item in fields(VertexSummary)
            if item.name != "end_to_end_duration_ms"
        }
        durations = Summary.of(subtask.end_to_end_duration_ms for subtask in self.subtasks)
        return VertexSummary(end_to_end_duration_ms=durations, **measured)


@dataclass(frozen=True, slots=True)
class Completion:
    """How a checkpoint completed. `discarded` is true once its files are deleted."""

    completed_ms: int
    external_path: str | None
    metadata_bytes: int = 0
    discarded: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Why and when a checkpoint failed."""

    failure_ms: int
    reason: FailureReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One checkpoint at one moment. At most one of `completion` and `failure` is set.

    `started_ms` is when the driver triggered its tasks, after operator coordinators and hooks; -1 if not yet.
    """

    id: int
    kind: SnapshotKind
    savepoint_format: SavepointFormat | None
    trigger_ms: int
    starts_unaligned: bool
    totals: Totals
    vertices: tuple[VertexStatistics, ...]
    completion: Completion | None = None
    failure: Failure | None = None
    started_ms: int = NO_ACK

    @property
    def status(self) -> CheckpointStatus:
        if self.completion is not None:
            return CheckpointStatus.COMPLETED
        return CheckpointStatus.IN_PROGRESS if self.failure is None else CheckpointStatus.FAILED

    @property
    def type(self) -> CheckpointType:
        """A checkpoint is unaligned as soon as it is so at one subtask; savepoints keep their type."""
        if self.kind is SnapshotKind.CHECKPOINT and (self.starts_unaligned or self.totals.any_unaligned):
            return CheckpointType.UNALIGNED_CHECKPOINT
        return CheckpointType[self.kind.name]

    @property
    def end_to_end_duration_ms(self) -> int:
        """From the trigger to the failure if it failed, else to the latest acknowledgement; -1 without any."""
        end_ms = self.totals.latest_ack_ms if self.failure is None else self.failure.failure_ms
        return duration_ms(self.trigger_ms, end_ms)

    def __repr__(self) -> str:
        kind = "Savepoint" if self.kind.is_savepoint else "Checkpoint"
        done = f"{self.totals.acknowledged} of {self.totals.subtasks} subtasks"
        took = "" if self.end_to_end_duration_ms < 0 else f", {duration_text(self.end_to_end_duration_ms)}"
        why = "" if self.failure is None else f": {self.failure.reason.value}"
        size = size_text(self.totals.checkpointed_bytes)
        return f"<{kind} {self.id} {self.status.value}{why}, {done}{took}, {size}>"

    def vertex(self, vertex: str) -> VertexStatistics | None:
        """The part of `vertex`, or None."""
        return next((statistics for statistics in self.vertices if statistics.vertex == vertex), None)


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The snapshot an attempt started from. `left_behind` names the state in it that the job does not have."""

    id: int
    restore_ms: int
    is_savepoint: bool
    external_path: str | None
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """Counts since the job began; `total` is the sum of `in_progress`, `completed` and `failed`."""

    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class LatestCheckpoints:
    """The newest of each kind, even when it has left the history.

    `completed` is never a savepoint: those, plain or synchronous, are in `savepoint`. `failed` has the id -1 if the
    checkpoint could not start. `not_started` is the latest request that became no checkpoint, also where that is
    routine, as when the job restarts.
    """

    completed: CheckpointRecord | None = None
    savepoint: CheckpointRecord | None = None
    failed: CheckpointRecord | None = None
    restored: RestoredCheckpoint | None = None
    not_started: Failure | None = None


@dataclass(frozen=True, slots=True)
class CompletedSummary:
    """Measurements over completed checkpoints and savepoints only.

    Count, minimum, maximum and average are over all of them, percentiles over the latest `percentile_window`.
    """

    checkpointed_bytes: Summary = EMPTY
    state_bytes: Summary = EMPTY
    end_to_end_duration_ms: Summary = EMPTY
    processed_bytes: Summary = EMPTY
    persisted_bytes: Summary = EMPTY


@dataclass(frozen=True, slots=True)
class StatisticsSnapshot:
    """The statistics at one moment. Deeply immutable, so any thread may read it.

    `history` holds the latest checkpoints and savepoints, in progress or ended, newest first. `failures_by_reason`
    divides `counts.failed`, routine ones included.
    """

    counts: CheckpointCounts = CheckpointCounts()
    latest: LatestCheckpoints = LatestCheckpoints()
    history: tuple[CheckpointRecord, ...] = ()
    summary: CompletedSummary = CompletedSummary()
    failures_by_reason: Mapping[FailureReason, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts, last = self.counts, self.latest.completed
        newest = "" if last is None else f"; last {last!r}"
        return (
            f"<Checkpoints: {counts.completed} completed, {counts.failed} failed, {counts.in_progress} in progress"
            f"{newest}>"
        )

    def find(self, checkpoint_id: int) -> CheckpointRecord | None:
        """The record of a checkpoint that is in the history or one of the latest."""
        latest = (self.latest.completed, self.latest.savepoint, self.latest.failed)
        return next(
            (record for record in (*self.history, *latest) if record is not None and record.id == checkpoint_id), None
        )


def duration_ms(trigger_ms: int, end_ms: int) -> int:
    # A clock set back in between must not make a duration negative, which would read as "not known".
    return NO_ACK if end_ms == NO_ACK else max(end_ms - trigger_ms, 0)
