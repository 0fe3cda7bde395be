"""What a task needs: its plan, its reporter, and the threads it may use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from snapline.config import Checkpoints, Execution
from snapline.graph.execution_plan import PlannedOperator, PlannedVertex
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.messages import Acknowledge, CheckpointMeasured, Decline, EventToCoordinator
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.runtime.job_logs import set_log_fields
from snapline.runtime.scheduler.scheduler import Threads
from snapline.runtime.task.task_states import make_states
from snapline.state.subtask_states import SubtaskStates
from snapline.text import show_values
from snapline.types import ExecutionId, TaskStatus


class Reporter(Protocol):
    """Takes a task's reports, on the task's thread; must not block for long."""

    def task_changed(
        self,
        execution: ExecutionId,
        status: TaskStatus,
        error: str = "",
        trace: str = "",
        *,
        is_final: bool = False,
        identity: ErrorIdentity | None = None,
    ) -> None:
        """A task runs, has finished or has failed; see `TaskReport`."""

    def checkpoint_answered(self, answer: Acknowledge | Decline | CheckpointMeasured) -> None: ...

    def event_sent(self, event: EventToCoordinator) -> None: ...

    def source_ended(self, execution: ExecutionId) -> None: ...


class MakeStates(Protocol):
    """Creates the empty state of an operator; see `make_states`."""

    def __call__(
        self,
        planned: PlannedOperator,
        *,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        execution: Execution,
        directory: Callable[[], Path],
        clock: Callable[[], int],
    ) -> SubtaskStates: ...


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """Shared by the tasks of a process: pools for state, in-flight data and blocking calls of operators."""

    threads: Threads
    state: Executor
    channels: Executor
    background: Executor
    make_states: MakeStates = make_states


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of one execution. `directory` returns a path of its own on this machine, not created yet.

    `in_unison` are the vertices whose subtasks are idle or not together.
    """

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
    lineage: str
    directory: Callable[[], Path]
    in_unison: frozenset[str] = frozenset()

    def enter_thread(self) -> None:
        """Call it first on the task's thread: messages may show rows or not, and logs say whose they are."""
        show_values(self.settings.show_rows)
        subtask, attempt = self.execution
        set_log_fields(job_id=self.job_id, attempt=attempt, vertex=subtask.vertex, subtask=subtask.index)
