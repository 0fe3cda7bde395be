"""The coordinator of simulated operators: it keeps what subtasks report, and checkpoints show whether that is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from snapline.contracts.operator_coordinator import OperatorCoordinator
from snapline.devtools.simulator.kernel import Kernel
from snapline.protocol.coordinator.coordinator_state import InFlightEvent

LEDGER_MS = 20
"""Longest duration of a ledger's call: events of subtasks, and checkpoints, have to wait for it."""

TICKETS = "tickets"
"""The state in which operators keep their tickets."""


class Ledger(OperatorCoordinator):
    """Keeps the records that subtasks report, and gives a ticket for each report."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._reported: list[int] = []
        self._given = 0
        self._completed_id = -1

    def restore(self, checkpoint_id: int, state: Any) -> None:
        self._completed_id = checkpoint_id
        self._reported, self._given = list(state["reported"]), state["given"]

    def snapshot(self, checkpoint_id: int) -> Any:
        del checkpoint_id
        self._kernel.sleep(self._kernel.between(0, LEDGER_MS))
        return {"reported": list(self._reported), "given": self._given}

    def handle_event(self, subtask: int, event: Any) -> None:
        self._kernel.sleep(self._kernel.between(0, LEDGER_MS))
        self._reported.extend(event)
        if subtask < self.context.parallelism:
            self.context.send(subtask, self._given)
            self._given += 1

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        if checkpoint_id <= self._completed_id:
            raise self._kernel.violated(f"the ledger hears of {checkpoint_id} after {self._completed_id}")
        self._completed_id = checkpoint_id

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        if checkpoint_id == self._completed_id:
            raise self._kernel.violated(f"the ledger hears that {checkpoint_id} was aborted after it was complete")


def check_ledger(
    kernel: Kernel,
    uid: str,
    kept: Any,
    in_flight: Sequence[InFlightEvent],
    marks: Sequence[int],
    tickets: Sequence[int],
    *,
    may_miss: bool,
) -> None:
    """Each record that subtasks have seen is reported or on its way, and each ticket given has arrived once.

    `kept` is the ledger's state, `marks` and `tickets` are those of its subtasks. Some tickets `may_miss`: who has
    ended takes no more.
    """
    if in_flight:
        kernel.cover("event on its way to a coordinator kept")
    reported = Counter(
        [*kept["reported"], *(mark for item in in_flight for mark in msgspec.msgpack.decode(item.event))]
    )
    if reported != Counter(marks):
        lost, extra = sorted((Counter(marks) - reported).elements()), sorted((reported - Counter(marks)).elements())
        raise kernel.violated(f"reports to the ledger of {uid}: lost {lost[:8]}, too many {extra[:8]}")
    arrived, given = sorted(tickets), list(range(kept["given"]))
    is_right = arrived == sorted(set(arrived) & set(given)) if may_miss else arrived == given
    if not is_right:
        raise kernel.violated(f"of {len(given)} tickets of {uid} these arrived: {arrived}")
