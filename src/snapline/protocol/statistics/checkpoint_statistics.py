"""What the monitoring page and the REST interface show of a job's checkpoints.

`CheckpointStatistics` is told what happens to checkpoints and answers with immutable snapshots. It decides nothing:
a fact that comes too late, twice, or about something it does not know changes nothing and is answered with False.
Times are epoch milliseconds; -1 (`NO_ACK`) stands for a time or duration that is not known yet.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum

from snapline.errors import EngineError
from snapline.types import FailureReason, SavepointFormat, SnapshotKind

NO_ACK = -1

MAX_IN_PROGRESS = 10_000
"""Checkpoints under way at once. The coordinator's own limits are far below; beyond this it has lost track of them."""

MAX_SUBTASKS = 1_000_000
"""Subtasks of one checkpoint."""

MAX_MESSAGE_CHARACTERS = 4_000
"""A longer failure message is cut: it may hold a stack trace of any length, and a history keeps many of them."""


class CheckpointStatus(Enum):
    """Where a checkpoint stands."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class CheckpointType(Enum):
    """What monitoring calls a checkpoint."""

    CHECKPOINT = "CHECKPOINT"
    UNALIGNED_CHECKPOINT = "UNALIGNED_CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"


@dataclass(frozen=True, slots=True)
class SubtaskMetrics:
    """What a subtask reports with its acknowledgement. A negative number means that it was not measured.

    `checkpointed_bytes` is what was written for this checkpoint, `state_bytes` the full size it stands for, reused
    files included. `processed_bytes` and `persisted_bytes` are in-flight data handled and stored during alignment.
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
class Summary:
    """A measurement over many checkpoints or subtasks; all zero while there is none. Averages are rounded down."""

    count: int = 0
    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0

    @staticmethod
    def of(values: Iterable[int]) -> Summary:
        """Summary of all `values` but the negative ones, which were not measured."""
        ordered = sorted(value for value in values if value >= 0)
        if not ordered:
            return _EMPTY
        return _summary(len(ordered), ordered[0], ordered[-1], sum(ordered), ordered)


_EMPTY = Summary()


def percentile(ordered: Sequence[int], permille: int) -> float:
    """The value below which `permille` thousandths of the ascending, non-empty `ordered` lie.

    It is found by linear interpolation at position `p * (n + 1)`, counted from 1; a position before the first value
    or behind the last gives that value.
    """
    whole, part = divmod(permille * (len(ordered) + 1), 1000)
    if whole < 1:
        return float(ordered[0])
    if whole >= len(ordered):
        return float(ordered[-1])
    lower, upper = ordered[whole - 1], ordered[whole]
    return lower + part / 1000 * (upper - lower)


def _summary(count: int, least: int, greatest: int, total: int, ordered: Sequence[int]) -> Summary:
    quantiles = (percentile(ordered, permille) for permille in (500, 900, 950, 990, 999))
    return Summary(count, least, greatest, total // count, *quantiles)


@dataclass(frozen=True, slots=True)
class Totals:
    """What subtasks of a vertex, or of all vertices, have reported so far. Not measured sizes count as 0."""

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
    """One subtask's part in a checkpoint; until it acknowledges, `metrics` is None and the times are -1."""

    index: int
    ack_ms: int = NO_ACK
    end_to_end_duration_ms: int = NO_ACK
    metrics: SubtaskMetrics | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.metrics is not None


@dataclass(frozen=True, slots=True)
class VertexSummary:
    """Measurements over the acknowledged subtasks of one vertex."""

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
    subtasks: tuple[SubtaskStatistics, ...]

    @property
    def end_to_end_duration_ms(self) -> int:
        """From the trigger to the latest acknowledgement of a subtask; -1 without any."""
        return _duration_ms(self.trigger_ms, self.totals.latest_ack_ms)

    def summary(self) -> VertexSummary:
        """Computed on each call: few vertices are ever looked at this closely."""
        reported = [subtask.metrics for subtask in self.subtasks if subtask.metrics is not None]
        return VertexSummary(
            checkpointed_bytes=Summary.of(metrics.checkpointed_bytes for metrics in reported),
            state_bytes=Summary.of(metrics.state_bytes for metrics in reported),
            end_to_end_duration_ms=Summary.of(subtask.end_to_end_duration_ms for subtask in self.subtasks),
            sync_ms=Summary.of(metrics.sync_ms for metrics in reported),
            async_ms=Summary.of(metrics.async_ms for metrics in reported),
            processed_bytes=Summary.of(metrics.processed_bytes for metrics in reported),
            persisted_bytes=Summary.of(metrics.persisted_bytes for metrics in reported),
            alignment_ms=Summary.of(metrics.alignment_ms for metrics in reported),
            start_delay_ms=Summary.of(metrics.start_delay_ms for metrics in reported),
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """How a checkpoint completed. `discarded` turns true when its files have been given up."""

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
    """All that is known about one checkpoint at one moment; at most one of `completion` and `failure` is set."""

    id: int
    kind: SnapshotKind
    savepoint_format: SavepointFormat | None
    trigger_ms: int
    starts_unaligned: bool
    totals: Totals
    vertices: tuple[VertexStatistics, ...]
    completion: Completion | None = None
    failure: Failure | None = None

    @property
    def status(self) -> CheckpointStatus:
        if self.completion is not None:
            return CheckpointStatus.COMPLETED
        return CheckpointStatus.IN_PROGRESS if self.failure is None else CheckpointStatus.FAILED

    @property
    def type(self) -> CheckpointType:
        """A savepoint of either kind stays one; a checkpoint is unaligned as soon as it is so for one subtask."""
        if self.kind is SnapshotKind.CHECKPOINT and (self.starts_unaligned or self.totals.any_unaligned):
            return CheckpointType.UNALIGNED_CHECKPOINT
        return CheckpointType[self.kind.name]

    @property
    def end_to_end_duration_ms(self) -> int:
        """From the trigger to the failure if it failed, else to the latest acknowledgement; -1 without any."""
        end_ms = self.totals.latest_ack_ms if self.failure is None else self.failure.failure_ms
        return _duration_ms(self.trigger_ms, end_ms)

    def vertex(self, vertex: str) -> VertexStatistics | None:
        """The part of `vertex`, or None if it had none."""
        return next((statistics for statistics in self.vertices if statistics.vertex == vertex), None)


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The snapshot an attempt started from."""

    id: int
    restore_ms: int
    is_savepoint: bool
    external_path: str | None


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """How many there were since the job began; `total` is the sum of `in_progress`, `completed` and `failed`."""

    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class LatestCheckpoints:
    """The newest of each sort, kept even when it has left the history.

    `completed` is never a savepoint: those, plain or synchronous, are in `savepoint`. `not_started` is the latest
    failure from before a checkpoint was created, which has no record of its own.
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

    checkpointed_bytes: Summary = _EMPTY
    state_bytes: Summary = _EMPTY
    end_to_end_duration_ms: Summary = _EMPTY
    processed_bytes: Summary = _EMPTY
    persisted_bytes: Summary = _EMPTY

    @staticmethod
    def measurements_of(record: CheckpointRecord) -> tuple[int, int, int, int, int]:
        """What one completed checkpoint adds, in the order of the fields."""
        totals = record.totals
        return (
            totals.checkpointed_bytes,
            totals.state_bytes,
            record.end_to_end_duration_ms,
            totals.processed_bytes,
            totals.persisted_bytes,
        )


@dataclass(frozen=True, slots=True)
class StatisticsSnapshot:
    """The statistics at one moment. Immutable through and through, so any thread may read it.

    `history` holds the latest checkpoints and savepoints, in progress or ended, newest first.
    """

    counts: CheckpointCounts = CheckpointCounts()
    latest: LatestCheckpoints = LatestCheckpoints()
    history: tuple[CheckpointRecord, ...] = ()
    summary: CompletedSummary = CompletedSummary()

    def find(self, checkpoint_id: int) -> CheckpointRecord | None:
        """The record of a checkpoint that is in the history or one of the latest."""
        latest = (self.latest.completed, self.latest.savepoint, self.latest.failed)
        return next(
            (record for record in (*self.history, *latest) if record is not None and record.id == checkpoint_id), None
        )


class CheckpointStatistics:
    """Follows the checkpoints of one job over all its attempts.

    The coordinator's thread reports facts as they happen, in order; it also takes the snapshots and hands them to
    whoever wants to read. `history` is how many checkpoints are remembered in detail, `percentile_window` over how
    many completed ones percentiles are taken.
    """

    def __init__(self, *, history: int = 10, percentile_window: int = 10_000) -> None:
        if history < 0 or percentile_window < 1:
            raise EngineError(f"history {history} or percentile window {percentile_window} is too small")
        self._restored_count = self._completed_count = self._failed_count = 0
        self._in_progress: dict[int, _Checkpoint] = {}
        self._history: deque[_Checkpoint] = deque(maxlen=history)
        self._completed: _Checkpoint | None = None
        self._savepoint: _Checkpoint | None = None
        self._failed: _Checkpoint | None = None
        self._restored: RestoredCheckpoint | None = None
        self._not_started: Failure | None = None
        self._tallies = tuple(_Tally(percentile_window) for _ in fields(CompletedSummary))
        self._snapshot: StatisticsSnapshot | None = StatisticsSnapshot()

    def created(
        self,
        checkpoint_id: int,
        kind: SnapshotKind,
        savepoint_format: SavepointFormat | None,
        trigger_ms: int,
        subtasks: Mapping[str, int],
        *,
        unaligned: bool,
    ) -> None:
        """A checkpoint has begun. `subtasks` gives the parallelism of every vertex of the job, finished or not.

        For subtasks that had already finished, report an acknowledgement with empty metrics at once: they have
        nothing more to say. `unaligned` is whether the barriers start out unaligned.
        """
        if checkpoint_id in self._in_progress:
            raise EngineError(f"checkpoint {checkpoint_id} was created twice")
        if len(self._in_progress) >= MAX_IN_PROGRESS:
            raise EngineError(f"more than {MAX_IN_PROGRESS} checkpoints are in progress")
        if any(count < 1 for count in subtasks.values()) or sum(subtasks.values()) > MAX_SUBTASKS:
            raise EngineError(f"checkpoint {checkpoint_id} has a vertex without subtasks, or more than {MAX_SUBTASKS}")
        vertices = {vertex: _Vertex(vertex, trigger_ms, count) for vertex, count in subtasks.items()}
        statistics = tuple(vertex.statistics for vertex in vertices.values())
        totals = Totals(sum(subtasks.values()))
        checkpoint = _Checkpoint(
            CheckpointRecord(checkpoint_id, kind, savepoint_format, trigger_ms, unaligned, totals, statistics), vertices
        )
        self._in_progress[checkpoint_id] = checkpoint
        self._history.append(checkpoint)
        self._snapshot = None

    def acknowledged(self, checkpoint_id: int, vertex: str, index: int, ack_ms: int, metrics: SubtaskMetrics) -> bool:
        """A subtask has acknowledged. False if the checkpoint has ended, or the subtask is unknown or came before."""
        checkpoint = self._in_progress.get(checkpoint_id)
        if checkpoint is None or not checkpoint.acknowledge(vertex, index, ack_ms, metrics):
            return False
        self._snapshot = None
        return True

    def completed(
        self,
        checkpoint_id: int,
        now_ms: int,
        external_path: str | None,
        *,
        checkpointed_bytes: int | None = None,
        state_bytes: int | None = None,
        metadata_bytes: int = 0,
    ) -> bool:
        """A checkpoint has completed. False if it is not in progress.

        The sizes replace the sums over the subtasks; they are given where other state, such as that of coordinators,
        is part of the checkpoint.
        """
        checkpoint = self._in_progress.pop(checkpoint_id, None)
        if checkpoint is None:
            return False
        totals = checkpoint.record.totals
        if checkpointed_bytes is not None:
            totals = replace(totals, checkpointed_bytes=checkpointed_bytes)
        if state_bytes is not None:
            totals = replace(totals, state_bytes=state_bytes)
        checkpoint.end(totals, completion=Completion(now_ms, external_path, metadata_bytes))
        if checkpoint.record.kind.is_savepoint:
            self._savepoint = _newer(self._savepoint, checkpoint)
        else:
            self._completed = _newer(self._completed, checkpoint)
        for tally, value in zip(self._tallies, CompletedSummary.measurements_of(checkpoint.record), strict=True):
            tally.add(value)
        self._completed_count += 1
        self._snapshot = None
        return True

    def failed(self, checkpoint_id: int | None, now_ms: int, reason: FailureReason, message: str = "") -> bool:
        """A checkpoint has failed; with None, before it was created. False if it is not in progress."""
        failure = Failure(now_ms, reason, _shortened(message))
        if checkpoint_id is None:
            self._not_started = failure
        else:
            checkpoint = self._in_progress.pop(checkpoint_id, None)
            if checkpoint is None:
                return False
            checkpoint.end(checkpoint.record.totals, failure=failure)
            self._failed = _newer(self._failed, checkpoint)
        self._failed_count += 1
        self._snapshot = None
        return True

    def discarded(self, checkpoint_id: int) -> bool:
        """The files of a completed checkpoint have been given up. False if it is no longer remembered."""
        candidates = (*reversed(self._history), self._completed, self._savepoint)
        if not any(known is not None and known.id == checkpoint_id and known.discard() for known in candidates):
            return False
        self._snapshot = None
        return True

    def restored(self, checkpoint_id: int, now_ms: int, *, is_savepoint: bool, external_path: str | None) -> None:
        """An attempt has started from a snapshot."""
        self._restored = RestoredCheckpoint(checkpoint_id, now_ms, is_savepoint, external_path)
        self._restored_count += 1
        self._snapshot = None

    def snapshot(self) -> StatisticsSnapshot:
        """The statistics as they are now; the same object until something changes."""
        if self._snapshot is None:
            in_progress, completed, failed = len(self._in_progress), self._completed_count, self._failed_count
            self._snapshot = StatisticsSnapshot(
                CheckpointCounts(
                    self._restored_count, in_progress + completed + failed, in_progress, completed, failed
                ),
                LatestCheckpoints(
                    completed=_record(self._completed),
                    savepoint=_record(self._savepoint),
                    failed=_record(self._failed),
                    restored=self._restored,
                    not_started=self._not_started,
                ),
                tuple(checkpoint.record for checkpoint in reversed(self._history)),
                CompletedSummary(*(tally.summary() for tally in self._tallies)),
            )
        return self._snapshot


class _Checkpoint:
    """One checkpoint as its story unfolds; its record is made anew only after a change."""

    __slots__ = ("_record", "_totals", "_vertices")

    def __init__(self, record: CheckpointRecord, vertices: Mapping[str, _Vertex]) -> None:
        self._record = record
        self._totals = record.totals
        self._vertices = vertices

    @property
    def id(self) -> int:
        return self._record.id

    @property
    def record(self) -> CheckpointRecord:
        if self._record.totals is not self._totals:
            vertices = tuple(vertex.statistics for vertex in self._vertices.values())
            self._record = replace(self._record, totals=self._totals, vertices=vertices)
        return self._record

    def acknowledge(self, vertex: str, index: int, ack_ms: int, metrics: SubtaskMetrics) -> bool:
        known = self._vertices.get(vertex)
        if known is None or not known.acknowledge(index, ack_ms, metrics):
            return False
        self._totals = self._totals.with_ack(ack_ms, metrics)
        return True

    def end(self, totals: Totals, *, completion: Completion | None = None, failure: Failure | None = None) -> None:
        self._record = replace(self.record, totals=totals, completion=completion, failure=failure)
        self._totals = totals
        self._vertices = {}

    def discard(self) -> bool:
        """Whether it was completed and not yet discarded."""
        completion = self._record.completion
        if completion is None or completion.discarded:
            return False
        self._record = replace(self._record, completion=replace(completion, discarded=True))
        return True


class _Vertex:
    __slots__ = ("_statistics", "_subtasks", "_totals", "_trigger_ms")

    def __init__(self, vertex: str, trigger_ms: int, count: int) -> None:
        self._trigger_ms = trigger_ms
        self._totals = Totals(count)
        self._subtasks = [SubtaskStatistics(index) for index in range(count)]
        self._statistics = VertexStatistics(vertex, trigger_ms, self._totals, tuple(self._subtasks))

    @property
    def statistics(self) -> VertexStatistics:
        if self._statistics.totals is not self._totals:
            self._statistics = replace(self._statistics, totals=self._totals, subtasks=tuple(self._subtasks))
        return self._statistics

    def acknowledge(self, index: int, ack_ms: int, metrics: SubtaskMetrics) -> bool:
        if not 0 <= index < len(self._subtasks) or self._subtasks[index].is_acknowledged:
            return False
        self._subtasks[index] = SubtaskStatistics(index, ack_ms, _duration_ms(self._trigger_ms, ack_ms), metrics)
        self._totals = self._totals.with_ack(ack_ms, metrics)
        return True


class _Tally:
    """A measurement over ever more checkpoints in bounded memory; the latest are kept in order of size as well."""

    __slots__ = ("_count", "_greatest", "_latest", "_least", "_ordered", "_total", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._count = self._least = self._greatest = self._total = 0
        self._latest: deque[int] = deque()
        self._ordered: list[int] = []

    def add(self, value: int) -> None:
        """Count `value`, unless it is negative and so was not measured."""
        if value < 0:
            return
        self._least = value if self._count == 0 else min(self._least, value)
        self._greatest = max(self._greatest, value)
        self._count += 1
        self._total += value
        self._latest.append(value)
        insort(self._ordered, value)
        if len(self._latest) > self._window:
            del self._ordered[bisect_left(self._ordered, self._latest.popleft())]

    def summary(self) -> Summary:
        if self._count == 0:
            return _EMPTY
        return _summary(self._count, self._least, self._greatest, self._total, self._ordered)


def _newer(known: _Checkpoint | None, checkpoint: _Checkpoint) -> _Checkpoint:
    # a savepoint may end after one that was started later, and then is not the latest
    return checkpoint if known is None or checkpoint.id >= known.id else known


def _record(checkpoint: _Checkpoint | None) -> CheckpointRecord | None:
    return None if checkpoint is None else checkpoint.record


def _duration_ms(trigger_ms: int, end_ms: int) -> int:
    # a clock that was set back in between must not make a duration negative, which would read as «not known»
    return NO_ACK if end_ms == NO_ACK else max(end_ms - trigger_ms, 0)


def _shortened(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else message[: MAX_MESSAGE_CHARACTERS - 1] + "…"
