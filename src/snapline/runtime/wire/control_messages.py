"""The messages of the control plane: plain typed data, never pickled. Those about tasks are in `protocol.messages`."""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct

from snapline.errors import PeerError
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointMeasured,
    Decline,
    EventToCoordinator,
    OperatorEvent,
    OperatorEventReceived,
    TaskReport,
    TriggerCheckpoint,
)
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.types import ExecutionId

# Both directions.


class Heartbeat(Struct, frozen=True):
    """Sign of life."""


# From a supervisor to the driver.


class SupervisorHello(Struct, frozen=True):
    """First message of a supervisor. `slot` is the number of its Spark task, `task_attempt` Spark's own id."""

    generation: int
    slot: int
    host: str
    pid: int
    python: str
    task_attempt: int


class ProcessDied(Struct, frozen=True):
    """An operator process ended by itself or did not start; `log` holds its last output."""

    incarnation: int
    error: str
    log: str


# From the driver to a supervisor.


class StartProcess(Struct, frozen=True):
    """Start an operator process, replacing any other."""

    incarnation: int


class KillProcess(Struct, frozen=True):
    """Kill this operator process without reporting its end."""

    incarnation: int


class Drain(Struct, frozen=True):
    """Kill the operator process and return: the slot goes back to Spark. If the job `has_ended`, leave nothing here."""

    has_ended: bool = False


# From an operator process to the driver.


class ProcessHello(Struct, frozen=True):
    """First message of an operator process, with the address of its data port."""

    generation: int
    slot: int
    incarnation: int
    pid: int
    host: str
    port: int


class ProcessUnable(Struct, frozen=True):
    """The process cannot run the job and a retry would not help; the error says what to do."""

    error: str


class SourceEnded(Struct, frozen=True):
    """A source subtask has read everything and waits for its last checkpoint."""

    execution: ExecutionId


class TasksCancelled(Struct, frozen=True):
    """No task of this or an older attempt runs here any more; with `regions`, none of these regions."""

    attempt: int
    regions: list[int] | None = None


class Metrics(Struct, frozen=True):
    """The metrics of all tasks of a process, sent periodically; `state_memory_bytes` if that has a limit."""

    tasks: list[TaskMetrics]
    memory_bytes: int
    state_memory_bytes: int | None = None


# From the driver to an operator process.


class TaskDeployment(Struct, frozen=True):
    """One task to start. A `finished` one runs nothing: it only ends its output partitions."""

    execution: ExecutionId
    restore: dict[str, SubtaskRestore]
    finished: bool = False


class Deploy(Struct, frozen=True):
    """Start the tasks of a region in an attempt. `peers` holds the data ports by slot.

    `max_parallelism` goes by vertex.
    `shared` is the directory of objects that several checkpoints may refer to, or None if the driver keeps them. The
    driver has cancelled older attempts of the region here before.
    """

    attempt: int
    peers: list[tuple[str, int]]
    max_parallelism: dict[str, int]
    tasks: list[TaskDeployment]
    restored_id: int
    prepared_until: int
    lineage: str = ""
    shared: str | None = None
    region: int = 0


class Cancel(Struct, frozen=True):
    """Stop all tasks of this and older attempts, or only those of `regions`; answered with `TasksCancelled`."""

    attempt: int
    regions: list[int] | None = None


ToMaster: TypeAlias = (
    Heartbeat
    | SupervisorHello
    | ProcessDied
    | ProcessHello
    | ProcessUnable
    | TaskReport
    | Acknowledge
    | Decline
    | EventToCoordinator
    | CheckpointMeasured
    | SourceEnded
    | OperatorEventReceived
    | TasksCancelled
    | Metrics
)
ToSupervisor: TypeAlias = Heartbeat | StartProcess | KillProcess | Drain
ToProcess: TypeAlias = (
    Heartbeat | Deploy | Cancel | TriggerCheckpoint | CheckpointCompleted | CheckpointAborted | OperatorEvent
)
Message: TypeAlias = ToMaster | ToSupervisor | ToProcess


def _decoders(union: Any) -> dict[str, msgspec.msgpack.Decoder[Any]]:
    return {kind.__name__: msgspec.msgpack.Decoder(kind) for kind in get_args(union)}


_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_to_master = _decoders(ToMaster)
_to_supervisor = _decoders(ToSupervisor)
_to_process = _decoders(ToProcess)


def encode(message: Message) -> bytes:
    return _encoder.encode((type(message).__name__, message))


def decode_to_master(data: bytes) -> ToMaster:
    """Raises `PeerError` unless it is a message to the driver."""
    message: ToMaster = _decoded(_to_master, data)
    return message


def decode_to_supervisor(data: bytes) -> ToSupervisor:
    message: ToSupervisor = _decoded(_to_supervisor, data)
    return message


def decode_to_process(data: bytes) -> ToProcess:
    message: ToProcess = _decoded(_to_process, data)
    return message


def _decoded(decoders: dict[str, msgspec.msgpack.Decoder[Any]], data: bytes) -> Any:
    try:
        name, fields = _envelope.decode(data)
        if name not in decoders:
            raise PeerError(f"unknown message {name[:60]!r}")
        return decoders[name].decode(fields)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PeerError(f"a message that cannot be decoded: {error}") from error
