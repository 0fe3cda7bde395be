"""The tasks of a job as one coordinator hands them to the next, when only some of them restart."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from snapline.protocol.coordinator.operator_events import OperatorEvents
from snapline.protocol.coordinator.task_board import JobShape, TaskBoard
from snapline.protocol.executions import Executions
from snapline.types import NO_CHECKPOINT, SubtaskId


class AttemptTasks:
    """Executions, statuses, and events on their way. `finished` had finished before the attempt began.

    `restored_id` is the job's own checkpoint that all of them were restored from.
    `last_completed` is the last completed checkpoint that tasks were told of, the newest it replaced, and whom to tell.
    """

    def __init__(
        self,
        attempt: int,
        shape: JobShape,
        *,
        allow_finished: bool,
        finished: Iterable[SubtaskId] = (),
        restored_id: int = NO_CHECKPOINT,
    ) -> None:
        finished = tuple(finished)
        self.executions = Executions(attempt)
        self.board = TaskBoard(shape, allow_finished=allow_finished, finished=finished)
        self.events = OperatorEvents(self.executions, shape.coordinators(), finished)
        self.last_completed: tuple[int, int, tuple[SubtaskId, ...]] | None = None
        self.is_news = False
        """Whether the operator coordinators that go on have not heard of the last completed checkpoint."""
        self._shape = shape
        self._restored_id = restored_id

    def restarted(
        self, attempt: int, vertices: Collection[str], finished: Iterable[SubtaskId], restored_id: int
    ) -> None:
        """These vertices start again from a completed checkpoint, in a new attempt. All others go on.

        The checkpoint may be one whose publication was under way at the failure: then the others hear of it only now.
        """
        everyone = [subtask for vertex in self._shape.vertices for subtask in vertex.subtasks()]
        kept = tuple(subtask for subtask in everyone if subtask.vertex not in vertices)
        again = frozenset(everyone) - frozenset(kept)
        self.executions.restarted(attempt, kept)
        self.board.restarted(again, again & frozenset(finished))
        self.events.restarted(again, again & frozenset(finished))
        told_id, subsumed_id, told = self.last_completed or (self._restored_id, NO_CHECKPOINT, ())
        self.is_news = self.is_news or restored_id > told_id
        if restored_id > told_id:
            self.last_completed = (restored_id, NO_CHECKPOINT, kept)
        elif self.last_completed is not None:
            self.last_completed = (told_id, subsumed_id, tuple(subtask for subtask in told if subtask not in again))
