"""The operator process of a slot: joins the job, and runs the tasks the driver deploys to it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from snapline.errors import (
    ConfigurationError,
    EngineError,
    FencedError,
    PeerError,
    SnaplineError,
    StorageError,
    UserCodeError,
)
from snapline.graph.shipment import Shipment, unpack
from snapline.protocol.subtask import subtask_events as s
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.slot import bootstrap as boot
from snapline.runtime.slot.attempt import Attempt, all_tasks
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.process_directory import ProcessDirectory
from snapline.runtime.task.task_environment import Executors
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.auth import client_handshake
from snapline.runtime.wire.frames import ControlConnection
from snapline.storage.file_objects import FileObjects
from snapline.types import ExecutionId, TaskStatus

_log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
LOST_PEER_PAUSE_S = 1.0
"""How long a lost connection to another slot is kept quiet: somebody else tells of its cause, and has to come first."""

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may hold the interpreter while others wait: the default would add 5 ms to every message."""

STATE_THREADS = 4
CHANNEL_THREADS = 2
BACKGROUND_THREADS = 8
MAX_LOG_LINES = 50


_GARBAGE_THRESHOLD = 100_000
"""So many more objects than before and circles among them are looked for: a batch of rows makes as many at once, and
few programs that deal with data make circles."""


class OperatorProcess:
    """One operator process. `run` serves until the driver lets go, or `stop` is set."""

    def __init__(self, bootstrap: Bootstrap, stop: threading.Event) -> None:
        self._bootstrap = bootstrap
        self._stop = stop
        self._log_lines = LogLines()
        self._attempt: Attempt | None = None
        self._fenced_until = 0
        self._has_probed_storage = False
        self._directory_guard = threading.Lock()
        self._heard_s = time.monotonic()
        self._objects = FileObjects()
        self._shipment: Shipment | None = None

    def run(self) -> None:
        """Join the job and serve; raises `PeerError` if the driver is lost."""
        bootstrap = self._bootstrap
        with self._log_lines:
            connection = ControlConnection(self._connect())
            try:
                shipment = unpack(bootstrap.shipment)
                self._shipment = shipment
                settings = shipment.execution
                exchange = Exchange(
                    bootstrap.host,
                    bootstrap.secret,
                    slot=bootstrap.slot,
                    batch_size_bytes=settings.batch_size_bytes,
                    flush_timeout_ms=settings.flush_timeout_ms,
                    channel_memory_bytes=settings.channel_memory_bytes,
                )
            except Exception as error:
                connection.send(m.encode(m.ProcessUnable(_unpacking_failed(error))))
                connection.close()
                raise
            try:
                self._serve(connection, exchange, shipment)
            finally:
                connection.close()

    def _connect(self) -> socket.socket:
        bootstrap = self._bootstrap
        address = (bootstrap.driver_host, bootstrap.driver_port)
        sock = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
        try:
            client_handshake(sock, bootstrap.secret, "control", CONNECT_TIMEOUT_S)
        except BaseException:
            sock.close()
            raise
        return sock

    def _serve(self, connection: ControlConnection, exchange: Exchange, shipment: Shipment) -> None:
        bootstrap = self._bootstrap
        self._connection = connection
        self._exchange = exchange
        self._directory = ProcessDirectory(shipment.execution.state_directory)
        orders = ThreadPoolExecutor(1, "orders")
        pools = [
            ThreadPoolExecutor(count, name)
            for count, name in (
                (STATE_THREADS, "state"),
                (CHANNEL_THREADS, "in-flight"),
                (BACKGROUND_THREADS, "background"),
            )
        ]
        self._executors = Executors(*pools)
        self._orders = orders
        watch = threading.Thread(target=self._watch, name="heartbeat", daemon=True)
        try:
            host, port = exchange.address
            self._send(
                m.ProcessHello(bootstrap.generation, bootstrap.slot, bootstrap.incarnation, os.getpid(), host, port)
            )
            watch.start()
            self._check_operators(shipment)
            while not self._stop.is_set():
                data = connection.receive()
                if data is None:
                    break
                self._heard_s = time.monotonic()
                self._handle(m.decode_to_process(data))
        finally:
            self._stop.set()
            attempt = self._attempt
            if attempt is not None:
                attempt.give_up()
            orders.shutdown(wait=True, cancel_futures=True)
            if self._attempt is not None:
                self._attempt.stop(shipment.execution.cancel_timeout_ms / 1000)
            exchange.close()
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)
            watch.join()
            self._remove_directory()

    def _check_operators(self, shipment: Shipment) -> None:
        """Find out now, not in some task, if the job's code does not work here."""
        for vertex in shipment.plan.vertices:
            try:
                shipment.make_operators(vertex.id)
            except Exception as error:
                self._send(m.ProcessUnable(_unpacking_failed(error)))
                return

    # Orders.

    def _handle(self, message: m.ToProcess) -> None:
        match message:
            case m.Heartbeat():
                pass
            case m.Deploy():
                self._orders.submit(self._guarded, self._deploy, message)
            case m.Cancel(attempt):
                self._fenced_until = max(self._fenced_until, attempt)
                current = self._attempt
                if current is not None and current.number <= attempt:
                    current.give_up()
                self._orders.submit(self._guarded, self._cancel, message)
            case m.TriggerCheckpoint(execution, barrier):
                task = all_tasks(self._attempt).get(execution)
                if task is not None:
                    task.trigger(s.TriggerReceived(execution.attempt, barrier))
            case m.CheckpointCompleted(execution, checkpoint_id, subsumed_id):
                task = all_tasks(self._attempt).get(execution)
                if task is not None:
                    task.notify(s.CompletionNotified(execution.attempt, checkpoint_id, subsumed_id))
            case m.CheckpointAborted(execution, checkpoint_id):
                task = all_tasks(self._attempt).get(execution)
                if task is not None:
                    task.notify(s.AbortNotified(execution.attempt, checkpoint_id))
            case m.OperatorEvent(execution, _, sequence, event):
                task = all_tasks(self._attempt).get(execution)
                if task is not None:
                    task.coordinator_event(event)
                    self._send(m.OperatorEventReceived(execution.attempt, sequence))

    def _guarded(self, order: object, message: m.Deploy | m.Cancel) -> None:
        """Carry out an order on its own thread; a defect in it ends the process, and so reaches the driver."""
        try:
            order(message)  # type: ignore[operator]
        except BaseException:
            _log.exception("%s could not be carried out; the process ends", type(message).__name__)
            self._end()

    def _deploy(self, deploy: m.Deploy) -> None:
        if deploy.attempt <= self._fenced_until or self._stop.is_set():
            return
        assert self._shipment is not None
        executions = [task.execution for task in deploy.tasks if not task.finished]
        try:
            self._probe_storage(deploy)
            attempt = Attempt(
                deploy,
                self._bootstrap.slot,
                self._shipment,
                self._exchange,
                self._objects,
                self._executors,
                self,
                self._own_directory,
                lambda peer, error: self._peer_lost(deploy.attempt, executions, peer, error),
            )
            self._attempt = attempt
            if deploy.attempt <= self._fenced_until:
                attempt.give_up()
            attempt.start()
        except EngineError:
            if not attempt.is_given_up:  # else its channels were closed under its hands
                raise
        except (FencedError, PeerError, StorageError, ConfigurationError, UserCodeError) as error:
            if deploy.attempt > self._fenced_until and executions:
                is_final = isinstance(error, ConfigurationError)
                self.task_changed(executions[0], TaskStatus.FAILED, str(error), is_final=is_final)

    def _cancel(self, cancel: m.Cancel) -> None:
        assert self._shipment is not None
        attempt = self._attempt
        if attempt is not None and attempt.number <= cancel.attempt:
            if not attempt.stop(self._shipment.execution.cancel_timeout_ms / 1000):
                return  # the driver will have this process killed
            self._attempt = None
            self._remove_directory()
        self._send(m.TasksCancelled(cancel.attempt))

    def _own_directory(self) -> Path:
        with self._directory_guard:
            return self._directory.path

    def _remove_directory(self) -> None:
        """Leave nothing on this machine: once the driver knows that the tasks are gone, this process is killed."""
        with self._directory_guard:
            self._directory.remove()

    def _probe_storage(self, deploy: m.Deploy) -> None:
        """Find out once whether this machine can write where the checkpoints go."""
        if deploy.shared is None or self._has_probed_storage:
            return
        bootstrap = self._bootstrap
        path = f"{deploy.shared}/a{deploy.attempt}-probe-{bootstrap.slot}-{bootstrap.incarnation}"
        try:
            self._objects.write(path, b"probe")
            self._objects.delete([path])
        except StorageError as error:
            self._send(
                m.ProcessUnable(
                    f"the executor on {bootstrap.host} cannot write checkpoints to {deploy.shared}: {error}; use a "
                    "directory or URL that the driver and all executors reach and may write to"
                )
            )
            raise
        self._has_probed_storage = True

    def _peer_lost(self, number: int, executions: list[ExecutionId], peer: int, error: str) -> None:
        def tell() -> None:
            attempt = self._attempt
            if number <= self._fenced_until or attempt is None or attempt.number != number:
                return
            # Of a task that has finished the driver believes no failure.
            unfinished = [execution for execution in executions if not attempt.has_task_finished(execution)]
            if unfinished:
                problem = f"the connection to slot {peer} is lost: {error}"
                self.task_changed(unfinished[0], TaskStatus.FAILED, problem)

        timer = threading.Timer(LOST_PEER_PAUSE_S, tell)
        timer.daemon = True
        timer.start()

    # What tasks tell.

    def task_changed(
        self, execution: ExecutionId, status: TaskStatus, error: str = "", trace: str = "", *, is_final: bool = False
    ) -> None:
        log = self._log_lines.text() if status is TaskStatus.FAILED else ""
        attempt = self._attempt
        if status is TaskStatus.FINISHED and attempt is not None and attempt.has_finished:
            self._remove_directory()
        self._send(m.TaskReport(execution, status, error, trace, log, is_final))

    def checkpoint_answered(self, answer: s.SendAcknowledgement | s.SendDecline) -> None:
        if isinstance(answer, s.SendAcknowledgement):
            self._send(m.Acknowledge(answer.execution, answer.checkpoint_id, dict(answer.state), answer.metrics))
        else:
            self._send(m.Decline(answer.execution, answer.checkpoint_id, answer.reason, answer.message))

    def split_wanted(self, execution: ExecutionId, operator: str) -> None:
        self._send(m.SplitRequest(execution, operator))

    def source_ended(self, execution: ExecutionId) -> None:
        self._send(m.SourceEnded(execution))

    def _send(self, message: m.Message) -> None:
        try:
            self._connection.send(m.encode(message))
        except PeerError as error:
            if not self._stop.is_set():
                _log.warning("the driver is lost: %s", error)
                self._end()

    def _end(self) -> None:
        self._stop.set()
        self._connection.close()

    # Signs of life.

    def _watch(self) -> None:
        """Tell the driver that this process lives, and end it when the driver does not."""
        assert self._shipment is not None
        interval_s = self._bootstrap.heartbeat_interval_ms / 1000
        metrics_s = self._shipment.execution.metrics_interval_ms / 1000
        next_heartbeat_s = next_metrics_s = time.monotonic()
        while not self._stop.wait(max(min(next_heartbeat_s, next_metrics_s) - time.monotonic(), 0)):
            now_s = time.monotonic()
            if now_s >= next_heartbeat_s:
                next_heartbeat_s = now_s + interval_s
                self._send(m.Heartbeat())
            if now_s >= next_metrics_s:
                next_metrics_s = now_s + metrics_s
                attempt = self._attempt
                if attempt is not None:
                    self._send(m.Metrics(attempt.metrics(), _memory_bytes()))
            if now_s - self._heard_s > self._bootstrap.heartbeat_timeout_ms / 1000:
                _log.warning("nothing was heard from the driver for %d ms", self._bootstrap.heartbeat_timeout_ms)
                self._end()
        self._connection.close()  # whoever set `stop` need not wait for the next message


class LogLines(logging.Handler):
    """Keeps the last lines of the log while it is entered, to be sent along with a failure."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def text(self) -> str:
        return "\n".join(self._lines)

    def __enter__(self) -> LogLines:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().removeHandler(self)


def run_operator_process(bootstrap: Bootstrap, stop: threading.Event) -> None:
    """Serve one slot in this process until the driver lets go, or `stop` is set."""
    OperatorProcess(bootstrap, stop).run()


def main() -> None:
    """The operator process: everything it has to know comes through its standard input."""
    stream = sys.stdin.buffer
    bootstrap = boot.read(stream)
    boot.die_with_parent(bootstrap.parent_pid)
    boot.watch_parent(stream, lambda: os._exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = bootstrap.sys_path
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, *gc.get_threshold()[1:])
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    status = 0
    try:
        run_operator_process(bootstrap, threading.Event())
    except SnaplineError as error:
        _log.error("the operator process of slot %d ends: %s", bootstrap.slot, error)
        status = 1
    except BaseException:
        _log.exception("the operator process of slot %d ends, in a way that was not foreseen", bootstrap.slot)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of user code must not keep the process.
    os._exit(status)


def _unpacking_failed(error: Exception) -> str:
    if isinstance(error, UserCodeError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return (
            f"the executors lack the module {error.name!r}; install it where they run, or ship it: "
            "spark.sparkContext.addPyFile(...), or --py-files and --archives of spark-submit"
        )
    return (
        f"the job cannot be unpacked on the executors: {type(error).__name__}: {error}; do driver and executors have "
        "the same versions of Python, Snapline and all packages?"
    )


def _memory_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
