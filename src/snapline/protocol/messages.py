"""Messages between the driver and its tasks. Each is one type for the machine that emits it, the wire, and the machine
that handles it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.snapshot import SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.types import NO_CHECKPOINT, Barrier, ExecutionId, FailureReason, TaskStatus

# From the driver to a task.


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Start a checkpoint at this task: a source, or one whose upstream has finished."""

    execution: ExecutionId
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """A checkpoint is complete and durable; `subsumed_id` is the newest one it replaced."""

    execution: ExecutionId
    checkpoint_id: int
    subsumed_id: int = NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class CheckpointAborted:
    """A checkpoint failed."""

    execution: ExecutionId
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class OperatorEvent:
    """Plain data from an operator coordinator to one of its subtasks; answered with `OperatorEventReceived`."""

    execution: ExecutionId
    operator: str
    sequence: int
    event: Any


# From a task to the driver.


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A subtask's part of a checkpoint is durable. `state` has an entry per operator of its chain."""

    execution: ExecutionId
    checkpoint_id: int
    state: Mapping[str, SubtaskState]
    metrics: SubtaskMetrics


@dataclass(frozen=True, slots=True)
class Decline:
    """A subtask takes no part in a checkpoint."""

    execution: ExecutionId
    checkpoint_id: int
    reason: FailureReason
    message: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointMeasured:
    """What a subtask has measured of a checkpoint that it gave up before it could acknowledge."""

    execution: ExecutionId
    checkpoint_id: int
    metrics: SubtaskMetrics


@dataclass(frozen=True, slots=True)
class EventToCoordinator:
    """Encoded plain data from a subtask to the coordinator of one of its operators.

    `after` is the last checkpoint whose snapshot the subtask had taken. None marks a request that the subtask repeats
    after a restore, so that no checkpoint has to keep it.
    """

    execution: ExecutionId
    operator: str
    after: int | None
    event: bytes


@dataclass(frozen=True, slots=True)
class OperatorEventReceived:
    """The subtask has the event; later messages arrive after it."""

    attempt: int
    sequence: int


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task changed its status. For a failure, `error` is one line, `trace` the whole, `log` the last log lines.

    `is_final` means that no restart can help: the restored state is damaged or does not fit the code, or a setting is
    wrong. `identity` tells whether the same error happens again; None if the environment failed.
    """

    execution: ExecutionId
    status: TaskStatus
    error: str = ""
    trace: str = ""
    log: str = ""
    is_final: bool = False
    identity: ErrorIdentity | None = None
