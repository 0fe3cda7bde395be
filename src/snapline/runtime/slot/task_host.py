"""Runs the tasks of a slot for the driver: deploys, cancels, passes messages on, and reports."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from snapline.config import StateBackend
from snapline.errors import (
    ConfigurationError,
    EngineError,
    FencedError,
    PeerError,
    StorageError,
    UserCodeError,
)
from snapline.graph.requirements import check_packages, check_sinks
from snapline.graph.shipment import Shipment
from snapline.protocol.error_identity import ErrorIdentity
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
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.network.exchange import Exchange
from snapline.runtime.scheduler.silence import silent_since
from snapline.runtime.slot.attempt import Attempt
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.control_link import ControlLink
from snapline.runtime.slot.process_directory import ProcessDirectory
from snapline.runtime.slot.start_problems import start_problem
from snapline.runtime.task.task import Task
from snapline.runtime.task.task_environment import TaskEnvironment
from snapline.runtime.task.task_states import state_memory_used_bytes
from snapline.runtime.wire import control_messages as m
from snapline.storage.objects.object_store import ObjectStore
from snapline.types import ExecutionId, FailureReason, TaskStatus

LOST_PEER_PAUSE_MS = 1000
"""Delay before reporting a lost connection to another slot, so that the side with the cause reports first."""

_log = JobLogger(__name__)


class TaskHost:
    """Runs the tasks of one slot until the driver is lost or `stop`. One separate thread deploys and cancels."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        shipment: Shipment,
        exchange: Exchange,
        objects: ObjectStore,
        environment: TaskEnvironment,
        link: ControlLink,
        directory: ProcessDirectory,
        log_text: Callable[[], str],
    ) -> None:
        threads = environment.threads
        self._bootstrap = bootstrap
        self._shipment = shipment
        self._exchange = exchange
        self._objects = objects
        self._environment = environment
        self._link = link
        self._directory = directory
        self._log_text = log_text
        self._time_s = threads.time_s
        self._mailbox = threads.mailbox(self._time_ms)
        self._orders = threads.executor(1, "orders")
        self._directory_guard = threading.Lock()
        self._attempts: dict[int, Attempt] = {}
        self._fences: dict[int | None, int] = {None: 0}
        self._has_probed_storage = False
        self._is_over = False
        self._heard_ms = self._beaten_ms = 0.0

    def run(self) -> None:
        bootstrap, (host, port) = self._bootstrap, self._exchange.address
        self._heard_ms = self._beaten_ms = self._time_ms()
        try:
            self._link.start(self._received, self._lost)
            process_id = self._environment.threads.process_id()
            self._send(
                m.ProcessHello(bootstrap.generation, bootstrap.slot, bootstrap.incarnation, process_id, host, port)
            )
            # Before any deployment, on the same thread; heartbeats continue while modules are imported.
            self._orders.submit(self._guarded, self._check_requirements, "the check of the job's requirements")
            self._beat()
            self._report_metrics()
            self._mailbox.serve(lambda: self._is_over)
        finally:
            self._close()

    def stop(self) -> None:
        """Make `run` return. Any thread."""
        self._is_over = True
        self._mailbox.wake()

    def _close(self) -> None:
        self._is_over = True
        for attempt in self._current:
            attempt.give_up()
        self._orders.shutdown(wait=True, cancel_futures=True)
        for attempt in self._current:
            attempt.stop(self._shipment.execution.cancel_timeout_ms / 1000)
        self._exchange.close()
        self._link.close()
        self._remove_directory()

    def _check_requirements(self) -> None:
        """Find out at the start, not in some task, whether everything the job needs is here."""
        shipment = self._shipment
        try:
            check_packages(shipment.execution)
            for vertex in shipment.plan.vertices:
                uids = [operator.uid for operator in vertex.operators]
                check_sinks(zip(uids, shipment.make_operators(vertex.id), strict=True))
            if shipment.execution.state_backend is StateBackend.ROCKSDB:
                self._own_directory()
        except Exception as error:
            problem = start_problem(error)
            _log.error("the job cannot run in slot %d: %s", self._bootstrap.slot, problem)
            self._send(m.ProcessUnable(problem))

    @property
    def _current(self) -> tuple[Attempt, ...]:
        """The attempts of all regions."""
        return tuple(self._attempts.values())

    def _task(self, execution: ExecutionId) -> Task | None:
        return next((attempt.tasks[execution] for attempt in self._current if execution in attempt.tasks), None)

    def _is_fenced(self, attempt: int, region: int) -> bool:
        """Whether this attempt of the region was cancelled."""
        return attempt <= max(self._fences[None], self._fences.get(region, 0))

    def _time_ms(self) -> int:
        return round(self._time_s() * 1000)

    # On the link's thread.

    def _received(self, message: m.ToProcess) -> None:
        self._mailbox.post(lambda: self._handle(message))

    def _lost(self, reason: str) -> None:
        if not self._is_over:
            _log.warning("the driver is lost: %s", reason)
            self.stop()

    # Messages from the driver.

    def _handle(self, message: m.ToProcess) -> None:
        self._heard_ms = self._time_ms()
        match message:
            case m.Heartbeat():
                pass
            case m.Deploy():
                self._orders.submit(self._guarded, lambda: self._deploy(message), "a deployment")
            case m.Cancel(number, regions):
                for region in [None] if regions is None else regions:
                    self._fences[region] = max(self._fences.get(region, 0), number)
                for attempt in self._fenced_attempts(number, regions):
                    # Not here: closing connections may take a while, and heartbeats must continue.
                    self._environment.background.submit(attempt.give_up)
                self._orders.submit(self._guarded, lambda: self._cancel(number, regions), "a cancellation")
            case TriggerCheckpoint():
                task = self._task(message.execution)
                if task is not None:
                    task.trigger(message)
                else:
                    self._decline(message)
            case CheckpointCompleted() | CheckpointAborted():
                task = self._task(message.execution)
                if task is not None:
                    task.notify(message)
            case OperatorEvent(execution, operator, sequence, event):
                task = self._task(execution)
                if task is not None:
                    task.coordinator_event(operator, event)
                    self._send(OperatorEventReceived(execution.attempt, sequence))

    def _decline(self, trigger: TriggerCheckpoint) -> None:
        """The driver counts on a task that is not here: it must not wait for an answer until the checkpoint expires."""
        execution, reason = trigger.execution, FailureReason.TASK_CHECKPOINT_FAILURE
        message = f"slot {self._bootstrap.slot} does not run {execution}"
        self._send(Decline(execution, trigger.barrier.id, reason, message))

    def _guarded(self, order: Callable[[], None], what: str) -> None:
        """Carry out an order; a defect in it ends the process, which the driver notices."""
        try:
            order()
        except BaseException:
            _log.exception("%s could not be carried out; the process ends", what)
            self.stop()

    def _deploy(self, deploy: m.Deploy) -> None:
        if self._is_fenced(deploy.attempt, deploy.region) or self._is_over:
            return
        executions = [task.execution for task in deploy.tasks if not task.finished]
        try:
            self._probe_storage(deploy)
            attempt = Attempt(
                deploy,
                self._bootstrap.slot,
                self._shipment,
                self._exchange,
                self._objects,
                self._environment,
                self,
                self._own_directory,
                lambda peer, error: self._peer_lost(deploy.attempt, deploy.region, executions, peer, error),
            )
            self._attempts[deploy.region] = attempt
            if self._is_fenced(deploy.attempt, deploy.region):
                attempt.give_up()
            attempt.start()
        except EngineError:
            if not attempt.is_given_up:  # else its channels were closed while it used them
                raise
        except (FencedError, PeerError, StorageError, ConfigurationError, UserCodeError) as error:
            if not self._is_fenced(deploy.attempt, deploy.region) and executions:
                is_final = isinstance(error, ConfigurationError)
                identity = ErrorIdentity.of(error, "")
                self.task_changed(executions[0], TaskStatus.FAILED, str(error), is_final=is_final, identity=identity)

    def _fenced_attempts(self, number: int, regions: list[int] | None) -> list[Attempt]:
        return [
            attempt
            for attempt in self._current
            if attempt.number <= number and (regions is None or attempt.region in regions)
        ]

    def _cancel(self, number: int, regions: list[int] | None) -> None:
        for attempt in self._fenced_attempts(number, regions):
            if not attempt.stop(self._shipment.execution.cancel_timeout_ms / 1000):
                return  # the driver will have this process killed
            del self._attempts[attempt.region]
            with self._directory_guard:
                self._directory.remove_part(attempt.directory_prefix)
        if not self._attempts:
            self._remove_directory()
        self._send(m.TasksCancelled(number, regions))

    def _own_directory(self) -> Path:
        with self._directory_guard:
            return self._directory.path

    def _remove_directory(self) -> None:
        """Do this before the driver hears that the tasks are gone: it may kill this process then."""
        with self._directory_guard:
            self._directory.remove()

    def _probe_storage(self, deploy: m.Deploy) -> None:
        """Check once that this machine can write to the checkpoint directory."""
        if deploy.shared is None or self._has_probed_storage:
            return
        bootstrap = self._bootstrap
        path = f"{deploy.shared}/a{deploy.attempt}-probe-{bootstrap.slot}-{bootstrap.incarnation}"
        try:
            self._objects.write(path, b"probe")
            self._objects.delete([path])
        except (StorageError, ConfigurationError) as error:
            self._send(
                m.ProcessUnable(
                    f"the executor on {bootstrap.host} cannot write checkpoints to {deploy.shared}: {error}; use a "
                    "directory or URL that the driver and all executors reach and may write to"
                )
            )
            raise
        self._has_probed_storage = True

    def _peer_lost(self, number: int, region: int, executions: list[ExecutionId], peer: int, error: str) -> None:
        """Any thread."""

        def report() -> None:
            attempt = self._attempts.get(region)
            if self._is_fenced(number, region) or attempt is None or attempt.number != number:
                return
            # The driver ignores failures of finished tasks.
            unfinished = [execution for execution in executions if not attempt.has_task_finished(execution)]
            if unfinished:
                problem = f"the connection to slot {peer} is lost: {error}"
                self.task_changed(unfinished[0], TaskStatus.FAILED, problem)

        self._mailbox.post(lambda: self._at(LOST_PEER_PAUSE_MS, report))

    # Reports of tasks, each on its own thread.

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
        log = self._log_text() if status is TaskStatus.FAILED else ""
        if status is TaskStatus.FINISHED and all(attempt.has_finished for attempt in self._current):
            self._remove_directory()
        task = self._task(execution)
        if task is not None and status in (TaskStatus.FINISHED, TaskStatus.FAILED):
            self._send_metrics([task.metrics()])
        self._send(TaskReport(execution, status, error, trace, log, is_final, identity))

    def checkpoint_answered(self, answer: Acknowledge | Decline | CheckpointMeasured) -> None:
        self._send(answer)

    def event_sent(self, event: EventToCoordinator) -> None:
        self._send(event)

    def source_ended(self, execution: ExecutionId) -> None:
        self._send(m.SourceEnded(execution))

    def _send(self, message: m.Message) -> None:
        try:
            self._link.send(message)
        except PeerError as error:
            self._lost(str(error))

    # Signs of life.

    def _at(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._mailbox.at(self._time_ms() + delay_ms, call)

    def _beat(self) -> None:
        now_ms, bootstrap = self._time_ms(), self._bootstrap
        interval_ms, timeout_ms = bootstrap.heartbeat_interval_ms, bootstrap.heartbeat_timeout_ms
        self._heard_ms = silent_since(self._heard_ms, self._beaten_ms, now_ms, interval_ms)
        self._beaten_ms = now_ms
        if now_ms - self._heard_ms > timeout_ms:
            self._lost(f"no message for {timeout_ms} ms")
            return
        self._send(m.Heartbeat())
        self._at(interval_ms, self._beat)

    def _report_metrics(self) -> None:
        if self._attempts:
            metrics = [task for attempt in self._current for task in attempt.metrics()]
            self._send_metrics(metrics)
        self._at(self._shipment.execution.metrics_interval_ms, self._report_metrics)

    def _send_metrics(self, tasks: list[TaskMetrics]) -> None:
        state_bytes = state_memory_used_bytes(self._shipment.execution)
        self._send(m.Metrics(tasks, _memory_bytes(), state_bytes))


def _memory_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
