"""Control messages on the wire: what goes in comes out, and nothing else gets through."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, get_args

import msgspec
import pytest

from snapline.errors import PeerError
from snapline.protocol import messages as p
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.redistribution import ElementRange
from snapline.protocol.restore.restore_plan import ChannelRestore, KeyedRestore, SubtaskRestore
from snapline.protocol.snapshot import ChannelPart, KeyedPart, OperatorPart, StoredObject, SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.runtime.task.task_meter import TaskMeter
from snapline.runtime.wire import control_messages as m
from snapline.types import (
    Barrier,
    BarrierKind,
    ExecutionId,
    FailureReason,
    OperatorStateMode,
    SavepointFormat,
    SnapshotKind,
    SubtaskId,
    TaskStatus,
)

ME = ExecutionId(SubtaskId("map", 1), 3)
STORED = StoredObject("chk/map-1", 3, shared_key="k", reused=True, offset=7, crc32=5, data=b"\x00\xff\x01")
STATE = SubtaskState(
    keyed=(KeyedPart(KeyGroupRange(0, 63), (STORED,)),),
    operator=(OperatorPart("offsets", OperatorStateMode.UNION, 2, STORED),),
    ended=True,
)
RESTORE = SubtaskRestore(
    keyed=(KeyedRestore(STATE.keyed[0], KeyGroupRange(0, 31)),),
    operator={"offsets": (ElementRange(STORED, 1, 3),)},
    inputs=(ChannelRestore(ChannelPart("edge", 0, 1, STORED), True, (1, 2)),),
)
BARRIER = Barrier(
    7, 100, BarrierKind.ALIGNED_WITH_TIMEOUT, 50, SnapshotKind.SAVEPOINT, True, True, "sp-7", SavepointFormat.NATIVE
)
TO_MASTER: list[Any] = [
    m.Heartbeat(),
    m.SupervisorHello(1, 2, "node", 3, "3.11", 4),
    m.ProcessDied(1, "killed", "log"),
    m.ProcessHello(1, 2, 3, 4, "node", 5),
    m.ProcessUnable("no module"),
    p.TaskReport(ME, TaskStatus.FAILED, "boom", "trace", "log", True),
    p.TaskReport(ME, TaskStatus.FAILED, "boom", identity=ErrorIdentity("map", "ValueError")),
    p.Acknowledge(ME, 7, {"map": STATE}, SubtaskMetrics(checkpointed_bytes=1, unaligned=True)),
    p.Decline(ME, 7, FailureReason.CHECKPOINT_DECLINED, "no"),
    p.EventToCoordinator(ME, "read", None, b"\xc0"),
    p.EventToCoordinator(ME, "map", 6, b"\x01"),
    p.CheckpointMeasured(ME, 7, SubtaskMetrics(sync_ms=-1, aborted=True)),
    m.SourceEnded(ME),
    p.OperatorEventReceived(3, 9),
    m.TasksCancelled(3),
    m.Metrics([TaskMeter(lambda: 0.0).read(ME, None, 1, 2)], 1 << 40),
]
TO_SUPERVISOR: list[Any] = [m.Heartbeat(), m.StartProcess(1), m.KillProcess(1), m.Drain()]
TO_PROCESS: list[Any] = [
    m.Heartbeat(),
    m.Deploy(
        3,
        [("a", 1), ("b", 2)],
        {"map": 128},
        [m.TaskDeployment(ME, {"map": RESTORE}), m.TaskDeployment(ME, {}, True)],
        6,
        6,
        "shared",
    ),
    m.Cancel(3),
    p.TriggerCheckpoint(ME, BARRIER),
    p.CheckpointCompleted(ME, 7, 6),
    p.CheckpointAborted(ME, 7),
    p.OperatorEvent(ME, "read", 9, {"splits": [["a", 1]], "more": True}),
]


def name(message: object) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", TO_MASTER, ids=name)
def test_what_is_said_to_the_driver_arrives_as_it_was(message: Any) -> None:
    assert m.decode_to_master(m.encode(message)) == message


@pytest.mark.parametrize("message", TO_SUPERVISOR, ids=name)
def test_what_is_said_to_a_supervisor_arrives_as_it_was(message: Any) -> None:
    assert m.decode_to_supervisor(m.encode(message)) == message


@pytest.mark.parametrize("message", TO_PROCESS, ids=name)
def test_what_is_said_to_a_process_arrives_as_it_was(message: Any) -> None:
    assert m.decode_to_process(m.encode(message)) == message


def test_every_message_is_tried_here() -> None:
    assert [set(map(type, tried)) for tried in (TO_MASTER, TO_SUPERVISOR, TO_PROCESS)] == [
        set(get_args(union)) for union in (m.ToMaster, m.ToSupervisor, m.ToProcess)
    ]


def test_the_wire_carries_the_messages_of_the_protocol_themselves() -> None:
    known = {kind for union in (m.ToMaster, m.ToProcess) for kind in get_args(union)}
    assert {kind for kind in vars(p).values() if is_dataclass(kind) and kind.__module__ == p.__name__} <= known


@pytest.mark.parametrize("message", [m.Drain(), m.Cancel(1)], ids=name)
def test_what_is_meant_for_somebody_else_is_refused(message: Any) -> None:
    with pytest.raises(PeerError, match=f"unknown message '{name(message)}'"):
        m.decode_to_master(m.encode(message))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode("Heartbeat"),
        msgspec.msgpack.encode(["Heartbeat"]),
        msgspec.msgpack.encode([1, {}]),
        msgspec.msgpack.encode(["TasksCancelled", {}]),
        msgspec.msgpack.encode(["TasksCancelled", {"attempt": "3"}]),
        msgspec.msgpack.encode(["TaskReport", {"execution": [["map", 1], 3], "status": "SLEEPING"}]),
        m.encode(m.TasksCancelled(3))[:-1],
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        m.decode_to_master(data)


def test_an_unknown_name_is_not_repeated_in_full() -> None:
    with pytest.raises(PeerError) as caught:
        m.decode_to_process(msgspec.msgpack.encode(["x" * 10_000, {}]))
    assert len(str(caught.value)) < 200
