"""Checkpoints whose lines a source draws: the driver's trigger and the reader's line have to meet."""

from __future__ import annotations

from collections.abc import Callable

from snapline.protocol.messages import TriggerCheckpoint
from snapline.types import NO_CHECKPOINT


class CheckpointLines:
    """Keeps triggers until the reader finds their lines, and the reader behind a line until its trigger is there.

    `start` takes a trigger whose checkpoint begins now. Used by the task's thread only.
    """

    def __init__(self, start: Callable[[TriggerCheckpoint], None]) -> None:
        self._start = start
        self._triggers: dict[int, TriggerCheckpoint] = {}
        self._waiting_for = NO_CHECKPOINT
        self._settled_id = NO_CHECKPOINT
        self._has_ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether the reader stands behind a line whose trigger is not there yet."""
        return self._waiting_for != NO_CHECKPOINT

    def triggered(self, trigger: TriggerCheckpoint) -> None:
        checkpoint_id = trigger.barrier.id
        if self._has_ended or checkpoint_id == self._waiting_for:
            self._begin(trigger)
            return
        if checkpoint_id > self._waiting_for:
            self._waiting_for = NO_CHECKPOINT  # that checkpoint was given up before it reached this subtask
        self._triggers[checkpoint_id] = trigger

    def reached(self, checkpoint_id: int) -> None:
        """The reader has found a line. It must not read on while `is_waiting`."""
        if checkpoint_id in self._triggers:
            self._begin(self._triggers[checkpoint_id])
        elif checkpoint_id > self._settled_id:
            self._waiting_for = checkpoint_id

    def aborted(self, checkpoint_id: int) -> None:
        self._settle(checkpoint_id)

    def end(self) -> None:
        """No more lines will come: what the driver triggers begins at once."""
        self._has_ended = True
        for trigger in list(self._triggers.values()):
            self._begin(trigger)

    def _begin(self, trigger: TriggerCheckpoint) -> None:
        self._settle(trigger.barrier.id)
        self._start(trigger)

    def _settle(self, checkpoint_id: int) -> None:
        self._settled_id = max(self._settled_id, checkpoint_id)
        self._triggers = {known: trigger for known, trigger in self._triggers.items() if known > checkpoint_id}
        if self._waiting_for <= checkpoint_id:
            self._waiting_for = NO_CHECKPOINT
