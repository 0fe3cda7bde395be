"""Events from operator coordinators to their subtasks: in order, confirmed, on the right side of each barrier."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from snapline.protocol.coordinator.event_gate import Delivery, EventGate
from snapline.protocol.messages import OperatorEvent
from snapline.protocol.snapshot import VertexInfo
from snapline.types import ExecutionId, SubtaskId


class OperatorEvents:
    """The gates of all operator coordinators, and the events that are not confirmed yet.

    The next event for a subtask leaves when the one before is confirmed, so that a late or repeated message cannot
    change the order.
    """

    def __init__(self, attempt: int, vertices: Mapping[str, VertexInfo]) -> None:
        self._attempt = attempt
        self._vertices = vertices
        self._gates = {operator: EventGate(vertex.parallelism) for operator, vertex in vertices.items()}
        self._next_sequence = 0
        self._unconfirmed: dict[int, tuple[str, int]] = {}
        self._waiting: dict[tuple[str, int], deque[OperatorEvent]] = {}

    def send(self, operator: str, subtask: int, event: Any) -> list[OperatorEvent]:
        """An operator coordinator sends an event. It leaves at once, or when the gate and earlier events let it."""
        sequence = self._next_sequence
        self._next_sequence += 1
        self._unconfirmed[sequence] = (operator, subtask)
        execution = ExecutionId(SubtaskId(self._vertices[operator].id, subtask), self._attempt)
        order = OperatorEvent(execution, operator, sequence, event)
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
        return [
            order
            for operator, gate in self._gates.items()
            for order in self._pass(operator, gate.released(checkpoint_id))
        ]

    def confirmed(self, sequence: int) -> list[OperatorEvent]:
        """A subtask has an event; the next one for it may leave."""
        target = self._unconfirmed.pop(sequence, None)
        if target is None:
            return []
        waiting = self._waiting[target]
        if waiting and waiting[0].sequence == sequence:
            waiting.popleft()
        return [waiting[0]] if waiting else []

    def is_unconfirmed(self, sequence: int) -> bool:
        return sequence in self._unconfirmed

    def _pass(self, operator: str, deliveries: Iterable[Delivery]) -> list[OperatorEvent]:
        orders = []
        for subtask, order in deliveries:
            waiting = self._waiting.setdefault((operator, subtask), deque())
            waiting.append(order)
            if len(waiting) == 1:
                orders.append(order)
        return orders
