"""The messages of the control plane: typed, plain data, never pickled."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from snapline.errors import PeerError
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.snapshot import SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import Barrier, ExecutionId, FailureReason, TaskStatus

T = TypeVar("T")


class Message(Struct, frozen=True, tag=True):
    """Base of all messages."""


# Both ways.


class Heartbeat(Message, frozen=True):
    """I am here."""


# From a supervisor to the driver.


class SupervisorHello(Message, frozen=True):
    """The first message of a supervisor. `slot` is the number of its Spark task, `task_attempt` Spark's own id."""

    generation: int
    slot: int
    host: str
    pid: int
    python: str
    task_attempt: int


class ProcessDied(Message, frozen=True):
    """An operator process has ended by itself, or could not be started; `log` is what it said last."""

    incarnation: int
    error: str
    log: str


# From the driver to a supervisor.


class StartProcess(Message, frozen=True):
    """Start an operator process in place of any other."""

    incarnation: int


class KillProcess(Message, frozen=True):
    """Kill this operator process and do not report it."""

    incarnation: int


class Drain(Message, frozen=True):
    """Kill the operator process and return: the slot is given back to Spark."""


# From an operator process to the driver.


class ProcessHello(Message, frozen=True):
    """The first message of an operator process: where its data port is."""

    generation: int
    slot: int
    incarnation: int
    pid: int
    host: str
    port: int


class ProcessUnable(Message, frozen=True):
    """The process cannot run the job, and another try would not change that; the error says what to do."""

    error: str


class TaskReport(Message, frozen=True):
    """A task has changed its status. Of a failure `error` is one line, `trace` all of it, `log` the last lines.

    `is_final` says that no restart can mend it: what was restored does not fit the code, or a setting is wrong.
    """

    execution: ExecutionId
    status: TaskStatus
    error: str = ""
    trace: str = ""
    log: str = ""
    is_final: bool = False


class Acknowledge(Message, frozen=True):
    """A subtask's part of a checkpoint is durable."""

    execution: ExecutionId
    checkpoint_id: int
    state: dict[str, SubtaskState]
    metrics: SubtaskMetrics


class Decline(Message, frozen=True):
    """A subtask takes no part in a checkpoint."""

    execution: ExecutionId
    checkpoint_id: int
    reason: FailureReason
    message: str = ""


class SplitRequest(Message, frozen=True):
    """A source subtask has read all it was given."""

    execution: ExecutionId
    operator: str


class SourceEnded(Message, frozen=True):
    """A source subtask has read everything there is, and waits for its last checkpoint."""

    execution: ExecutionId


class OperatorEventReceived(Message, frozen=True):
    """The subtask has the event; whatever reaches it later comes behind it."""

    attempt: int
    sequence: int


class TasksCancelled(Message, frozen=True):
    """No task of this attempt, or an older one, runs here any more."""

    attempt: int


class Metrics(Message, frozen=True):
    """The figures of all tasks of a process, sent from time to time."""

    tasks: list[TaskMetrics]
    memory_bytes: int


# From the driver to an operator process.


class TaskDeployment(Struct, frozen=True):
    """One task to start. One that is `finished` runs nothing: it only ends the partitions behind it."""

    execution: ExecutionId
    restore: dict[str, SubtaskRestore]
    finished: bool = False


class Deploy(Message, frozen=True):
    """Start the tasks of an attempt. `peers` are the data ports of all slots, by slot; `max_parallelism` by vertex.

    `shared` is where objects go that several checkpoints may refer to, none if the driver keeps them. Whatever ran here
    of an older attempt has been cancelled before.
    """

    attempt: int
    peers: list[tuple[str, int]]
    max_parallelism: dict[str, int]
    tasks: list[TaskDeployment]
    restored_id: int
    prepared_until: int
    shared: str | None = None


class Cancel(Message, frozen=True):
    """Stop all tasks of this attempt and older ones; answered with `TasksCancelled`."""

    attempt: int


class TriggerCheckpoint(Message, frozen=True):
    """Start a checkpoint at this task: a source, or one whose upstream has finished."""

    execution: ExecutionId
    barrier: Barrier


class CheckpointCompleted(Message, frozen=True):
    """Tell a task that a checkpoint is complete."""

    execution: ExecutionId
    checkpoint_id: int
    subsumed_id: int


class CheckpointAborted(Message, frozen=True):
    """Tell a task that a checkpoint will never be."""

    execution: ExecutionId
    checkpoint_id: int


class OperatorEvent(Message, frozen=True):
    """Something an operator coordinator sends to one of its subtasks: plain data."""

    execution: ExecutionId
    operator: str
    sequence: int
    event: Any


ToMaster: TypeAlias = (
    Heartbeat
    | SupervisorHello
    | ProcessDied
    | ProcessHello
    | ProcessUnable
    | TaskReport
    | Acknowledge
    | Decline
    | SplitRequest
    | SourceEnded
    | OperatorEventReceived
    | TasksCancelled
    | Metrics
)
ToSupervisor: TypeAlias = Heartbeat | StartProcess | KillProcess | Drain
ToProcess: TypeAlias = (
    Heartbeat | Deploy | Cancel | TriggerCheckpoint | CheckpointCompleted | CheckpointAborted | OperatorEvent
)

_encoder = msgspec.msgpack.Encoder()
_to_master: msgspec.msgpack.Decoder[ToMaster] = msgspec.msgpack.Decoder(ToMaster)
_to_supervisor: msgspec.msgpack.Decoder[ToSupervisor] = msgspec.msgpack.Decoder(ToSupervisor)
_to_worker: msgspec.msgpack.Decoder[ToProcess] = msgspec.msgpack.Decoder(ToProcess)


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_to_master(data: bytes) -> ToMaster:
    """A message to the driver; `PeerError` if it is none."""
    return _decoded(_to_master, data)


def decode_to_supervisor(data: bytes) -> ToSupervisor:
    return _decoded(_to_supervisor, data)


def decode_to_process(data: bytes) -> ToProcess:
    return _decoded(_to_worker, data)


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PeerError(f"a message that cannot be understood: {error}") from error
