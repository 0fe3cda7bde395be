"""Tells tasks and operator coordinators how checkpoints have ended."""

from __future__ import annotations

from collections.abc import Iterable

from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.task_board import TaskBoard
from snapline.protocol.messages import CheckpointAborted, CheckpointCompleted
from snapline.types import ExecutionId, SubtaskId


class Notices:
    """The notices of one attempt; `effects` is the coordinator's own list."""

    def __init__(self, attempt: int, tasks: TaskBoard, effects: list[c.CoordinatorEffect]) -> None:
        self._attempt = attempt
        self._tasks = tasks
        self._effects = effects
        self._last_completed: tuple[int, int, tuple[SubtaskId, ...]] | None = None

    def completed(self, checkpoint_id: int, subsumed_id: int, subtasks: Iterable[SubtaskId]) -> None:
        """A checkpoint is complete, and `subsumed_id` is the newest that it replaced."""
        self._effects.append(c.NotifyCoordinatorsCompleted(checkpoint_id, subsumed_id))
        self._last_completed = (checkpoint_id, subsumed_id, tuple(subtasks))
        self.repeat()

    def repeat(self) -> None:
        """Tell tasks of the last completed checkpoint. A task that has heard of it ignores the notice."""
        if self._last_completed is None:
            return
        checkpoint_id, subsumed_id, subtasks = self._last_completed
        for subtask in subtasks:
            if self._tasks.is_running(subtask):
                execution = ExecutionId(subtask, self._attempt)
                self._effects.append(CheckpointCompleted(execution, checkpoint_id, subsumed_id))

    def aborted(self, checkpoint_id: int, subtasks: Iterable[SubtaskId]) -> None:
        """A checkpoint has failed."""
        self._effects.append(c.NotifyCoordinatorsAborted(checkpoint_id))
        for subtask in subtasks:
            self._effects.append(CheckpointAborted(ExecutionId(subtask, self._attempt), checkpoint_id))
