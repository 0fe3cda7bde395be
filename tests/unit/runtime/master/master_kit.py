"""A job of one source and one sink, and the peers of its driver, for tests of the master's shells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
from tests.unit.runtime.runtime_bench import Bench

import snapline as sl
from snapline.config import Checkpoints, Execution, FixedDelay, RestartStrategy
from snapline.devtools.simulator.sim_storage import SimJournal, SimObjects, SimStorage
from snapline.graph.execution_plan import ExecutionPlan, PlannedEdge, PlannedOperator, PlannedVertex
from snapline.graph.job_spec import JobSpec
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.messages import Acknowledge, EventToCoordinator, TaskReport
from snapline.protocol.snapshot import SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.runtime.master.job_log import EventLog
from snapline.runtime.master.job_master import JobMaster
from snapline.runtime.master.job_storage import MasterStorage, open_storage
from snapline.runtime.master.master_calls import MasterCalls
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.master.slots import Slots
from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, no_slots
from snapline.runtime.wire import control_messages as m
from snapline.storage.cleaner import Cleaner
from snapline.types import ExecutionId, JobStatus, Partitioning, SnapshotKind, SubtaskId, TaskStatus

T = TypeVar("T")

SCHEMA = pa.schema([("x", pa.int64())])
CHECKPOINTS = Checkpoints(storage="memory://sim/checkpoints", savepoint_dir="memory://sim/savepoints")
READ, WRITE = SubtaskId("read", 0), SubtaskId("write", 0)


class Splits(sl.Source):
    """A source whose two splits nobody reads here."""

    schema = SCHEMA
    is_bounded = True

    def splits(self, parallelism: int) -> Sequence[Any]:
        return ["a", "b"]

    def reader(self, context: sl.ReaderContext) -> sl.SourceReader:
        raise AssertionError("no task runs here")


def make_spec(
    *,
    checkpoints: Checkpoints | None = None,
    restart: RestartStrategy | None = None,
    hooks: dict[str, Any] | None = None,
    parallelism: int = 1,
    **execution: Any,
) -> JobSpec:
    source = PlannedOperator("read", "read", None, SCHEMA, has_coordinator=True, is_source=True)
    sink = PlannedOperator("write", "write", None, None, is_sink=True)
    plan = ExecutionPlan(
        (
            PlannedVertex("read", "read", parallelism, None, (source,)),
            PlannedVertex("write", "write", parallelism, None, (sink,)),
        ),
        (PlannedEdge("e", "read", "write", Partitioning.REBALANCE, (), SCHEMA),),
    )
    return JobSpec(
        "job",
        "job",
        plan,
        {"read": Splits()},
        hooks or {},
        checkpoints or Checkpoints(),
        Execution(**execution),
        restart or FixedDelay(attempts=3, delay="1s"),
        b"",
    )


def running(subtask: SubtaskId, attempt: int = 1) -> ExecutionId:
    return ExecutionId(subtask, attempt)


def request(execution: ExecutionId, operator: str) -> EventToCoordinator:
    """A subtask of a source asks for splits."""
    return EventToCoordinator(execution, operator, None, b"\xc0")


class FakePeer:
    """The connection of a supervisor or an operator process."""

    def __init__(self, host: str = "node") -> None:
        self.host = host
        self.heard_s = 0.0
        self.close_reason = ""
        self.is_closed = False
        self.sent: list[m.Message] = []

    def send(self, message: m.Message) -> None:
        self.sent.append(message)

    def close(self, reason: str = "") -> None:
        self.is_closed, self.close_reason = True, reason

    def said(self) -> list[m.Message]:
        """What was sent since the last call, heartbeats left out."""
        sent, self.sent = self.sent, []
        return [message for message in sent if not isinstance(message, m.Heartbeat)]


class FakeProvider:
    """A provider whose slots the test plays."""

    driver_host = bind_host = "driver"

    def __init__(self) -> None:
        self.orders: list[SlotOrder] = []
        self.calls: list[str] = []
        self.gone: str | None = None
        self.failed: Callable[[str, bool], None]

    def check(self, slots: int) -> None:
        """There is room."""

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        self.orders.append(order)
        self.failed = failed

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        self.calls.append("release")

    def why_gone(self) -> str | None:
        return self.gone

    def close(self) -> None:
        self.calls.append("close")


def supervisor_hello(generation: int = 1, slot: int = 0) -> m.SupervisorHello:
    return m.SupervisorHello(generation, slot, "node", 10, "3.11", 0)


def process_hello(generation: int = 1, slot: int = 0, incarnation: int = 1) -> m.ProcessHello:
    return m.ProcessHello(generation, slot, incarnation, 20, "node", 100 + slot)


class MasterBench(Bench):
    """A master of one slot on simulated storage. The test plays the supervisor and the operator process."""

    def __init__(self, spec: JobSpec | None = None, fill: Callable[[SimStorage], None] | None = None) -> None:
        """`fill` puts into storage what was there before the job started."""
        super().__init__()
        self.spec = spec or make_spec(checkpoints=CHECKPOINTS)
        self.sim_storage = SimStorage(self.kernel, frozenset())
        if fill is not None:
            fill(self.sim_storage)
        self.provider = FakeProvider()
        self.ends: list[JobStatus] = []
        scheduler = self.scheduler
        self.storage = self.blocking(
            lambda: open_storage(
                self.spec, SimObjects(self.sim_storage), SimJournal(self.sim_storage, "job"), token="t"
            )
        )
        self.calls = MasterCalls.of(scheduler)
        self.generations = SlotGenerations(scheduler, self.spec, self.provider, self._provider_failed)
        self.events = EventLog(scheduler.now_ms)
        self.cleaner = Cleaner(self.storage.archive, scheduler.executor(1, "cleaner"), retry_pause_s=0)
        self.master = JobMaster(
            self.spec,
            self.storage,
            self.cleaner,
            scheduler,
            self.calls,
            self.generations,
            self.events,
            self.ends.append,
            Random(1),  # one run, always the same
        )
        self.slots = Slots(
            1,
            self.spec.execution,
            scheduler,
            self.generations,
            lambda address, slot, credentials, done: scheduler.post(done, None),
            self.master,
            self.master.effects,
            self.events,
        )
        self.supervisor = FakePeer()
        self.worker = FakePeer()

    def _provider_failed(self, generation: int, error: str, is_fatal: bool) -> None:
        self.slots.provider_failed(generation, error, is_fatal)

    def status(self) -> JobStatus:
        return self.master.status

    def other_driver(self) -> MasterStorage:
        """The job's storage, as another driver opens it."""
        objects, journal = SimObjects(self.sim_storage), SimJournal(self.sim_storage, "job")
        return self.blocking(lambda: open_storage(self.spec, objects, journal, token="other"))

    def settle(self, delay_ms: int = 400) -> None:
        """Let time go by, in which peers are heard."""
        self.advance(delay_ms)
        self.supervisor.heard_s = self.worker.heard_s = self.scheduler.time_s()

    def deploy(self) -> m.Deploy:
        """Start, and bring a process to the slot. Returns what it is told to run."""
        self.master.start(self.slots)
        self.settle()
        assert self.slots.greeted(self.supervisor, supervisor_hello()) is None
        self.greet(1)
        return self.deployed()

    def greet(self, incarnation: int) -> None:
        assert self.slots.greeted(self.worker, process_hello(incarnation=incarnation)) is None
        self.settle()

    def deployed(self) -> m.Deploy:
        (deploy,) = [message for message in self.worker.said() if isinstance(message, m.Deploy)]
        return deploy

    def say(self, *messages: m.ToMaster) -> None:
        """The operator process says something."""
        for message in messages:
            self.slots.received(self.worker, message)
        self.settle()

    def run_tasks(self, attempt: int = 1) -> None:
        self.say(*(TaskReport(running(subtask, attempt), TaskStatus.RUNNING) for subtask in (READ, WRITE)))

    def begin(self) -> None:
        """Bring the job to RUNNING."""
        self.deploy()
        self.run_tasks()
        assert self.status() is JobStatus.RUNNING

    def acknowledge(self, checkpoint_id: int, attempt: int = 1) -> None:
        self.say(
            *(
                Acknowledge(
                    running(subtask, attempt), checkpoint_id, {subtask.vertex: SubtaskState()}, SubtaskMetrics()
                )
                for subtask in (READ, WRITE)
            )
        )

    def told(self, kind: type[T]) -> list[T]:
        """What the process was told of one kind; everything that was said so far is forgotten."""
        return [message for message in self.worker.said() if isinstance(message, kind)]

    def request(self, name: str = "r", **fields: Any) -> Future[str]:
        answer: Future[str] = Future()
        values: dict[str, Any] = {"kind": SnapshotKind.CHECKPOINT, "forced": False, "periodic": False, **fields}
        self.master.request(TriggerRequest(name, timestamp_ms=0, **values), answer)
        self.settle()
        return answer
