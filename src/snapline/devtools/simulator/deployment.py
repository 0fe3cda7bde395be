"""The slots of one driver: starting and stopping subtasks in them, and messages both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from snapline.devtools.simulator.channels import Channel
from snapline.devtools.simulator.kernel import Process
from snapline.devtools.simulator.recovery import Recovery
from snapline.devtools.simulator.scenario import Run
from snapline.devtools.simulator.task import SimTask, TaskContext
from snapline.devtools.simulator.world import World
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.subtask import subtask_events as s
from snapline.types import ExecutionId, Partitioning, SubtaskId, TaskStatus

CANCEL_TIMEOUT_MS = 60

Wiring = dict[tuple[str, int, int], Channel]
"""The channels of an attempt, by edge, sending subtask and receiving subtask."""


@dataclass(slots=True)
class Slot:
    """A process that runs subtasks."""

    process: Process
    tasks: dict[ExecutionId, SimTask] = field(default_factory=dict)

    def kill(self) -> None:
        self.process.alive = False
        for task in self.tasks.values():
            task.kill()


class Listener(Protocol):
    """A driver, as its subtasks see it. All but `attempt` may come late, twice, and for older attempts."""

    @property
    def attempt(self) -> int:
        """The newest attempt the driver has claimed."""

    def task_reported(self, execution: ExecutionId, status: TaskStatus, error: str) -> None:
        """A subtask tells how it is."""

    def checkpoint_answered(self, event: c.CoordinatorEvent) -> None:
        """A subtask acknowledges or declines a checkpoint."""

    def split_requested(self, execution: ExecutionId) -> None:
        """A source subtask has read all it was given."""

    def tasks_stopped(self, attempt: int) -> None:
        """Nothing of this attempt runs any more, or too long has passed to wait for it."""


class Deployment:
    """The slots of one driver and the subtasks in them, of the newest attempt and of older ones."""

    def __init__(self, world: World, job: str, run: Run, process: Process, listener: Listener) -> None:
        self.slots: list[Slot] = []
        self._world = world
        self._job = job
        self._run = run
        self._process = process
        self._listener = listener
        self._slot_count = 0
        self._stopped_slots: set[str] = set()

    # Starting.

    def deploy(self, recovery: Recovery, subtasks: Iterable[SubtaskId]) -> None:
        """Start these subtasks; all others have finished in the restored snapshot, and only tell those behind them."""
        attempt, parallelism = recovery.attempt, self._run.parallelism
        wiring = self._wire()
        while len(self.slots) < max(parallelism.values()):
            self._slot_count += 1
            self.slots.append(Slot(Process(f"slot-{self._slot_count}-of-{self._process.name}")))
        started = set(subtasks)
        for vertex in self._world.scenario.topology.vertices:
            for index in range(parallelism[vertex.id]):
                slot, execution = self.slots[index], ExecutionId(SubtaskId(vertex.id, index), attempt)
                if execution.subtask in started:
                    self._world.network.send(
                        self._process, slot.process, self._start_task, slot, execution, recovery, wiring
                    )
                else:
                    task = self._make_task(execution, recovery, wiring)
                    task.deploy_finished()
                    slot.tasks[execution] = task

    def _wire(self) -> Wiring:
        topology, parallelism = self._world.scenario.topology, self._run.parallelism
        wiring: Wiring = {}
        for edge in topology.edges:
            may_be_unaligned = edge.target not in topology.aligned_only
            for up in range(parallelism[edge.source]):
                for down in range(parallelism[edge.target]):
                    if edge.partitioning is not Partitioning.FORWARD or up == down:
                        channel = Channel(self._world.kernel, edge.id, up, down, may_be_unaligned=may_be_unaligned)
                        wiring[edge.id, up, down] = channel
        return wiring

    def _start_task(self, slot: Slot, execution: ExecutionId, recovery: Recovery, wiring: Wiring) -> None:
        if execution in slot.tasks or execution.attempt < self._listener.attempt:
            return
        task = self._make_task(execution, recovery, wiring)
        slot.tasks[execution] = task
        task.start(recovery.state_of(execution.subtask))

    def _make_task(self, execution: ExecutionId, recovery: Recovery, wiring: Wiring) -> SimTask:
        world, subtask = self._world, execution.subtask
        topology = world.scenario.topology
        vertex = next(v for v in topology.vertices if v.id == subtask.vertex)
        inputs = [
            (edge, [channel for (name, _, down), channel in wiring.items() if (name, down) == (edge.id, subtask.index)])
            for edge in topology.inputs(vertex.id)
        ]
        outputs = [
            (edge, [channel for (name, up, _), channel in wiring.items() if (name, up) == (edge.id, subtask.index)])
            for edge in topology.outputs(vertex.id)
        ]
        context = TaskContext(
            world.kernel,
            world.scenario,
            world.storage,
            world.outside,
            self._job,
            self._report,
            self._answer,
            self._request_split,
            world.checker.task_finished,
        )
        return SimTask(
            context,
            vertex,
            execution,
            self._run.parallelism[vertex.id],
            inputs,
            outputs,
            recovery.restored_id,
            recovery.prepared_until,
        )

    # Looking up.

    def slot_of(self, execution: ExecutionId) -> Slot | None:
        return next((slot for slot in self.slots if execution in slot.tasks), None)

    def running_tasks(self, attempt: int) -> list[SimTask]:
        return [
            task
            for slot in self.slots
            for task in slot.tasks.values()
            if task.process.alive and not task.has_finished and task.execution.attempt == attempt
        ]

    # Messages.

    def send(self, execution: ExecutionId, call: Callable[[SimTask], None]) -> None:
        """Tell a subtask something; it may get lost."""
        slot = self.slot_of(execution)
        if slot is not None:
            self._world.network.send(self._process, slot.process, call, slot.tasks[execution])

    def repeat_reports(self, attempt: int) -> None:
        """Have every subtask tell once more how it is."""
        for slot in self.slots:
            for execution, task in slot.tasks.items():
                if execution.attempt == attempt and task.status is not TaskStatus.DEPLOYING:
                    self._world.network.send(
                        slot.process, self._process, self._listener.task_reported, execution, task.status, "lost"
                    )

    def _report(self, task: SimTask, status: TaskStatus, error: str) -> None:
        source = self._sender(task)
        self._world.kernel.tell(str(task.execution), "{} {}", status.name, error)
        self._world.network.send(source, self._process, self._listener.task_reported, task.execution, status, error)

    def _answer(self, task: SimTask, message: s.SendAcknowledgement | s.SendDecline) -> None:
        event: c.CoordinatorEvent
        if isinstance(message, s.SendAcknowledgement):
            event = c.AcknowledgementReceived(message.execution, message.checkpoint_id, message.state, message.metrics)
        else:
            event = c.DeclineReceived(message.execution, message.checkpoint_id, message.reason, message.message)
        self._world.network.send(self._sender(task), self._process, self._listener.checkpoint_answered, event)

    def _request_split(self, task: SimTask) -> None:
        slot = self.slot_of(task.execution)
        if slot is not None:
            self._world.network.send(slot.process, self._process, self._listener.split_requested, task.execution)

    def _sender(self, task: SimTask) -> Process:
        slot = self.slot_of(task.execution)
        return slot.process if slot is not None else task.process

    # Stopping.

    def cancel(self, attempt: int) -> None:
        """Stop what runs of this attempt and older ones; the listener hears when that is done."""
        self._stopped_slots = set()
        waiting = list(self.slots)
        for slot in waiting:
            self._world.network.send(self._process, slot.process, self._cancel_slot, slot, attempt)
        self._world.kernel.after(CANCEL_TIMEOUT_MS, self._process, self._listener.tasks_stopped, attempt)
        if not waiting:
            self._listener.tasks_stopped(attempt)

    def _cancel_slot(self, slot: Slot, attempt: int) -> None:
        for execution, task in slot.tasks.items():
            if execution.attempt <= attempt:
                task.kill()
        self._world.network.send(slot.process, self._process, self._slot_stopped, slot, attempt)

    def _slot_stopped(self, slot: Slot, attempt: int) -> None:
        self._stopped_slots.add(slot.process.name)
        if all(other.process.name in self._stopped_slots for other in self.slots):
            self._listener.tasks_stopped(attempt)

    def kill(self) -> None:
        """End every slot without a word."""
        for slot in self.slots:
            slot.kill()
