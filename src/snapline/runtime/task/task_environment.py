"""What a task has around it: what it is to do, whom it tells, and the threads it may use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from snapline.api.settings import Execution
from snapline.config import Checkpoints
from snapline.graph.execution_plan import PlannedVertex
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.subtask import subtask_events as s
from snapline.types import ExecutionId, TaskStatus


class Reporter(Protocol):
    """Whom a task tells. Called from the task's thread; must not block for long."""

    def task_changed(
        self, execution: ExecutionId, status: TaskStatus, error: str = "", trace: str = "", *, is_final: bool = False
    ) -> None:
        """A task runs, has finished, or has failed; `is_final` says that no restart can mend it."""

    def checkpoint_answered(self, answer: s.SendAcknowledgement | s.SendDecline) -> None:
        """A task acknowledges or declines a checkpoint."""

    def split_wanted(self, execution: ExecutionId, operator: str) -> None:
        """A source subtask has read all it was given."""

    def source_ended(self, execution: ExecutionId) -> None:
        """A source subtask has read everything there is."""


@dataclass(frozen=True, slots=True)
class Executors:
    """Threads shared by the tasks of a process: for state, for in-flight data, and for what operators ask for."""

    state: Executor
    channels: Executor
    background: Executor


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What one execution is to do. `directory` gives one of its own on this machine, not there yet."""

    job_id: str
    execution: ExecutionId
    vertex: PlannedVertex
    max_parallelism: int
    checkpoints: Checkpoints
    settings: Execution
    takes_last_checkpoint: bool
    restore: dict[str, SubtaskRestore]
    restored_id: int
    prepared_until: int
    directory: Callable[[], Path]
