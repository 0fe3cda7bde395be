"""Holds back the events of an operator coordinator until its subtasks have reached the checkpoint."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, NamedTuple

from snapline.protocol.machine import TransitionTable


class Gate(Enum):
    """Whether events to one subtask pass."""

    OPEN = "OPEN"
    CLOSED = "CLOSED"


GATE = TransitionTable(
    "Event gate of an operator coordinator, per subtask",
    "An event sent after the coordinator's snapshot must not reach a subtask before that subtask's own snapshot.",
    Gate.OPEN,
    [
        (Gate.OPEN, "coordinator snapshotted", Gate.CLOSED),
        (Gate.CLOSED, "coordinator snapshotted", Gate.CLOSED),
        (Gate.CLOSED, "one of several checkpoints acknowledged", Gate.CLOSED),
        (Gate.CLOSED, "last checkpoint acknowledged or aborted", Gate.OPEN),
    ],
)


class Delivery(NamedTuple):
    """An event to send to a subtask now."""

    subtask: int
    event: Any


class EventGate:
    """The gate between one operator coordinator and its subtasks. Events for a subtask leave in the order sent."""

    def __init__(self, parallelism: int) -> None:
        self._state = [Gate.OPEN] * parallelism
        self._closed_by: list[set[int]] = [set() for _ in range(parallelism)]
        self._held: list[deque[tuple[frozenset[int], Any]]] = [deque() for _ in range(parallelism)]

    def send(self, subtask: int, event: Any) -> list[Delivery]:
        """Pass an event on, or hold it until every checkpoint that closed the gate has released it."""
        if self._state[subtask] is Gate.OPEN:
            return [Delivery(subtask, event)]
        self._held[subtask].append((frozenset(self._closed_by[subtask]), event))
        return []

    def close(self, checkpoint_id: int) -> None:
        """The coordinator's state for this checkpoint is taken; what it sends from now on is not part of it."""
        for subtask, closed_by in enumerate(self._closed_by):
            closed_by.add(checkpoint_id)
            self._step(subtask, "coordinator snapshotted")

    def acknowledged(self, subtask: int, checkpoint_id: int) -> list[Delivery]:
        """The subtask's own state for this checkpoint is taken."""
        return self._release(subtask, checkpoint_id)

    def released(self, checkpoint_id: int) -> list[Delivery]:
        """The checkpoint was aborted, or is complete."""
        return [delivery for subtask in range(len(self._state)) for delivery in self._release(subtask, checkpoint_id)]

    def _release(self, subtask: int, checkpoint_id: int) -> list[Delivery]:
        closed_by = self._closed_by[subtask]
        if checkpoint_id not in closed_by:
            return []
        closed_by.discard(checkpoint_id)
        if closed_by:
            self._step(subtask, "one of several checkpoints acknowledged")
        else:
            self._step(subtask, "last checkpoint acknowledged or aborted")
        deliveries = []
        held = self._held[subtask]
        while held and not held[0][0] & closed_by:
            deliveries.append(Delivery(subtask, held.popleft()[1]))
        return deliveries

    def _step(self, subtask: int, cause: str) -> None:
        self._state[subtask] = GATE.step(self._state[subtask], cause)
