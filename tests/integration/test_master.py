"""The job master against scripted slots that speak the real protocol over loopback."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from snapline.api.job_handle import JobFailedError, SnapshotFailedError
from snapline.config import Checkpoints, Encryption, Execution, FixedDelay, NoRestart, RestartStrategy
from snapline.contracts.master_hook import MasterHook
from snapline.contracts.source import ReaderContext, Source, SourceReader, Split
from snapline.errors import ConfigurationError, PeerError, RestoreError, StorageError
from snapline.graph.execution_plan import ExecutionPlan, PlannedEdge, PlannedOperator, PlannedVertex
from snapline.graph.job_spec import JobSpec
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointCompleted,
    EventToCoordinator,
    OperatorEvent,
    OperatorEventReceived,
    TaskReport,
    TriggerCheckpoint,
)
from snapline.protocol.snapshot import SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.runtime.master import job_end
from snapline.runtime.master.master_handle import MasterHandle
from snapline.runtime.master.master_thread import MasterThread
from snapline.runtime.master.start_master import start_master
from snapline.runtime.network.admission import REFUSED, WELCOME
from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, no_slots
from snapline.runtime.wire.auth import DRIVER, Route
from snapline.runtime.wire.control_messages import (
    Cancel,
    Deploy,
    Drain,
    Heartbeat,
    KillProcess,
    Message,
    Metrics,
    ProcessDied,
    ProcessHello,
    ProcessUnable,
    StartProcess,
    SupervisorHello,
    TasksCancelled,
    decode_to_process,
    decode_to_supervisor,
    encode,
)
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.frames import ControlConnection
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake, server_handshake
from snapline.storage.archive import Archive
from snapline.types import CheckpointScope, ExecutionId, JobStatus, Partitioning, SnapshotKind, SubtaskId, TaskStatus

SCHEMA = pa.schema([("n", pa.int64())])
DEADLINE_S = 120.0


class Numbers(Source):
    """Three splits; nobody reads them here."""

    schema = SCHEMA
    is_bounded = True

    def splits(self, parallelism: int) -> Sequence[Split]:
        return [1, 2, 3]

    def reader(self, context: ReaderContext) -> SourceReader:
        raise AssertionError("no reader is needed")


class Audit(MasterHook):
    """A hook that remembers what it was told."""

    name = "audit"

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, bytes | None]] = []

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        self.calls.append(("snapshot", checkpoint_id, None))
        return b"seen"

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        self.calls.append(("restore", checkpoint_id, state))

    def reset(self) -> None:
        self.calls.append(("reset", 0, None))


def wait_for(condition: Callable[[], object], what: str = "the condition") -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited too long for {what}"
        time.sleep(0.002)


def spec(
    tmp_path: Path | None = None,
    *,
    parallelism: int = 2,
    job_id: str = "job-1",
    restart: RestartStrategy | None = None,
    hooks: dict[str, MasterHook] | None = None,
    execution: Execution | None = None,
    **checkpoints: Any,
) -> JobSpec:
    source = PlannedVertex(
        "src",
        "src",
        parallelism,
        None,
        (PlannedOperator("src", "src", None, SCHEMA, True, has_coordinator=True, is_source=True),),
    )
    sink = PlannedVertex("out", "out", parallelism, None, (PlannedOperator("out", "out", None, None, True),))
    edge = PlannedEdge("e", "src", "out", Partitioning.HASH, ("n",), SCHEMA)
    if tmp_path is not None:
        checkpoints.setdefault("storage", tmp_path / "checkpoints")
    return JobSpec(
        job_id,
        "test",
        ExecutionPlan((source, sink), (edge,)),
        {"src": Numbers()},
        hooks or {},
        Checkpoints(**checkpoints),
        execution or Execution(heartbeat_interval="50ms", heartbeat_timeout="5s"),
        restart or FixedDelay(attempts=3, delay="1ms"),
        b"shipment",
    )


class Peer:
    """A thread with an authenticated connection to the driver."""

    def __init__(self, order: SlotOrder, slot: int, cluster: Cluster) -> None:
        self.order, self.slot, self.cluster = order, slot, cluster
        self.is_silent = False
        self.connection: ControlConnection | None = None
        self.thread = threading.Thread(target=self._run, name="test-peer", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def send(self, message: Message) -> None:
        assert self.connection is not None
        with contextlib.suppress(PeerError):
            self.connection.send(encode(message))

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def hello(self) -> Message:
        raise AssertionError

    def handle(self, data: bytes) -> bool:
        raise AssertionError

    def _run(self) -> None:
        try:
            sock = socket.create_connection((self.order.host, self.order.port), timeout=5)
        except OSError:
            return
        try:
            secured = SecuredSocket(sock)
            client_handshake(
                secured, self.order.credentials, Route("control", self.order.generation, self.slot, DRIVER), 5
            )
            self.connection = ControlConnection(secured)
            self.send(self.hello())
            while (data := self.connection.receive()) is not None and self.handle(data):
                pass
        except PeerError as error:
            self.cluster.errors.append(str(error))
        finally:
            sock.close()
            self.ended()

    def ended(self) -> None:
        pass


class Supervisor(Peer):
    worker: Worker | None = None

    def hello(self) -> Message:
        return SupervisorHello(self.order.generation, self.slot, "127.0.0.1", 1, "python", 0)

    def handle(self, data: bytes) -> bool:
        message = decode_to_supervisor(data)
        if isinstance(message, Heartbeat):
            if not self.is_silent:
                self.send(Heartbeat())
            return True
        self.cluster.note(self.slot, message)
        match message:
            case StartProcess(incarnation):
                if self.worker is not None:
                    self.worker.close()
                if not self.cluster.start_no_workers:
                    self.worker = Worker(self.order, self.slot, self.cluster, incarnation)
                    self.cluster.add_worker(self.worker)
            case KillProcess():
                if self.worker is not None:
                    self.worker.close()
            case Drain():
                return False
        return True

    def ended(self) -> None:
        if self.worker is not None:
            self.worker.close()


class Worker(Peer):
    def __init__(self, order: SlotOrder, slot: int, cluster: Cluster, incarnation: int) -> None:
        super().__init__(order, slot, cluster)
        self.incarnation = incarnation
        self.tasks: list[ExecutionId] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._synchronous: set[int] = set()
        self.prober = threading.Thread(target=self._let_probe, name="test-probe", daemon=True)
        self.prober.start()

    def _let_probe(self) -> None:
        with contextlib.suppress(OSError, PeerError):
            while True:
                sock, _ = self.listener.accept()
                with sock:
                    secured = SecuredSocket(sock)
                    route = server_handshake(secured, self.order.credentials, "probe", 5)
                    secured.send([WELCOME if route.to_slot == self.slot else REFUSED])

    def hello(self) -> Message:
        if self.cluster.join_error:
            return ProcessUnable(self.cluster.join_error)
        host, port = self.listener.getsockname()
        port = self.cluster.wrong_port or port
        return ProcessHello(self.order.generation, self.slot, self.incarnation, 2, host, port)

    def report(self, status: TaskStatus, **fields: Any) -> None:
        for execution in self.tasks:
            self.send(TaskReport(execution, status, **fields))

    def handle(self, data: bytes) -> bool:
        message = decode_to_process(data)
        if isinstance(message, Heartbeat):
            if not self.is_silent:
                self.send(Heartbeat())
            return True
        self.cluster.note(self.slot, message)
        match message:
            case Deploy(_, _, _, tasks):
                self.tasks = [task.execution for task in tasks if not task.finished]
                if self.cluster.worker_error:
                    self.send(ProcessUnable(self.cluster.worker_error))
                elif self.cluster.runs_tasks:
                    self.report(TaskStatus.RUNNING)
            case Cancel(attempt) if self.cluster.obeys_cancel:
                self.send(TasksCancelled(attempt))
            case TriggerCheckpoint(_, barrier) if self.cluster.acknowledges:
                if barrier.snapshot is SnapshotKind.SYNC_SAVEPOINT:
                    self._synchronous.add(barrier.id)
                for execution in self.tasks:
                    state = {execution.subtask.vertex: SubtaskState()}
                    self.send(Acknowledge(execution, barrier.id, state, SubtaskMetrics()))
            case CheckpointCompleted(execution, checkpoint_id, _) if checkpoint_id in self._synchronous:
                self.send(TaskReport(execution, TaskStatus.FINISHED))
            case OperatorEvent(execution, _, sequence, _):
                self.send(OperatorEventReceived(execution.attempt, sequence))
        return True

    def ended(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Cluster:
    """A provider whose slots are threads of this process."""

    driver_host = "127.0.0.1"
    bind_host = "127.0.0.1"

    def why_gone(self) -> str | None:
        return None

    def __init__(self) -> None:
        self.orders: list[SlotOrder] = []
        self.supervisors: list[Supervisor] = []
        self.workers: list[Worker] = []
        self.seen: list[tuple[int, Message]] = []
        self.errors: list[str] = []
        self.releases = 0
        self.is_closed = False
        self.check_error: Exception | None = None
        self.start_error: Exception | None = None
        self.failed: Callable[[str, bool], None]
        self.starts_supervisors = self.runs_tasks = self.obeys_cancel = self.acknowledges = True
        self.start_no_workers = False
        self.worker_error = self.join_error = ""
        self.wrong_port = 0
        self._lock = threading.Lock()

    def check(self, slots: int) -> None:
        if self.check_error is not None:
            raise self.check_error

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        if self.start_error is not None:
            raise self.start_error
        self.orders.append(order)
        self.failed = failed
        if self.starts_supervisors:
            started = [Supervisor(order, slot, self) for slot in range(order.slots)]
            for supervisor in started:
                supervisor.start()
            self.supervisors += started

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        self.releases += 1
        for supervisor in self.supervisors:
            supervisor.thread.join(timeout_s)
        for worker in self.workers:
            worker.thread.join(timeout_s)

    def close(self) -> None:
        self.is_closed = True

    def add_worker(self, worker: Worker) -> None:
        self.workers.append(worker)
        worker.start()

    def note(self, slot: int, message: Message) -> None:
        with self._lock:
            self.seen.append((slot, message))

    def all(self, kind: type[Any]) -> list[Any]:
        with self._lock:
            return [message for _, message in self.seen if isinstance(message, kind)]

    def worker(self, slot: int) -> Worker:
        return [worker for worker in self.workers if worker.slot == slot][-1]

    def supervisor(self, slot: int) -> Supervisor:
        return [supervisor for supervisor in self.supervisors if supervisor.slot == slot][-1]


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    yield
    wait_for(lambda: set(threading.enumerate()) <= threads, f"threads to end: {threading.enumerate()}")
    assert len(os.listdir("/proc/self/fd")) <= files


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@contextlib.contextmanager
def running(job: JobSpec, cluster: Cluster, *, until_running: bool = True) -> Iterator[MasterHandle]:
    handle = start_master(job, cluster)
    try:
        if until_running:
            wait_for(lambda: handle.status() is JobStatus.RUNNING, "the job to run")
        yield handle
    finally:
        handle.cancel("120s")
        assert cluster.is_closed


def chain(handle: MasterHandle) -> list[str]:
    return [text for _, text in handle.events()]


# Start, checkpoints, end.


def test_a_job_starts_takes_a_checkpoint_and_is_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    with running(spec(tmp_path), cluster) as handle:
        deployed = cluster.all(Deploy)
        assert [len(deploy.tasks) for deploy in deployed] == [2, 2]
        assert sorted(str(task.execution) for deploy in deployed for task in deploy.tasks) == [
            "out/0#1",
            "out/1#1",
            "src/0#1",
            "src/1#1",
        ]
        assert deployed[0].peers == [worker.listener.getsockname() for worker in sorted_workers(cluster)]
        assert deployed[0].shared == f"{tmp_path}/checkpoints/job-1/shared"
        location = handle.checkpoint(timeout="120s")
        assert location == f"{tmp_path}/checkpoints/job-1/chk-1"
        assert Path(location, "_metadata").exists()
        triggered = cluster.all(TriggerCheckpoint)
        assert {str(trigger.execution.subtask) for trigger in triggered} == {"src/0", "src/1"}
        assert {trigger.barrier.location for trigger in triggered} == {location}
        statistics = handle.checkpoints()
        assert statistics.counts.completed == 1
        assert statistics.latest.completed is not None
        assert statistics.latest.completed.id == 1
        wait_for(lambda: len(cluster.all(CheckpointCompleted)) == 4)
        handle.cancel("120s")
        assert handle.status() is JobStatus.CANCELED
        assert handle.wait() is JobStatus.CANCELED
        assert handle.checkpoints().counts.completed == 1
        assert cluster.releases == 1
    assert len(cluster.all(Drain)) == 2
    assert Path(location, "_metadata").exists(), "cancelling deletes only where the user said so"
    assert "checkpoint 1 complete" in chain(handle)


def sorted_workers(cluster: Cluster) -> list[Worker]:
    return sorted(cluster.workers, key=lambda worker: worker.slot)


def test_a_job_ends_when_all_its_tasks_have_finished(cluster: Cluster) -> None:
    handle = start_master(spec(), cluster)
    wait_for(lambda: handle.status() is JobStatus.RUNNING)
    for slot in range(2):
        cluster.worker(slot).report(TaskStatus.FINISHED)
    assert handle.wait("120s") is JobStatus.FINISHED
    assert cluster.is_closed
    with pytest.raises(SnapshotFailedError, match="FINISHED"):
        handle.checkpoint()


def test_without_storage_everything_comes_with_the_acknowledgement(cluster: Cluster, tmp_path: Path) -> None:
    with running(spec(), cluster) as handle:
        assert cluster.all(Deploy)[0].shared is None
        assert handle.checkpoint(timeout="120s") == "/driver/job-1/chk-1"
        assert {trigger.barrier.location for trigger in cluster.all(TriggerCheckpoint)} == {None}
        savepoint = handle.savepoint(tmp_path / "saved", timeout="120s")
        assert Path(savepoint, "_metadata").exists()
        assert cluster.all(TriggerCheckpoint)[-1].barrier.location == savepoint
        assert cluster.all(TriggerCheckpoint)[-1].barrier.format is not None


def test_periodic_checkpoints_come_by_themselves(cluster: Cluster, tmp_path: Path) -> None:
    with running(spec(tmp_path, interval="20ms"), cluster) as handle:
        wait_for(lambda: handle.checkpoints().counts.completed >= 3)
        kept = sorted(path.name for path in (tmp_path / "checkpoints" / "job-1").glob("chk-*"))
        assert len(kept) <= 3


def test_a_savepoint_needs_a_directory(cluster: Cluster) -> None:
    with running(spec(), cluster) as handle, pytest.raises(ConfigurationError, match="savepoint_dir"):
        handle.savepoint()


def test_a_snapshot_that_is_asked_for_before_the_job_runs_is_taken_once_it_does(cluster: Cluster) -> None:
    cluster.runs_tasks = False
    with running(spec(), cluster, until_running=False) as handle, ThreadPoolExecutor(1) as pool:
        wait_for(lambda: len(cluster.all(Deploy)) == 2)
        answer = pool.submit(handle.checkpoint, CheckpointScope.FULL, timeout="120s")
        for slot in range(2):
            cluster.worker(slot).report(TaskStatus.RUNNING)
        assert answer.result(5)
        assert handle.checkpoints().counts.completed == 1


def test_a_snapshot_of_a_job_that_never_runs_fails_with_its_end(cluster: Cluster) -> None:
    cluster.runs_tasks = False
    with running(spec(), cluster, until_running=False) as handle, ThreadPoolExecutor(1) as pool:
        wait_for(lambda: len(cluster.all(Deploy)) == 2)
        answer = pool.submit(handle.checkpoint, CheckpointScope.FULL, timeout="120s")
        handle.cancel()
        with pytest.raises(SnapshotFailedError, match="CANCELED"):
            answer.result(5)


def test_a_failure_that_no_restart_can_mend_ends_the_job_and_leaves_it_to_another_version(
    cluster: Cluster, tmp_path: Path
) -> None:
    handle = start_master(spec(tmp_path), cluster)
    wait_for(lambda: handle.status() is JobStatus.RUNNING)
    cluster.worker(0).report(TaskStatus.FAILED, error="RestoreError: the type has changed", is_final=True)
    with pytest.raises(JobFailedError, match="the type has changed"):
        handle.wait("120s")
    assert handle.attempt == 1
    with running(spec(tmp_path), Cluster()) as again:
        assert again.attempt == 2


def test_stop_takes_a_savepoint_and_waits_for_the_end(cluster: Cluster, tmp_path: Path) -> None:
    handle = start_master(spec(tmp_path), cluster)
    wait_for(lambda: handle.status() is JobStatus.RUNNING)
    savepoint = handle.stop(tmp_path / "saved", timeout="120s")
    assert handle.status() is JobStatus.FINISHED
    assert Path(savepoint, "_metadata").exists()


def test_a_stop_that_fails_after_its_savepoint_names_it(cluster: Cluster, tmp_path: Path) -> None:
    with running(spec(tmp_path), cluster) as handle, ThreadPoolExecutor(1) as pool:
        for worker in cluster.workers:
            worker._synchronous = _Nothing()
        answer = pool.submit(handle.stop, tmp_path / "saved", timeout="120s")
        wait_for(lambda: handle.checkpoints().counts.completed == 1)
        cluster.worker(1).report(TaskStatus.FAILED, error="boom")
        with pytest.raises(SnapshotFailedError, match=rf"{tmp_path}/saved/savepoint-.*boom"):
            answer.result()
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert cluster.all(Deploy)[-1].restored_id == 1


class _Nothing(set[int]):
    def add(self, item: int) -> None:
        pass


def test_splits_are_dealt_out_and_kept_in_checkpoints(cluster: Cluster, tmp_path: Path) -> None:
    audit = Audit()
    with running(spec(tmp_path, hooks={"audit": audit}), cluster) as handle:
        source = ExecutionId(SubtaskId("src", 0), 1)
        cluster.worker(0).send(EventToCoordinator(source, "src", None, b"\xc0"))
        wait_for(lambda: len(cluster.all(OperatorEvent)) == 1)
        assert cluster.all(OperatorEvent)[0].event == {"splits": [1], "more": True}
        handle.checkpoint(timeout="120s")
        cluster.worker(0).send(EventToCoordinator(source, "src", None, b"\xc0"))
        wait_for(lambda: len(cluster.all(OperatorEvent)) == 2)
        cluster.worker(1).report(TaskStatus.FAILED, error="boom")
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        cluster.worker(0).send(
            EventToCoordinator(source, "src", None, b"\xc0")
        )  # of the attempt before: nobody listens
        cluster.worker(0).send(EventToCoordinator(replace_attempt(source, 2), "src", None, b"\xc0"))
        wait_for(lambda: len(cluster.all(OperatorEvent)) == 3)
        assert cluster.all(OperatorEvent)[2].event == {"splits": [2], "more": True}
    assert audit.calls == [("reset", 0, None), ("snapshot", 1, None), ("restore", 1, b"seen")]


def replace_attempt(execution: ExecutionId, attempt: int) -> ExecutionId:
    return ExecutionId(execution.subtask, attempt)


def test_metrics_are_the_latest_of_the_current_attempt(cluster: Cluster) -> None:
    with running(spec(), cluster) as handle:
        execution = ExecutionId(SubtaskId("src", 0), 1)
        old = TaskMetrics(replace_attempt(execution, 0), 9, 9, 9, 9, 9, 9, 9, 9, 9, 9)
        cluster.worker(0).send(Metrics([TaskMetrics(execution, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0), old], 77))
        wait_for(lambda: handle.metrics())
        assert handle.metrics()["src/0"].rows_in == 5
        assert handle.memory_bytes() == {0: 77}


# Failures.


def test_a_task_that_fails_is_started_again_in_the_same_process(cluster: Cluster, tmp_path: Path) -> None:
    with running(spec(tmp_path), cluster) as handle:
        handle.checkpoint(timeout="120s")
        failing = cluster.worker(1).tasks[0]
        cluster.worker(1).send(TaskReport(failing, TaskStatus.FAILED, "ValueError: boom", "Traceback: boom", "log"))
        cluster.worker(1).send(TaskReport(failing, TaskStatus.FAILED, "a consequence"))
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert len(cluster.workers) == 2
        assert [deploy.restored_id for deploy in cluster.all(Deploy)] == [-1, -1, 1, 1]
        assert (handle.cause, handle.trace) == (f"{failing}: ValueError: boom", "Traceback: boom")
        assert handle.log == "log"
        assert handle.checkpoints().counts.restored == 1


def test_a_job_that_may_not_restart_fails_with_its_first_cause(cluster: Cluster) -> None:
    handle = start_master(spec(restart=NoRestart()), cluster)
    wait_for(lambda: handle.status() is JobStatus.RUNNING)
    failing = cluster.worker(0).tasks[0]
    cluster.worker(0).send(TaskReport(failing, TaskStatus.FAILED, "boom", "the trace", "the log"))
    with pytest.raises(JobFailedError) as raised:
        handle.wait("120s")
    assert str(raised.value) == f"job 'test' has failed: {failing}: boom"
    assert (raised.value.trace, raised.value.log) == ("the trace", "the log")
    assert raised.value.__notes__ == ["the trace"]
    assert handle.status() is JobStatus.FAILED


def test_an_operator_process_that_dies_is_replaced_in_place(cluster: Cluster) -> None:
    with running(spec(), cluster) as handle:
        died = cluster.worker(1)
        died.close()
        cluster.supervisor(1).send(ProcessDied(died.incarnation, "killed by signal 9", "last words"))
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert [worker.incarnation for worker in cluster.workers] == [1, 1, 2]
        assert len(cluster.orders) == 1
        wait_for(lambda: "killed by signal 9" in handle.cause)
        assert handle.log == "last words"


def test_a_lost_supervisor_leads_to_new_slots(cluster: Cluster) -> None:
    with running(spec(), cluster) as handle:
        cluster.supervisor(0).close()
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert [order.generation for order in cluster.orders] == [1, 2]
        first, second = (order.credentials.secret for order in cluster.orders[:2])
        assert first != second
        assert len(second) == 32
        assert cluster.releases == 1
        assert "slot 0 on 127.0.0.1 is lost" in handle.cause


@pytest.mark.parametrize("kind", ["supervisor", "worker"])
def test_who_is_silent_for_too_long_is_lost(cluster: Cluster, kind: str) -> None:
    execution = Execution(heartbeat_interval="20ms", heartbeat_timeout="200ms")
    with running(spec(execution=execution), cluster) as handle:
        peer: Peer = cluster.supervisor(1) if kind == "supervisor" else cluster.worker(1)
        peer.is_silent = True
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert "heartbeat_timeout" in handle.cause
        assert len(cluster.orders) == (2 if kind == "supervisor" else 1)


def test_a_process_that_does_not_cancel_is_killed(cluster: Cluster) -> None:
    cluster.obeys_cancel = False
    execution = Execution(heartbeat_interval="50ms", cancel_timeout="50ms")
    with running(spec(execution=execution), cluster) as handle:
        cluster.worker(0).send(TaskReport(cluster.worker(0).tasks[0], TaskStatus.FAILED, "boom"))
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert len(cluster.all(KillProcess)) == 2
        assert [worker.incarnation for worker in sorted_workers(cluster)] == [1, 2, 1, 2]


def test_a_process_that_cannot_run_the_job_fails_it_for_good(cluster: Cluster) -> None:
    cluster.worker_error = "no module named tensorflow"
    handle = start_master(spec(), cluster)
    with pytest.raises(JobFailedError, match="no module named tensorflow"):
        handle.wait("120s")
    assert handle.attempt == 1


def test_a_provider_that_fails_is_asked_again(cluster: Cluster) -> None:
    with running(spec(), cluster) as handle:
        cluster.failed("the Spark job has failed", False)
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert len(cluster.orders) == 2
        cluster.failed("no more", True)
        with pytest.raises(JobFailedError, match="no more"):
            handle.wait("120s")
    assert len(cluster.orders) == 2


def test_a_provider_that_raises_for_good_fails_the_job(cluster: Cluster) -> None:
    cluster.start_error = ConfigurationError("barrier mode is refused")
    handle = start_master(spec(), cluster)
    with pytest.raises(JobFailedError, match="barrier mode is refused"):
        handle.wait("120s")


def test_slots_that_do_not_come_are_told_of(cluster: Cluster) -> None:
    cluster.starts_supervisors = False
    execution = Execution(heartbeat_interval="50ms", start_timeout="100ms")
    handle = start_master(spec(restart=NoRestart(), execution=execution), cluster)
    with pytest.raises(JobFailedError, match=r"0 of the 2 slots registered within 0\.1 s"):
        handle.wait("120s")


def test_operator_processes_that_do_not_come_are_told_of(cluster: Cluster) -> None:
    cluster.start_no_workers = True
    execution = Execution(heartbeat_interval="50ms", start_timeout="200ms")
    handle = start_master(spec(restart=NoRestart(), execution=execution), cluster)
    with pytest.raises(JobFailedError, match="operator processes did not come up"):
        handle.wait("120s")


@pytest.mark.slow
def test_a_data_port_nobody_reaches_is_told_of(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        cluster.wrong_port = closed.getsockname()[1]
    handle = start_master(spec(restart=NoRestart()), cluster)
    with pytest.raises(JobFailedError, match=rf"127\.0\.0\.1:{cluster.wrong_port}.*`host`"):
        handle.wait("120s")


def test_a_peer_that_speaks_for_others_is_cut_off(cluster: Cluster) -> None:
    with running(spec(), cluster) as handle:
        cluster.worker(0).send(TaskReport(ExecutionId(SubtaskId("src", 1), 1), TaskStatus.FINISHED))
        wait_for(lambda: handle.status() is JobStatus.RUNNING and handle.attempt == 2)
        assert "slot 0 reports for src/1#1" in handle.cause


def test_a_process_that_cannot_even_join_fails_the_job_for_good(cluster: Cluster) -> None:
    cluster.join_error = "on 127.0.0.1: no module named pyarrow"
    handle = start_master(spec(), cluster)
    with pytest.raises(JobFailedError, match="no module named pyarrow"):
        handle.wait("120s")


# Strangers.


def test_strangers_are_refused_and_the_job_goes_on(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with running(spec(), cluster) as handle:
        order = cluster.orders[0]
        for data in (b"GET / HTTP/1.1\r\n\r\n" + b"x" * 200, b"\xff" * 4096, b""):
            with socket.create_connection((order.host, order.port)) as stranger, contextlib.suppress(OSError):
                stranger.sendall(data)
                if data:
                    assert stranger.recv(1000) == b""
        for changes in (
            {"credentials": Credentials(b"y" * 32, Encryption.MAC)},
            {"generation": 7},
        ):
            impostor = Supervisor(replace(order, **changes), 0, cluster)
            impostor.start()
            impostor.thread.join(5)
            assert not impostor.thread.is_alive()
        twin, stray = Supervisor(order, 0, cluster), Supervisor(order, 99, cluster)
        for peer in (twin, stray):
            peer.start()
            peer.thread.join(5)
            assert not peer.thread.is_alive()
        assert handle.status() is JobStatus.RUNNING
        assert handle.attempt == 1
    refusals = [record for record in caplog.records if "refused a connection" in record.message]
    assert len(refusals) == 1
    assert order.credentials.secret.hex() not in caplog.text


# Storage.


def test_storage_that_cannot_be_written_to_is_told_of_at_once(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=rf"{tmp_path}/file/checkpoints/job-1.*was not started"):
        start_master(spec(storage=tmp_path / "file" / "checkpoints"), cluster)
    assert cluster.orders == []
    assert cluster.is_closed


def test_a_snapshot_that_is_not_there_is_told_of_at_once(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match="nowhere"):
        start_master(spec(tmp_path, restore_from=tmp_path / "nowhere"), cluster)


def test_too_few_slots_are_told_of_at_once(cluster: Cluster) -> None:
    cluster.check_error = ConfigurationError("2 slots are missing")
    with pytest.raises(ConfigurationError, match="2 slots are missing"):
        start_master(spec(), cluster)


def test_a_driver_that_cannot_listen_says_so(cluster: Cluster) -> None:
    cluster.bind_host = "192.0.2.1"
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1.*spark\.driver\.host"):
        start_master(spec(), cluster)


def test_a_second_driver_takes_over_and_the_first_is_suspended(cluster: Cluster, tmp_path: Path) -> None:
    job, other = spec(tmp_path), Cluster()
    first = start_master(job, cluster)
    wait_for(lambda: first.status() is JobStatus.RUNNING)
    first.checkpoint(timeout="120s")
    with running(job, other) as second:
        assert second.attempt == 2
        assert other.all(Deploy)[0].restored_id == 1
        with pytest.raises(SnapshotFailedError):
            first.checkpoint(timeout="120s")
        assert first.wait("120s") is JobStatus.SUSPENDED
        assert "attempt 2" in first.cause
        assert second.checkpoint(timeout="120s").endswith("chk-3")
    assert second.status() is JobStatus.CANCELED


def test_a_suspended_job_goes_on_with_the_next_driver(cluster: Cluster, tmp_path: Path) -> None:
    job, other = spec(tmp_path), Cluster()
    first = start_master(job, cluster)
    wait_for(lambda: first.status() is JobStatus.RUNNING)
    first.checkpoint(timeout="120s")
    first.suspend("5s")
    assert first.wait() is JobStatus.SUSPENDED
    with running(job, other):
        assert other.all(Deploy)[0].restored_id == 1
    again = start_master(job, Cluster())
    assert again.wait("120s") is JobStatus.CANCELED


def test_a_job_starts_from_a_savepoint_of_another(cluster: Cluster, tmp_path: Path) -> None:
    with running(spec(tmp_path), cluster) as handle:
        savepoint = handle.savepoint(tmp_path / "saved", timeout="120s")
    other = Cluster()
    with running(spec(tmp_path, job_id="job-2", restore_from=savepoint), other) as second:
        assert other.all(Deploy)[0].restored_id == 1
        latest = second.checkpoints().latest.restored
        assert latest is not None
        assert (latest.is_savepoint, latest.external_path) == (True, savepoint)
        second.checkpoint(timeout="120s")
        assert other.all(TriggerCheckpoint)[-1].barrier.full


def test_a_snapshot_that_does_not_fit_leaves_everything_as_it_is(cluster: Cluster, tmp_path: Path) -> None:
    first = start_master(spec(tmp_path), cluster)
    wait_for(lambda: first.status() is JobStatus.RUNNING)
    location = first.checkpoint(timeout="120s")
    first.suspend("5s")
    job = spec(tmp_path)
    renamed = replace(
        job.plan.vertices[0], id="other", operators=(replace(job.plan.vertices[0].operators[0], uid="o"),)
    )
    plan = ExecutionPlan((renamed, job.plan.vertices[1]), (replace(job.plan.edges[0], source="other"),))
    misfit = start_master(replace(job, plan=plan, sources={"o": Numbers()}), Cluster())
    with pytest.raises(JobFailedError, match="'src'"):
        misfit.wait("120s")
    assert Path(location, "_metadata").exists()
    with running(job, Cluster()) as handle:
        assert handle.attempt == 3


def test_an_end_that_cannot_be_recorded_is_not_told_as_one(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_end, "RECORD_PAUSES_S", (0.0,))
    handle = start_master(spec(tmp_path), cluster)
    wait_for(lambda: handle.status() is JobStatus.RUNNING)
    location = handle.checkpoint(timeout="120s")
    tries = []

    def finish(self: Archive, *arguments: object, **_: object) -> None:
        tries.append(arguments)
        raise StorageError("the disk is gone")

    monkeypatch.setattr(Archive, "finish", finish)
    handle.cancel("120s")
    assert handle.status() is JobStatus.SUSPENDED
    assert "the disk is gone" in handle.cause
    assert len(tries) == 2
    assert Path(location, "_metadata").exists()


def test_a_job_that_had_failed_goes_on_under_the_same_id(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = spec(tmp_path, restart=NoRestart())
    first = start_master(job, cluster)
    wait_for(lambda: first.status() is JobStatus.RUNNING)
    location = first.checkpoint(timeout="120s")
    cluster.worker(0).report(TaskStatus.FAILED, error="boom")
    with pytest.raises(JobFailedError, match="boom") as caught:
        first.wait("120s")
    assert str(caught.value).endswith(f"start the job again under the id {first.id!r}: it goes on from {location}.")
    assert "boom" in caplog.text
    with running(job, Cluster()) as second:
        assert second.attempt == 3
        restored = second.checkpoints().latest.restored
        assert restored is not None
        assert restored.external_path == location
        assert "the job had failed in attempt 1 and goes on under the same id" in [text for _, text in second.events()]


def test_a_hook_that_fails_fails_the_checkpoint_and_not_the_job(cluster: Cluster) -> None:
    class Broken(Audit):
        def snapshot(self, checkpoint_id: int) -> bytes | None:
            raise ValueError("not today")

    with running(spec(hooks={"audit": Broken()}), cluster) as handle:
        with pytest.raises(SnapshotFailedError, match="'audit' failed: ValueError: not today"):
            handle.checkpoint(timeout="120s")
        assert handle.status() is JobStatus.RUNNING
        assert handle.checkpoints().counts.failed == 1


def test_a_source_that_has_no_splits_to_give_fails_the_attempt(cluster: Cluster) -> None:
    class Broken(Numbers):
        def splits(self, parallelism: int) -> Sequence[Split]:
            raise OSError("no such bucket")

    handle = start_master(replace(spec(restart=NoRestart()), sources={"src": Broken()}), cluster)
    with pytest.raises(JobFailedError, match="splits of the source 'src' failed: OSError: no such bucket"):
        handle.wait("120s")
    assert cluster.orders == []


def test_a_checkpoint_that_takes_too_long_may_fail_the_job(cluster: Cluster) -> None:
    cluster.acknowledges = False
    with running(spec(interval="10ms", timeout="50ms", tolerable_failures=0), cluster) as handle:
        wait_for(lambda: handle.attempt == 2)
        assert "CHECKPOINT_EXPIRED" in handle.cause


def test_a_job_that_waits_for_slots_can_be_cancelled(cluster: Cluster) -> None:
    cluster.starts_supervisors = False
    with running(spec(), cluster, until_running=False) as handle:
        wait_for(lambda: cluster.orders)
        with pytest.raises(TimeoutError, match="INITIALIZING"):
            handle.wait("1ms")
        handle.cancel("120s")
        assert handle.status() is JobStatus.CANCELED
    assert cluster.releases == 1


def test_ctrl_c_while_the_master_starts_suspends_the_job(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            raise KeyboardInterrupt

    made: list[MasterThread] = []
    create = MasterThread.__init__

    def init(thread: MasterThread, *arguments: Any) -> None:
        create(thread, *arguments)
        thread.started = Interrupted()
        made.append(thread)

    monkeypatch.setattr(MasterThread, "__init__", init)
    with pytest.raises(KeyboardInterrupt):
        start_master(spec(tmp_path), cluster)
    assert made[0].ended.result(0).status is JobStatus.SUSPENDED


def test_a_defect_of_the_master_ends_the_job(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handle = start_master(spec(tmp_path), cluster)
    wait_for(lambda: handle.status() is JobStatus.RUNNING)
    location = handle.checkpoint(timeout="120s")
    thread: MasterThread = handle._thread

    def broken() -> None:
        raise ZeroDivisionError("a slip")

    thread.post(broken)
    with pytest.raises(JobFailedError, match="defect: ZeroDivisionError"):
        handle.wait("120s")
    assert "a slip" in caplog.text
    assert cluster.is_closed
    assert Path(location, "_metadata").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_job_survives_whatever_happens_to_its_slots(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    execution = Execution(heartbeat_interval="20ms", heartbeat_timeout="300ms", cancel_timeout="100ms")
    job = spec(tmp_path, execution=execution, interval="10ms", restart=FixedDelay(attempts=1000, delay="1ms"))
    with running(job, cluster) as handle:
        for _ in range(20):
            slot = chance.randrange(2)
            match chance.randrange(7):
                case 0:
                    cluster.worker(slot).report(TaskStatus.FAILED, error="boom")
                case 1:
                    cluster.worker(slot).close()
                case 2:
                    cluster.supervisor(slot).close()
                case 3:
                    cluster.failed("the Spark job has failed", False)
                case 4:
                    cluster.worker(slot).is_silent = True
                case 5:
                    cluster.supervisor(slot).send(ProcessDied(cluster.worker(slot).incarnation, "killed", "log"))
                case 6:
                    with contextlib.suppress(SnapshotFailedError):
                        handle.checkpoint(timeout="120s")
                    continue
            if chance.random() < 0.5:
                wait_for(lambda: handle.status() is JobStatus.RUNNING, f"the job to run: {chain(handle)[-20:]}")
        wait_for(lambda: handle.status() is JobStatus.RUNNING, f"the job to run again: {chain(handle)[-20:]}")
        completed = handle.checkpoints().counts.completed
        wait_for(lambda: handle.checkpoints().counts.completed > completed, "another checkpoint")
        assert handle.checkpoint(timeout="120s")
