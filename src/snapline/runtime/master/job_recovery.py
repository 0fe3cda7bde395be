"""What an attempt starts from: a snapshot or the beginning, how it is assigned, and the coordinator."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from snapline.config import Checkpoints
from snapline.errors import RestoreError
from snapline.graph.execution_plan import ExecutionPlan, PlannedVertex
from snapline.graph.job_spec import JobSpec
from snapline.graph.requirements import check_newer_output
from snapline.protocol.coordinator.attempt_tasks import AttemptTasks
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.checkpoint_plan import Edge
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.job.regions import Regions
from snapline.protocol.journal import Journal, RecordKind
from snapline.protocol.lineage import Lineage, next_lineage
from snapline.protocol.restore.restore_plan import (
    RestoreEdge,
    RestoreOptions,
    RestorePlan,
    RestoreVertex,
    must_be_full,
    plan_fresh_start,
    plan_restore,
    restore_point,
)
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot, VertexInfo
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.job_log import EventLog
from snapline.runtime.master.job_storage import MasterStorage
from snapline.storage.archive import Archive
from snapline.storage.snapshot_forks import forks, note_fork
from snapline.types import NO_CHECKPOINT, ClaimMode, JobStatus, SubtaskId

_log = JobLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The start of one attempt.

    `own` are the job's own snapshots, oldest first; `given` is the one the user named, or None if it no longer exists.
    `snapshot` is the one to restore, or None to start from the beginning. With `regions` only these start.
    """

    attempt: int
    own: Sequence[Snapshot]
    given: Snapshot | None
    snapshot: Snapshot | None
    plan: RestorePlan
    prepared_until: int
    lineage: Lineage
    regions: frozenset[int] | None = None

    @property
    def own_id(self) -> int:
        """The id of the snapshot to restore, if it is one of the job's own."""
        is_own = self.snapshot is not None and any(self.snapshot.location == own.location for own in self.own)
        return self.restored_id if is_own else NO_CHECKPOINT

    def vertices(self, regions: Regions) -> frozenset[str]:
        """Those that start."""
        return regions.vertices(regions.all if self.regions is None else self.regions)

    @property
    def restored_id(self) -> int:
        return self.snapshot.id if self.snapshot is not None else NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class Claim:
    """What a driver finds when it takes over a job; `stop` is the savepoint the job ended with, if any."""

    journal: Journal
    is_ours: bool
    stop: Snapshot | None

    def earlier_failure(self, config: Checkpoints) -> str:
        """What to say if the job had failed before; empty if it had not."""
        journal = self.journal
        if journal.failed_before is None:
            return ""
        text = f"the job had failed in attempt {journal.failed_before} and goes on under the same id"
        if journal.latest is None or config.restore_from is None:
            return text
        return f"{text}, from {journal.latest.location}; to start from `restore_from`, give it another id"


def claim(archive: Archive, own_attempt: int) -> Claim:
    """Claim the next attempt; `own_attempt` is this driver's current one. Blocks."""
    journal, is_ours = archive.claim(own_attempt)
    latest, stop = journal.latest, None
    if journal.ended is not None and latest is not None and latest.kind is RecordKind.STOP:
        with contextlib.suppress(RestoreError):  # another job has claimed and deleted it
            stop = archive.read_snapshot(str(latest.location))
    return Claim(journal, is_ours, stop)


def warn_of_end(spec: JobSpec, ended: JobStatus) -> None:
    _log.warning(
        "job %s has run before under the id %s and ended (%s), so nothing is run; to run it again give it another id: "
        "Job(..., id=...)",
        spec.name,
        spec.job_id,
        ended.value,
    )


def recover(spec: JobSpec, storage: MasterStorage, attempt: int, regions: frozenset[int] | None = None) -> Recovery:
    """Plan the restore of these regions, or of all. Blocks.

    Raises `FencedError` after a takeover, `RestoreError` if the snapshot does not fit, `DamagedError` if it is not
    whole.
    """
    recovered = storage.archive.recover(attempt)
    given = storage.given
    start = restore_point(recovered.snapshots, given)
    if given is not None and storage.objects.size_bytes(given.metadata_path) is None:
        if start is given:
            raise RestoreError(
                f"{given.location}, which the job is to start from, is no longer there; bring it back or name another "
                "in `restore_from`"
            )
        given = None
    if start is not None and spec.checkpoints.local_directory is None:
        # Local copies may stand in for files that are gone; what neither has is found by the task that reads it.
        storage.archive.check_whole(start, attempt)
    plan = _plan(spec, start)
    lineage = next_lineage(
        None if start is None else start.lineage,
        NO_CHECKPOINT if start is None else start.id,
        is_own=start is not given,
        fresh=f"{spec.job_id}.{recovered.journal.lineage}",
        job_id=spec.job_id,
    )
    if start is not None and start is given:
        _check_forks(spec, storage, start, lineage)
    return Recovery(
        attempt, recovered.snapshots, given, start, plan, recovered.journal.prepared_until, lineage, regions
    )


def _check_forks(spec: JobSpec, storage: MasterStorage, start: Snapshot, lineage: Lineage) -> None:
    """Raises `RestoreError` if sinks hold newer output of the lineage that a job starts from, or of others since."""
    since = [fork for fork in forks(storage.objects, start.location) if fork != lineage.id]
    check_newer_output(spec.sinks, start, since, is_allowed=spec.checkpoints.allow_newer_output)
    if spec.checkpoints.claim_mode is not ClaimMode.CLAIM:  # nobody else can start from one that is claimed
        note_fork(storage.objects, start.location, lineage.id)


def _plan(spec: JobSpec, start: Snapshot | None) -> RestorePlan:
    plan, config = spec.plan, spec.checkpoints
    vertices = [
        RestoreVertex(v.id, v.parallelism, _operators(v), v.max_parallelism, coordinators_of(v), v.links)
        for v in plan.vertices
    ]
    if start is None:
        return plan_fresh_start(vertices, tuple(spec.hooks))
    edges = [RestoreEdge(e.id, e.source, e.target, e.partitioning) for e in plan.edges]
    options = RestoreOptions(config.allow_non_restored, config.ignore_in_flight_of)
    return plan_restore(start, vertices, edges, options, hooks=tuple(spec.hooks))


def announce(name: str, recovery: Recovery, statistics: CheckpointStatistics, events: EventLog, now_ms: int) -> None:
    """Tell the user what an attempt starts from, and what of it is left behind."""
    start, left_behind = recovery.snapshot, recovery.plan.left_behind
    if start is not None:
        is_savepoint = start.kind.is_savepoint
        statistics.restored(
            start.id, now_ms, is_savepoint=is_savepoint, external_path=start.location, left_behind=left_behind
        )
    what = "the beginning" if start is None else start.location
    events.add(f"attempt {recovery.attempt} starts from {what}")
    number = None if start is None else start.id
    _log.info(
        "job %s: attempt %d starts from %s", name, recovery.attempt, what, attempt=recovery.attempt, checkpoint=number
    )
    if left_behind:
        listed = ", ".join(left_behind)
        events.add(f"left behind in {what}, because the job does not have it (allow_non_restored): {listed}")
        _log.warning(
            "job %s leaves state behind in %s, as allow_non_restored permits: %s",
            name,
            what,
            listed,
            attempt=recovery.attempt,
            checkpoint=number,
        )


def make_coordinator(
    spec: JobSpec, recovery: Recovery, memory: Carryover, before: AttemptTasks | None = None
) -> CheckpointCoordinator:
    """`before` are the tasks of the coordinator before, if there was one."""
    config: Checkpoints = spec.checkpoints
    shape = _shape(spec.plan, recovery, tuple(spec.hooks))
    if recovery.regions is None or before is None:
        tasks = AttemptTasks(
            recovery.attempt,
            shape,
            allow_finished=config.after_tasks_finish,
            finished=recovery.plan.finished,
            restored_id=recovery.own_id,
        )
    else:
        tasks = before
        tasks.restarted(recovery.attempt, recovery.vertices(spec.regions), recovery.plan.finished, recovery.own_id)
    return CheckpointCoordinator(
        recovery.attempt,
        config,
        shape,
        memory,
        RetainedSnapshots.restored(config.retained, recovery.own, recovery.given, config.claim_mode),
        full_until_complete=must_be_full(recovery.own, recovery.given, config.claim_mode),
        tasks=tasks,
    )


def _shape(plan: ExecutionPlan, recovery: Recovery, hooks: tuple[str, ...]) -> JobShape:
    vertices = tuple(
        VertexInfo(v.id, v.parallelism, recovery.plan.max_parallelism[v.id], _operators(v), coordinators_of(v))
        for v in plan.vertices
    )
    edges = tuple(Edge(e.source, e.target, e.partitioning.is_pointwise) for e in plan.edges)
    return JobShape(vertices, edges, hooks, recovery.lineage)


def all_subtasks(plan: ExecutionPlan) -> frozenset[SubtaskId]:
    return frozenset(SubtaskId(v.id, index) for v in plan.vertices for index in range(v.parallelism))


def coordinators_of(vertex: PlannedVertex) -> tuple[str, ...]:
    """The uids of the operators that have a coordinator, as every source has."""
    return tuple(operator.uid for operator in vertex.operators if operator.has_coordinator)


def _operators(vertex: PlannedVertex) -> tuple[str, ...]:
    return tuple(operator.uid for operator in vertex.operators)
