"""Which subtasks a checkpoint triggers, waits for, and notifies when it is complete."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from snapline.errors import ConfigurationError
from snapline.types import FailureReason, SubtaskId

MAX_NAMED_SUBTASKS = 10
"""Subtasks named in the message of a failure; `PlanFailure.subtasks` holds all of them."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A vertex of the job and its number of subtasks."""

    id: str
    parallelism: int


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the job: `pointwise` from each subtask to a few, else from all to all."""

    source: str
    target: str
    pointwise: bool


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The subtasks of one checkpoint, each tuple in topological order and then by index.

    `finished_subtasks` holds every finished subtask, those of the `finished_vertices` included; the metadata marks
    the latter once per vertex and the others one by one.
    """

    trigger: tuple[SubtaskId, ...]
    wait: tuple[SubtaskId, ...]
    commit: tuple[SubtaskId, ...]
    finished_vertices: tuple[str, ...] = ()
    finished_subtasks: tuple[SubtaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanFailure:
    """Why no checkpoint can be taken now, and because of which subtasks."""

    reason: FailureReason
    message: str
    subtasks: tuple[SubtaskId, ...]


def pointwise_sources(target_index: int, source_parallelism: int, target_parallelism: int) -> range:
    """The upstream subtasks that feed a downstream subtask over a pointwise edge; never empty."""
    first = target_index * source_parallelism // target_parallelism
    stop = (target_index + 1) * source_parallelism // target_parallelism
    # With fewer sources than targets several targets share one source, and `stop` may not have moved past it.
    return range(first, max(stop, first + 1))


class CheckpointPlanner:
    """Makes the plan of each checkpoint of one job.

    Raises `ConfigurationError` for a duplicate or unknown vertex, a parallelism below 1 or a cycle. Without
    `allow_finished` no checkpoint is possible once a subtask has finished.
    """

    def __init__(self, vertices: Iterable[Vertex], edges: Iterable[Edge], *, allow_finished: bool = True) -> None:
        by_id: dict[str, Vertex] = {}
        for vertex in vertices:
            if vertex.id in by_id:
                raise ConfigurationError(f"two vertices have the id {vertex.id!r}; give each its own")
            if vertex.parallelism < 1:
                raise ConfigurationError(f"vertex {vertex.id!r} has parallelism {vertex.parallelism}; use at least 1")
            by_id[vertex.id] = vertex
        inputs: dict[str, list[Edge]] = {vertex_id: [] for vertex_id in by_id}
        for edge in edges:
            for end in (edge.source, edge.target):
                if end not in by_id:
                    raise ConfigurationError(f"edge {edge.source!r} -> {edge.target!r}: there is no vertex {end!r}")
            inputs[edge.target].append(edge)
        self._vertices = by_id
        self._inputs = inputs
        self._order = [by_id[vertex_id] for vertex_id in _topological_order(inputs)]
        self._subtasks = {v.id: tuple(SubtaskId(v.id, i) for i in range(v.parallelism)) for v in self._order}
        self._allow_finished = allow_finished
        self._all_running = self._walk({})

    def plan(
        self, *, finished: AbstractSet[SubtaskId] = frozenset(), not_running: AbstractSet[SubtaskId] = frozenset()
    ) -> CheckpointPlan | PlanFailure:
        """The plan while `finished` have finished and all others but `not_running` run.

        A subtask in both counts as finished. An unknown subtask raises `ConfigurationError`.
        """
        finished_of = self._by_vertex(finished)
        self._by_vertex(not_running)
        if finished and not self._allow_finished:
            advice = "set after_tasks_finish to go on with checkpoints, or let the job end without"
            return _failure("have finished", finished, advice)
        if unready := not_running - finished:
            return _failure("are not running", unready, "trigger again once they run")
        return self._walk(finished_of) if finished else self._all_running

    def _by_vertex(self, subtasks: Iterable[SubtaskId]) -> dict[str, set[int]]:
        indexes: dict[str, set[int]] = {}
        for subtask in subtasks:
            vertex = self._vertices.get(subtask.vertex)
            if vertex is None:
                raise ConfigurationError(f"subtask {subtask}: there is no vertex {subtask.vertex!r}")
            if not 0 <= subtask.index < vertex.parallelism:
                raise ConfigurationError(f"subtask {subtask}: the vertex has only {vertex.parallelism} subtasks")
            indexes.setdefault(subtask.vertex, set()).add(subtask.index)
        return indexes

    def _walk(self, finished_of: Mapping[str, AbstractSet[int]]) -> CheckpointPlan:
        trigger: list[SubtaskId] = []
        running: list[SubtaskId] = []
        finished_vertices: list[str] = []
        finished_subtasks: list[SubtaskId] = []
        for vertex in self._order:
            subtasks = self._subtasks[vertex.id]
            if finished := finished_of.get(vertex.id):
                finished_subtasks.extend(subtasks[index] for index in sorted(finished))
                if len(finished) == vertex.parallelism:
                    finished_vertices.append(vertex.id)
                subtasks = tuple(subtask for subtask in subtasks if subtask.index not in finished)
            running.extend(subtasks)
            trigger.extend(self._without_running_input(vertex, subtasks, finished_of))
        everyone = tuple(running)
        return CheckpointPlan(tuple(trigger), everyone, everyone, tuple(finished_vertices), tuple(finished_subtasks))

    def _without_running_input(
        self, vertex: Vertex, subtasks: Sequence[SubtaskId], finished_of: Mapping[str, AbstractSet[int]]
    ) -> Sequence[SubtaskId]:
        """The subtasks that no running subtask feeds: no barrier would reach them."""
        for edge in self._inputs[vertex.id]:
            sources = self._vertices[edge.source].parallelism
            finished = finished_of.get(edge.source, frozenset[int]())
            if len(finished) == sources:
                continue
            if not edge.pointwise or not finished:
                return ()
            subtasks = [
                subtask
                for subtask in subtasks
                if all(source in finished for source in pointwise_sources(subtask.index, sources, vertex.parallelism))
            ]
        return subtasks


def _topological_order(inputs: Mapping[str, Sequence[Edge]]) -> list[str]:
    outputs: dict[str, list[str]] = {vertex_id: [] for vertex_id in inputs}
    for edges in inputs.values():
        for edge in edges:
            outputs[edge.source].append(edge.target)
    waiting_for = {vertex_id: len(edges) for vertex_id, edges in inputs.items()}
    ready = deque(vertex_id for vertex_id, count in waiting_for.items() if count == 0)
    order: list[str] = []
    while ready:
        order.append(vertex_id := ready.popleft())
        for target in outputs[vertex_id]:
            waiting_for[target] -= 1
            if waiting_for[target] == 0:
                ready.append(target)
    if len(order) < len(inputs):
        stuck = ", ".join(repr(vertex_id) for vertex_id, count in waiting_for.items() if count > 0)
        raise ConfigurationError(f"the graph has a cycle among or ahead of {stuck}; remove the edge that leads back")
    return order


def _failure(what: str, subtasks: AbstractSet[SubtaskId], advice: str) -> PlanFailure:
    ordered = tuple(sorted(subtasks))
    names = ", ".join(map(str, ordered[:MAX_NAMED_SUBTASKS]))
    if len(ordered) > MAX_NAMED_SUBTASKS:
        names += f" and {len(ordered) - MAX_NAMED_SUBTASKS} more"
    message = f"no checkpoint: {names} {what}; {advice}"
    return PlanFailure(FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, message, ordered)
