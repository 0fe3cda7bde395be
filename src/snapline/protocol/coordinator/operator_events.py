"""Events between operator coordinators and their subtasks: in order, and on the right side of each barrier."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.coordinator_state import InFlightEvent
from snapline.protocol.coordinator.event_gate import Delivery, EventGate
from snapline.protocol.executions import Executions
from snapline.protocol.messages import EventToCoordinator, OperatorEvent
from snapline.protocol.snapshot import VertexInfo
from snapline.types import SubtaskId

MAX_UNCONFIRMED_EVENTS = 10_000
"""Events of one attempt that may be on their way to subtasks, or wait to be sent."""

MAX_KEPT_BYTES = 64 << 20
"""Events on their way to coordinators that one checkpoint keeps, in its metadata."""


class OperatorEvents:
    """The gates of all operator coordinators, the events that are not confirmed yet, and those that checkpoints keep.

    An event waits until its subtask runs. The next event for a subtask leaves when the one before is confirmed, so that
    a late or repeated message cannot change the order. Events for a subtask that has finished are dropped.
    """

    def __init__(
        self, executions: Executions, vertices: Mapping[str, VertexInfo], finished: Iterable[SubtaskId] = ()
    ) -> None:
        self._executions = executions
        self._vertices = vertices
        self._gates = {operator: EventGate(vertex.parallelism) for operator, vertex in vertices.items()}
        self._next_sequence = 0
        self._unconfirmed: dict[int, tuple[str, int]] = {}
        self._waiting: dict[tuple[str, int], deque[OperatorEvent]] = {}
        self._running: set[SubtaskId] = set()
        self._finished = set(finished)
        self._in_flight: dict[int, dict[str, list[InFlightEvent]]] = {}
        self._kept_bytes: dict[int, int] = {}

    # Subtasks.

    def started(self, subtask: SubtaskId) -> list[OperatorEvent]:
        """A subtask runs. Returns the events that have waited for it."""
        if subtask in self._running:
            return []
        self._running.add(subtask)
        return [orders[0] for orders in self._waiting.values() if orders and orders[0].execution.subtask == subtask]

    def finished(self, subtask: SubtaskId) -> list[int]:
        """A subtask has finished. Returns the sequence numbers of the events for it, which are dropped."""
        self._finished.add(subtask)
        dropped = [number for number, target in self._unconfirmed.items() if self._subtask(*target) == subtask]
        for number in dropped:
            self._waiting.pop(self._unconfirmed.pop(number), None)
        return dropped

    def restarted(self, subtasks: Collection[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """These subtasks start again, with new coordinators: forget what was on its way to them."""
        for operator, vertex in self._vertices.items():
            if any(subtask.vertex == vertex.id for subtask in subtasks):
                self._gates[operator] = EventGate(vertex.parallelism)
        for number, target in list(self._unconfirmed.items()):
            if self._subtask(*target) in subtasks:
                del self._unconfirmed[number]
                self._waiting.pop(target, None)
        self._running.difference_update(subtasks)
        self._finished = self._finished - set(subtasks) | set(finished)

    def _subtask(self, operator: str, index: int) -> SubtaskId:
        return SubtaskId(self._vertices[operator].id, index)

    # To subtasks.

    def send(self, operator: str, subtask: int, event: Any) -> Sequence[OperatorEvent | c.FailJob]:
        """An operator coordinator sends an event. It leaves at once, or when the gate and earlier events let it."""
        target = self._subtask(operator, subtask)
        if target in self._finished:
            return []
        if len(self._unconfirmed) >= MAX_UNCONFIRMED_EVENTS:
            cause = f"{MAX_UNCONFIRMED_EVENTS} events of coordinators wait for their subtasks, the last of {operator!r}"
            return [c.FailJob(f"{cause}; send fewer events, or more in one")]
        sequence = self._next_sequence
        self._next_sequence += 1
        self._unconfirmed[sequence] = (operator, subtask)
        order = OperatorEvent(self._executions.of(target), operator, sequence, event)
        return self._pass(operator, self._gates[operator].send(subtask, order))

    def snapshotted(self, operator: str, checkpoint_id: int) -> set[int]:
        """The coordinator's state is taken: close the gate. Returns the unconfirmed events that belong to the state.

        They must arrive before the barrier starts, including those that an earlier checkpoint still holds back.
        """
        self._gates[operator].close(checkpoint_id)
        return {sequence for sequence, (sender, _) in self._unconfirmed.items() if sender == operator}

    def acknowledged(self, operator: str, subtask: int, checkpoint_id: int) -> list[OperatorEvent]:
        """A subtask's own state is taken: events held back for it may follow."""
        return self._pass(operator, self._gates[operator].acknowledged(subtask, checkpoint_id))

    def released(self, checkpoint_id: int) -> list[OperatorEvent]:
        """The checkpoint is complete or aborted."""
        self._in_flight.pop(checkpoint_id, None)
        self._kept_bytes.pop(checkpoint_id, None)
        return [
            order
            for operator, gate in self._gates.items()
            for order in self._pass(operator, gate.released(checkpoint_id))
        ]

    def is_expected(self, sequence: int, attempt: int) -> bool:
        """Whether a confirmation from this attempt counts."""
        target = self._unconfirmed.get(sequence)
        return target is not None and self._executions.of(self._subtask(*target)).attempt == attempt

    def confirmed(self, sequence: int) -> list[OperatorEvent]:
        """A subtask has an event; the next one for it may leave."""
        target = self._unconfirmed.pop(sequence, None)
        if target is None:
            return []
        waiting = self._waiting[target]
        if waiting and waiting[0].sequence == sequence:
            waiting.popleft()
        return [waiting[0]] if waiting else []

    def lost(self, sequence: int) -> list[c.FailJob]:
        """An event did not reach its subtask, as far as is known: only a restart brings both sides together again."""
        if sequence not in self._unconfirmed:
            return []
        vertex = self._subtask(*self._unconfirmed[sequence]).vertex
        return [c.FailJob(f"operator event {sequence} did not reach its subtask", vertex)]

    def _pass(self, operator: str, deliveries: Iterable[Delivery]) -> list[OperatorEvent]:
        orders = []
        for index, order in deliveries:
            subtask = order.execution.subtask
            if subtask in self._finished:
                continue
            waiting = self._waiting.setdefault((operator, index), deque())
            waiting.append(order)
            if len(waiting) == 1 and subtask in self._running:
                orders.append(order)
        return orders

    # From subtasks.

    def keep(self, checkpoint_id: int) -> None:
        """The coordinators take their snapshots now: events that they handle later may belong to the checkpoint."""
        self._in_flight[checkpoint_id] = {operator: [] for operator in self._vertices}
        self._kept_bytes[checkpoint_id] = 0

    def received(self, message: EventToCoordinator) -> Sequence[c.DeliverEvent | c.FailJob]:
        """A subtask has sent an event. Checkpoints that it was sent before, and handled after, keep it."""
        if not self._executions.is_current(message.execution):
            return []
        index, after = message.execution.subtask.index, message.after
        for checkpoint_id, kept in self._in_flight.items():
            if after is not None and after < checkpoint_id:
                kept[message.operator].append(InFlightEvent(index, message.event))
                self._kept_bytes[checkpoint_id] += len(message.event)
                if self._kept_bytes[checkpoint_id] > MAX_KEPT_BYTES:
                    cause = f"checkpoint {checkpoint_id} has to keep more than {MAX_KEPT_BYTES} bytes of events"
                    which = f"on their way to coordinators, the last to that of {message.operator!r}"
                    return [c.FailJob(f"{cause} {which}; send fewer or smaller events")]
        return [c.DeliverEvent(message.operator, index, message.event)]

    def in_flight(self, checkpoint_id: int) -> Mapping[str, list[InFlightEvent]]:
        """By operator, what the checkpoint keeps. Complete once all subtasks have acknowledged."""
        return self._in_flight.get(checkpoint_id, {})
