"""What an attempt starts from: a snapshot or the beginning, who gets which part of it, and a coordinator to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapline.devtools.simulator.kernel import Kernel
from snapline.devtools.simulator.scenario import MAX_PARALLELISM, Role, Run, Scenario, SimVertex
from snapline.protocol.coordinator.carryover import CoordinatorMemory
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.checkpoint_plan import Edge
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.restore.restore_plan import (
    RestoreEdge,
    RestorePlan,
    RestoreVertex,
    SubtaskRestore,
    must_be_full,
    plan_restore,
    restore_point,
)
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot, VertexInfo
from snapline.types import NO_CHECKPOINT, SubtaskId

HOOK = "audit"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The start of one attempt.

    `own` are the job's snapshots it could recover from, oldest first, `given` is the one the user told the job to start
    from. `snapshot` is what it restores, as `plan` says; both are none for the beginning.
    """

    attempt: int
    own: Sequence[Snapshot]
    given: Snapshot | None
    snapshot: Snapshot | None
    plan: RestorePlan | None
    prepared_until: int

    @property
    def is_from_given(self) -> bool:
        return self.snapshot is not None and self.snapshot is self.given

    @property
    def restored_id(self) -> int:
        return self.snapshot.id if self.snapshot is not None else NO_CHECKPOINT

    @property
    def finished(self) -> frozenset[SubtaskId]:
        """The subtasks that need not run again."""
        return self.plan.finished if self.plan is not None else frozenset()

    def state_of(self, subtask: SubtaskId) -> SubtaskRestore | None:
        return self.plan.subtasks[subtask].get(subtask.vertex) if self.plan is not None else None


def plan_recovery(
    scenario: Scenario, run: Run, attempt: int, own: Sequence[Snapshot], given: Snapshot | None, prepared_until: int
) -> Recovery:
    """Choose the snapshot and deal it out; raises `RestoreError` if it does not fit the job."""
    topology = scenario.topology
    start = restore_point(own, given)
    plan = None
    if start is not None:
        vertices = [
            RestoreVertex(v.id, run.parallelism[v.id], (v.id,), MAX_PARALLELISM, coordinators_of(v))
            for v in topology.vertices
        ]
        edges = [RestoreEdge(e.id, e.source, e.target, e.partitioning) for e in topology.edges]
        plan = plan_restore(start, vertices, edges, hooks=_hooks(scenario))
    return Recovery(attempt, own, given, start, plan, prepared_until)


def make_coordinator(
    scenario: Scenario, run: Run, recovery: Recovery, memory: CoordinatorMemory, *, has_given: bool
) -> CheckpointCoordinator:
    """The coordinator of the attempt; `has_given` says whether the given snapshot still exists."""
    config, topology = scenario.checkpoints, scenario.topology
    given = recovery.given if has_given else None
    retained = RetainedSnapshots.restored(config.retained, recovery.own, given, run.claim_mode)
    vertices = tuple(
        VertexInfo(
            v.id,
            run.parallelism[v.id],
            MAX_PARALLELISM,
            (v.id,),
            coordinators_of(v),
            v.role is Role.UNION_LIST,
        )
        for v in topology.vertices
    )
    edges = tuple(Edge(e.source, e.target, e.partitioning.is_pointwise) for e in topology.edges)
    return CheckpointCoordinator(
        recovery.attempt,
        config,
        JobShape(vertices, edges, _hooks(scenario)),
        memory,
        retained,
        full_until_complete=must_be_full(recovery.own, recovery.given, run.claim_mode),
        finished=recovery.finished,
    )


def coordinators_of(vertex: SimVertex) -> tuple[str, ...]:
    """Sources have a coordinator that deals out their splits."""
    return (vertex.id,) if vertex.role is Role.SOURCE else ()


def cover_recovery(kernel: Kernel, run: Run, recovery: Recovery) -> None:
    """Count which kind of recovery this is."""
    start = recovery.snapshot
    if start is None:
        kernel.cover("restore: from the beginning")
        return
    if recovery.is_from_given:
        kind = "savepoint" if start.kind.is_savepoint else "checkpoint of another run"
        kernel.cover(f"restore: {kind}, {run.claim_mode.value}")
    else:
        kind = "own stop savepoint" if start.kind.is_savepoint else "own latest checkpoint"
        kernel.cover(f"restore: {kind}")
    has_in_flight = any(
        part.inputs or part.outputs for state in start.operators.values() for part in state.subtasks.values()
    )
    is_rescaled = any(state.parallelism != run.parallelism[uid] for uid, state in start.operators.items())
    if is_rescaled:
        kernel.cover("restore: rescaled with in-flight data" if has_in_flight else "restore: rescaled")
    elif has_in_flight:
        kernel.cover("restore: with in-flight data")
    if any(state.fully_finished or state.is_partly_finished for state in start.operators.values()):
        kernel.cover("restore: with finished tasks")


def _hooks(scenario: Scenario) -> tuple[str, ...]:
    return (HOOK,) if scenario.has_hook else ()
