"""The last checkpoint of a bounded job: taken once all sources have ended, not at the next interval."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from snapline.protocol.machine import TransitionTable
from snapline.types import SubtaskId

RETRY_MS = 1000
PAUSE_MS = 100
"""Pause before the next checkpoint, for subtasks that had not seen the end of the data at the previous one.

It doubles each time, up to `RETRY_MS`: those that have seen it may wait long for their last commit.
"""


class Ending(Enum):
    """Where a bounded job stands on its way to its last checkpoint."""

    READING = "READING"
    TAKING = "TAKING"
    WAITING = "WAITING"


_E = Ending
LAST_CHECKPOINT = TransitionTable(
    "Last checkpoint of a bounded job",
    "Subtasks that had not seen the end of the data when one checkpoint was taken need another.",
    _E.READING,
    [
        (_E.READING, "sources ended", _E.TAKING),
        (_E.TAKING, "checkpoint completed", _E.WAITING),
        (_E.TAKING, "checkpoint failed", _E.WAITING),
        (_E.WAITING, "checkpoint completed", _E.WAITING),
        (_E.WAITING, "time is up", _E.TAKING),
        *[(state, "attempt over", _E.READING) for state in _E],
    ],
)


@dataclass(frozen=True, slots=True)
class RequestLastCheckpoint:
    """Ask the coordinator for a checkpoint marked as a last one."""


@dataclass(frozen=True, slots=True)
class SetLastCheckpointTimer:
    """Call `time_is_up` after this delay; replaces an earlier timer."""

    delay_ms: int


LastCheckpointEffect: TypeAlias = RequestLastCheckpoint | SetLastCheckpointTimer


class LastCheckpoint:
    """Tracks which sources of the attempt still read, and requests the last checkpoint when none does."""

    def __init__(self, *, is_wanted: bool) -> None:
        self.state = LAST_CHECKPOINT.initial
        self._is_wanted = is_wanted
        self._reading: set[SubtaskId] = set()
        self._is_running = False
        self._pause_ms = PAUSE_MS

    def prepared(self, sources: Iterable[SubtaskId], again: Collection[SubtaskId] | None = None) -> None:
        """An attempt is about to start with these source subtasks. With `again` only these restart."""
        self._step("attempt over")
        going_on = set() if again is None else {subtask for subtask in self._reading if subtask not in again}
        self._reading = going_on | set(sources)
        self._is_running = False
        self._pause_ms = PAUSE_MS

    def running(self) -> list[LastCheckpointEffect]:
        """All tasks of the attempt run."""
        self._is_running = True
        return self._take_if_due()

    def left(self) -> None:
        """The job has left the running state."""
        self._is_running = False
        self._step("attempt over")

    def source_ended(self, subtask: SubtaskId) -> list[LastCheckpointEffect]:
        self._reading.discard(subtask)
        return self._take_if_due()

    def completed(self) -> list[LastCheckpointEffect]:
        """A checkpoint is complete, requested here or not."""
        if self.state is Ending.READING:
            return []
        self._step("checkpoint completed")
        pause_ms, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, RETRY_MS)
        return [SetLastCheckpointTimer(pause_ms)]

    def failed(self) -> list[LastCheckpointEffect]:
        """A checkpoint requested here has failed."""
        if self.state is not Ending.TAKING:
            return []
        self._step("checkpoint failed")
        return [SetLastCheckpointTimer(RETRY_MS)]

    def time_is_up(self) -> list[LastCheckpointEffect]:
        if self.state is not Ending.WAITING:
            return []
        self._step("time is up")
        return [RequestLastCheckpoint()]

    def _take_if_due(self) -> list[LastCheckpointEffect]:
        is_due = self._is_wanted and self._is_running and not self._reading
        if not is_due or self.state is not Ending.READING:
            return []
        self._step("sources ended")
        return [RequestLastCheckpoint()]

    def _step(self, cause: str) -> None:
        self.state = LAST_CHECKPOINT.step(self.state, cause)
