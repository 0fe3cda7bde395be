"""A small job for one slot, and a link to a driver that the test plays."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

import snapline as sl
from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.graph.planner import make_spec
from snapline.graph.shipment import Shipment, unpack
from snapline.protocol.messages import TaskReport
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.network.heartbeat import HeartbeatSettings
from snapline.runtime.scheduler.system_threads import SystemThreads
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.task.task_environment import TaskEnvironment
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.credentials import new_credentials
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.testing import ScriptedSource
from snapline.types import NO_CHECKPOINT, ExecutionId, SubtaskId, TaskStatus

DEADLINE_S = 5.0
CREDENTIALS = new_credentials(Encryption.MAC)
SCHEMA = pa.schema([("x", pa.int64())])

M = TypeVar("M")


def make_shipment(function: Callable[[Any], Any] | None = None, rows: int = 3) -> Shipment:
    """Two vertices, of one subtask each: `read`, which is given no split, and `write`."""
    job = sl.Job("job", id="j", parallelism=1)
    stream = job.source(ScriptedSource([{"x": x} for x in range(rows)], SCHEMA), uid="read").rebalance()
    if function is not None:
        stream = stream.map_batches(function, schema=SCHEMA, uid="function")
    stream.sink(sl.sinks.Foreach(_ignore), uid="write")
    return unpack(make_spec(job).shipment)


def _ignore(_: Any) -> None:
    """Rows are of no interest here."""


def executions(shipment: Shipment, attempt: int = 1) -> list[ExecutionId]:
    return [ExecutionId(SubtaskId(vertex.id, 0), attempt) for vertex in shipment.plan.vertices]


def deploy(
    shipment: Shipment, address: tuple[str, int], attempt: int = 1, *, shared: str | None = None, finished: bool = False
) -> m.Deploy:
    return m.Deploy(
        attempt,
        [address],
        {vertex.id: 128 for vertex in shipment.plan.vertices},
        [m.TaskDeployment(execution, {}, finished) for execution in executions(shipment, attempt)],
        NO_CHECKPOINT,
        0,
        "job.1",
        shared,
    )


def bootstrap() -> Bootstrap:
    return Bootstrap(
        job_id="j",
        generation=1,
        slot=0,
        incarnation=2,
        driver_host="127.0.0.1",
        driver_port=1,
        credentials=CREDENTIALS,
        host="127.0.0.1",
        heartbeat_interval_ms=20,
        heartbeat_timeout_ms=60_000,
        parent_pid=1,
        sys_path=[],
        shipment=b"",
    )


@contextmanager
def environment() -> Iterator[TaskEnvironment]:
    threads = SystemThreads()
    state, channels, background = (threads.executor(2, name) for name in ("state", "in-flight", "background"))
    try:
        yield TaskEnvironment(threads, state, channels, background)
    finally:
        for pool in (state, channels, background):
            pool.shutdown(wait=True, cancel_futures=True)


def make_exchange() -> Exchange:
    return Exchange(
        "127.0.0.1",
        CREDENTIALS,
        slot=0,
        slots=1,
        batch_size_bytes=1 << 16,
        flush_timeout_ms=10,
        channel_memory_bytes=1 << 20,
        heartbeat=HeartbeatSettings(1_000, 5_000),
    )


class DriverLink:
    """The link of a slot to a driver that the test plays."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._kept: list[Any] = []
        self.is_closed = False
        self.is_gone = False
        self._received: Callable[[Any], None] = lambda _: None
        self._closed: Callable[[str], None] = lambda _: None

    def start(self, received: Callable[[Any], None], closed: Callable[[str], None]) -> None:
        self._received, self._closed = received, closed

    def send(self, message: Any) -> None:
        if self.is_gone:
            raise PeerError("the connection is gone")
        self.said.put(message)

    def close(self) -> None:
        self.is_closed = True

    # What the test does.

    def say(self, message: m.ToProcess) -> None:
        self._received(message)

    def hang_up(self) -> None:
        self._closed("it closed the connection")

    def next(self, kind: type[M], where: Callable[[M], bool] = lambda _: True) -> M:
        """Returns the next message of this kind; keeps the others."""
        for place, message in enumerate(self._kept):
            if isinstance(message, kind) and where(message):
                del self._kept[place]
                return message
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            message = self.said.get(timeout=max(deadline_s - time.monotonic(), 0))
            if isinstance(message, kind) and where(message):
                return message
            self._kept.append(message)

    def status(self, status: TaskStatus) -> TaskReport:
        return self.next(TaskReport, lambda report: report.status is status)


def objects() -> MemoryObjects:
    return MemoryObjects()


def no_directory() -> Path:
    raise AssertionError("no state is kept on disk here")
