"""Events between the operators of one subtask and their coordinators on the driver."""

from __future__ import annotations

from collections import deque
from typing import Any

from snapline.contracts.operator_coordinator import MAX_EVENT_BYTES
from snapline.contracts.plain_data import event_bytes
from snapline.protocol.messages import EventToCoordinator
from snapline.runtime.task.operator_chain import OperatorChain
from snapline.runtime.task.task_environment import Reporter
from snapline.types import NO_CHECKPOINT, ExecutionId


class CoordinatorMail:
    """The events of one subtask. Only `arrive` may be called by any thread.

    `taken_id` is the last checkpoint whose snapshot the subtask has taken: events sent later are not part of it.
    """

    def __init__(self, execution: ExecutionId, chain: OperatorChain, reporter: Reporter) -> None:
        self.taken_id = NO_CHECKPOINT
        self._execution = execution
        self._chain = chain
        self._reporter = reporter
        self._arrived: deque[tuple[str, Any]] = deque()
        self._has_ended = False

    def send(self, operator: str, event: Any, *, is_repeated: bool) -> None:
        """Send an event of an operator; `is_repeated` if the operator sends it again after a restore."""
        data = event_bytes(event, f"an event of the operator {operator!r}", MAX_EVENT_BYTES)
        after = None if is_repeated else self.taken_id
        self._reporter.event_sent(EventToCoordinator(self._execution, operator, after, data))

    def arrive(self, operator: str, event: Any) -> None:
        """Keep an event until `deliver`. Any thread."""
        self._arrived.append((operator, event))

    def deliver(self) -> None:
        """Let the operators handle what has arrived. Called before each snapshot too: a barrier may overtake mail."""
        while self._arrived:
            operator, event = self._arrived.popleft()
            if not self._has_ended or self._chain.handles_events_after_end(operator):
                self._chain.handle_event(operator, event)

    def end(self) -> None:
        """All input has ended: operators handle what has arrived, and most of them nothing that comes later."""
        self.deliver()
        self._has_ended = True
