"""Operator coordinators of sources: they deal out splits, and their events reach the subtasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapline.devtools.simulator.archive import Archive
from snapline.devtools.simulator.deployment import Deployment
from snapline.devtools.simulator.kernel import Process
from snapline.devtools.simulator.recovery import Recovery
from snapline.devtools.simulator.scenario import Role
from snapline.devtools.simulator.task import SimTask
from snapline.devtools.simulator.world import World
from snapline.protocol.coordinator import coordinator_events as c
from snapline.types import ExecutionId, SubtaskId

Feed = Callable[[c.CoordinatorEvent], None]


class SplitCoordinator:
    """A source's operator coordinator: deals out splits."""

    def __init__(self, splits: Sequence[int]) -> None:
        self.unassigned = list(splits)

    def next_split(self) -> int | None:
        return self.unassigned.pop(0) if self.unassigned else None


class Splits:
    """The operator coordinators of all sources of a job, in one driver."""

    def __init__(self, world: World, process: Process, deployment: Deployment) -> None:
        self._world = world
        self._process = process
        self._deployment = deployment
        self._coordinators: dict[str, SplitCoordinator] = {}
        self._delivered: set[tuple[int, int]] = set()

    def restore(self, recovery: Recovery, archive: Archive) -> None:
        """Begin a new attempt with what the restored snapshot says is unassigned."""
        self._delivered.clear()
        self._coordinators = {}
        for vertex in self._world.scenario.topology.vertices:
            if vertex.role is Role.SOURCE:
                splits: Sequence[int] = range(len(vertex.splits))
                if recovery.plan is not None:
                    state = recovery.plan.coordinators.get(vertex.id)
                    splits = archive.read_inline(state) if state is not None else ()
                self._coordinators[vertex.id] = SplitCoordinator(splits)

    def unassigned(self, operator: str) -> Sequence[int]:
        """The state of an operator coordinator."""
        return self._coordinators[operator].unassigned

    def assign(self, subtask: SubtaskId) -> c.OperatorEventSent:
        """What an operator coordinator sends to a subtask that asks: a split, or none if there are no more."""
        split = self._coordinators[subtask.vertex].next_split()
        return c.OperatorEventSent(subtask.vertex, subtask.index, split)

    def deliver(self, attempt: int, order: c.DeliverOperatorEvent, feed: Feed) -> None:
        """Carry an event to its subtask; `feed` hears that it is confirmed or lost, or nothing if the driver dies."""
        execution = ExecutionId(SubtaskId(order.operator, order.subtask), attempt)
        slot = self._deployment.slot_of(execution)
        lost = c.OperatorEventLost(order.sequence)
        if slot is None:
            feed(lost)
            return
        self._world.network.send(
            self._process,
            slot.process,
            self._arrive,
            slot.tasks[execution],
            order,
            feed,
            lost=lambda: feed(lost),
        )

    def _arrive(self, task: SimTask, order: c.DeliverOperatorEvent, feed: Feed) -> None:
        key = (task.execution.attempt, order.sequence)
        if key not in self._delivered and task.process.alive:
            self._delivered.add(key)
            task.coordinator_event(order.event)
        slot = self._deployment.slot_of(task.execution)
        if slot is not None:
            confirmed, lost = c.OperatorEventConfirmed(order.sequence), c.OperatorEventLost(order.sequence)
            self._world.network.send(
                slot.process, self._process, feed, confirmed, lost=lambda: self._confirmation_lost(lost, feed)
            )

    def _confirmation_lost(self, event: c.OperatorEventLost, feed: Feed) -> None:
        """Nobody knows whether the subtask has the event."""
        self._world.kernel.after(0, self._process, feed, event)
