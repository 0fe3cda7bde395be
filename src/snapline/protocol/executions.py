"""Which attempt each subtask runs in. Only what its own execution says about a subtask counts."""

from __future__ import annotations

from collections.abc import Iterable

from snapline.types import ExecutionId, SubtaskId


class Executions:
    """All subtasks run in the newest attempt, except those that have not restarted with it."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self._older: dict[SubtaskId, int] = {}

    def of(self, subtask: SubtaskId) -> ExecutionId:
        return ExecutionId(subtask, self._older.get(subtask, self.attempt))

    def is_current(self, execution: ExecutionId) -> bool:
        return execution == self.of(execution.subtask)

    def restarted(self, attempt: int, kept: Iterable[SubtaskId] = ()) -> None:
        """A new attempt begins; `kept` go on in theirs."""
        self._older = {subtask: self.of(subtask).attempt for subtask in kept}
        self.attempt = attempt
