"""Tells tasks and operator coordinators how checkpoints have ended."""

from __future__ import annotations

from collections.abc import Iterable

from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.attempt_tasks import AttemptTasks
from snapline.protocol.messages import CheckpointAborted, CheckpointCompleted
from snapline.types import SubtaskId


class Notices:
    """The notices of one attempt; `effects` is the coordinator's own list."""

    def __init__(self, tasks: AttemptTasks, effects: list[c.CoordinatorEffect]) -> None:
        self._tasks = tasks
        self._effects = effects

    def completed(self, checkpoint_id: int, subsumed_id: int, subtasks: Iterable[SubtaskId]) -> None:
        """A checkpoint is complete, and `subsumed_id` is the newest that it replaced."""
        self._effects.append(c.NotifyCoordinatorsCompleted(checkpoint_id, subsumed_id))
        self._tasks.last_completed = (checkpoint_id, subsumed_id, tuple(subtasks))
        self.repeat()

    def running(self) -> None:
        """All tasks run. Tell those that have not restarted if the checkpoint restored is news to them."""
        if self._tasks.is_news and self._tasks.last_completed is not None:
            checkpoint_id, subsumed_id, _ = self._tasks.last_completed
            self._effects.append(c.NotifyCoordinatorsCompleted(checkpoint_id, subsumed_id))
            self.repeat()
        self._tasks.is_news = False

    def repeat(self) -> None:
        """Tell tasks of the last completed checkpoint. A task that has heard of it ignores the notice."""
        if self._tasks.last_completed is None:
            return
        checkpoint_id, subsumed_id, subtasks = self._tasks.last_completed
        for subtask in subtasks:
            if self._tasks.board.is_running(subtask):
                execution = self._tasks.executions.of(subtask)
                self._effects.append(CheckpointCompleted(execution, checkpoint_id, subsumed_id))

    def aborted(self, checkpoint_id: int, subtasks: Iterable[SubtaskId]) -> None:
        """A checkpoint has failed."""
        self._effects.append(c.NotifyCoordinatorsAborted(checkpoint_id))
        for subtask in subtasks:
            self._effects.append(CheckpointAborted(self._tasks.executions.of(subtask), checkpoint_id))
