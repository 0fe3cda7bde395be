"""The tasks of one attempt as the coordinator knows them: which run, and which have finished."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlan, CheckpointPlanner, Edge, PlanFailure, Vertex
from snapline.protocol.lineage import UNKNOWN_LINEAGE, Lineage
from snapline.protocol.snapshot import VertexInfo
from snapline.types import FailureReason, SubtaskId, TaskStatus


@dataclass(frozen=True, slots=True)
class JobShape:
    """The part of a job's graph that the coordinator needs. Of two master hooks with one name the second is ignored."""

    vertices: tuple[VertexInfo, ...]
    edges: tuple[Edge, ...]
    hooks: tuple[str, ...] = ()
    lineage: Lineage = UNKNOWN_LINEAGE

    def __post_init__(self) -> None:
        object.__setattr__(self, "hooks", tuple(dict.fromkeys(self.hooks)))

    def coordinators(self) -> dict[str, VertexInfo]:
        return {uid: vertex for vertex in self.vertices for uid in vertex.coordinators}


class TaskBoard:
    """The status of every task; `finished` had finished before the attempt began."""

    def __init__(self, shape: JobShape, *, allow_finished: bool, finished: Iterable[SubtaskId] = ()) -> None:
        self._planner = CheckpointPlanner(
            [Vertex(vertex.id, vertex.parallelism) for vertex in shape.vertices],
            shape.edges,
            allow_finished=allow_finished,
        )
        self._not_running = {subtask for vertex in shape.vertices for subtask in vertex.subtasks()}
        self._finished: set[SubtaskId] = set()
        for subtask in finished:
            self.update(subtask, TaskStatus.FINISHED)

    def update(self, subtask: SubtaskId, status: TaskStatus) -> None:
        """Note a new status. A finished task stays finished: messages may be late."""
        if status is TaskStatus.RUNNING or status is TaskStatus.FINISHED:
            self._not_running.discard(subtask)
        else:
            self._not_running.add(subtask)
        if status is TaskStatus.FINISHED:
            self._finished.add(subtask)

    def restarted(self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """These subtasks start again, except those `finished` according to the snapshot."""
        self._not_running.update(subtasks)
        self._finished.difference_update(subtasks)
        for subtask in finished:
            self.update(subtask, TaskStatus.FINISHED)

    def is_running(self, subtask: SubtaskId) -> bool:
        return subtask not in self._not_running and subtask not in self._finished

    def plan(self) -> CheckpointPlan | PlanFailure:
        """The plan of a checkpoint that starts now."""
        plan = self._planner.plan(finished=self._finished, not_running=self._not_running)
        if isinstance(plan, CheckpointPlan) and not plan.wait:
            return PlanFailure(FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, "every task has finished", ())
        return plan
