"""What is kept of a job for the next driver, and for people once no driver runs: its last view, within limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from snapline.protocol.statistics.checkpoint_records import (
    CheckpointCounts,
    CheckpointRecord,
    CheckpointStatus,
    Completion,
    LatestCheckpoints,
    StatisticsSnapshot,
    Totals,
)
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.protocol.statistics.explanation import Explanation
from snapline.protocol.statistics.job_view import AttemptFailure, JobView
from snapline.types import FailureReason, SavepointFormat, SnapshotKind

DETAILED_CHECKPOINTS = 20
"""The newest checkpoints, which are kept with each subtask; of older ones each vertex is kept."""

MAX_SUBTASKS = 5_000
MAX_VERTICES = 20_000
"""Subtasks and vertices that are kept over all checkpoints; of older checkpoints only the totals are."""

MAX_FAILURES = 100
DETAILED_FAILURES = 10
"""Failed attempts that are kept, and those of them with trace and log."""

MAX_EVENTS = 1000
MAX_TASKS = 2000
"""Subtasks of the job that are kept as they were last; none if it has more."""

MAX_CAUSE_CHARACTERS = 2000

_INTERRUPTED = "its driver was gone before it was complete"


@dataclass(frozen=True, slots=True)
class JobPast:
    """A job as a driver saw it last. `totals` are those of its `CheckpointStatistics`.

    `absorbed` names the pasts of earlier drivers that are part of this one.
    """

    view: JobView
    totals: Mapping[str, int]
    absorbed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """A snapshot that the journal names and that has not been deleted. Time and sizes are 0 if they are not known."""

    id: int
    kind: SnapshotKind
    location: str
    timestamp_ms: int = 0
    format: SavepointFormat | None = None
    state_bytes: int = 0
    checkpointed_bytes: int = 0


def bounded(past: JobPast, history: int) -> JobPast:
    """The same with at most `history` checkpoints, and within all limits."""
    view = past.view
    records = _with_less_detail(view.statistics.history[:history])
    kept = {record.id: record for record in records}
    latest = view.statistics.latest
    latest = replace(
        latest,
        completed=_latest(latest.completed, kept),
        savepoint=_latest(latest.savepoint, kept),
        failed=_latest(latest.failed, kept),
    )
    detailed = frozenset(record.id for record in records[:DETAILED_CHECKPOINTS])
    return replace(
        past,
        view=replace(
            view,
            statistics=replace(view.statistics, history=records, latest=latest),
            failures=_failures(view.failures),
            events=view.events[-MAX_EVENTS:],
            subtasks=view.subtasks if len(view.subtasks) <= MAX_TASKS else (),
            explanations={
                number: said if number in detailed else replace(said, path=())
                for number, said in view.explanations.items()
                if number in kept
            },
            url="",
        ),
    )


def joined(
    pasts: Sequence[JobPast], published: Collection[PublishedSnapshot] | None = None, *, is_over: bool = True
) -> JobPast:
    """Several pasts of one job, oldest first and at least one, as one.

    `published` are the job's snapshots that still exist, None if that is not known. What a driver did not see to its
    end is complete if it is among them; checkpoints that are not among them are discarded. If the last driver `is_over`
    too, what it had in progress has failed, unless a newer snapshot shows that the driver saw more than it could note.
    """
    last = pasts[-1].view
    records = [record for past in pasts for record in past.view.statistics.history]
    statistics = CheckpointStatistics(history=len(records) + len(published or ()))
    newest = max((record.id for record in records), default=0)
    for snapshot in sorted(published or (), key=lambda snapshot: -snapshot.id):
        if snapshot.id > newest and snapshot.timestamp_ms:
            statistics.preceded_by(_found(snapshot), {})
    existing = {snapshot.id: snapshot for snapshot in published or ()}
    for past in reversed(pasts):
        statistics.preceded_by(_without_unknown(past.view.statistics, existing), past.totals)
    for record in statistics.snapshot().history:
        if record.status is CheckpointStatus.IN_PROGRESS and record.id in existing:
            ended_ms = max(record.totals.latest_ack_ms, record.trigger_ms)
            statistics.completed(record.id, ended_ms, existing[record.id].location)
        elif record.status is CheckpointStatus.IN_PROGRESS and is_over:
            reason = FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
            statistics.failed(record.id, max(last.now_ms, record.trigger_ms), reason, _INTERRUPTED)
        elif published is not None and record.kind is SnapshotKind.CHECKPOINT and record.id not in existing:
            statistics.discarded(record.id)
    explanations: dict[int, Explanation] = {}
    for past in pasts:
        explanations.update(past.view.explanations)
    return JobPast(
        replace(
            last,
            statistics=statistics.snapshot(),
            failures=tuple(failure for past in reversed(pasts) for failure in past.view.failures)[:MAX_FAILURES],
            failed_attempts=sum(past.view.failed_attempts for past in pasts),
            events=tuple(event for past in pasts for event in past.view.events)[-MAX_EVENTS:],
            explanations=explanations,
        ),
        statistics.totals,
        tuple(name for past in pasts for name in past.absorbed),
    )


def _without_unknown(statistics: StatisticsSnapshot, existing: Collection[int]) -> StatisticsSnapshot:
    """The same without what was in progress before a newer snapshot: it has ended, and nobody knows how."""
    newest = max(existing, default=0)
    unknown = frozenset(
        record.id
        for record in statistics.history
        if record.status is CheckpointStatus.IN_PROGRESS and record.id < newest and record.id not in existing
    )
    if not unknown:
        return statistics
    counts = statistics.counts
    return replace(
        statistics,
        history=tuple(record for record in statistics.history if record.id not in unknown),
        counts=replace(counts, total=counts.total - len(unknown), in_progress=counts.in_progress - len(unknown)),
    )


def _found(snapshot: PublishedSnapshot) -> StatisticsSnapshot:
    """The statistics of a snapshot of which no driver has left any. Nobody knows how long it took."""
    totals = Totals(0, checkpointed_bytes=snapshot.checkpointed_bytes, state_bytes=snapshot.state_bytes)
    record = CheckpointRecord(
        snapshot.id,
        snapshot.kind,
        snapshot.format,
        snapshot.timestamp_ms,
        False,
        totals,
        (),
        Completion(snapshot.timestamp_ms, snapshot.location),
    )
    latest = LatestCheckpoints(savepoint=record) if record.kind.is_savepoint else LatestCheckpoints(completed=record)
    return StatisticsSnapshot(CheckpointCounts(total=1, completed=1), latest, (record,))


def _with_less_detail(records: Iterable[CheckpointRecord]) -> tuple[CheckpointRecord, ...]:
    kept: list[CheckpointRecord] = []
    vertices = subtasks = 0
    for number, record in enumerate(records):
        vertices += len(record.vertices)
        subtasks += record.totals.subtasks
        if vertices > MAX_VERTICES:
            kept.append(replace(record, vertices=()))
        elif number >= DETAILED_CHECKPOINTS or subtasks > MAX_SUBTASKS:
            kept.append(_without_subtasks(record))
        else:
            kept.append(record)
    return tuple(kept)


def _without_subtasks(record: CheckpointRecord) -> CheckpointRecord:
    return replace(record, vertices=tuple(replace(vertex, subtasks=()) for vertex in record.vertices))


def _latest(record: CheckpointRecord | None, kept: Mapping[int, CheckpointRecord]) -> CheckpointRecord | None:
    return None if record is None else kept.get(record.id) or _without_subtasks(record)


def _failures(failures: Iterable[AttemptFailure]) -> tuple[AttemptFailure, ...]:
    kept: list[AttemptFailure] = []
    for number, failure in enumerate(failures):
        if number == MAX_FAILURES:
            break
        cause = failure.cause[:MAX_CAUSE_CHARACTERS]
        is_detailed = number < DETAILED_FAILURES
        kept.append(replace(failure, cause=cause) if is_detailed else replace(failure, cause=cause, trace="", log=""))
    return tuple(kept)
