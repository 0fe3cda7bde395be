"""The supervisor of a slot: starts, watches and ends its operator process as the driver asks."""

from __future__ import annotations

import os
import shutil
import sys

from snapline.errors import PeerError
from snapline.runtime.scheduler.scheduler import Threads
from snapline.runtime.scheduler.silence import silent_since
from snapline.runtime.scheduler.system_threads import SystemThreads
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.control_link import ControlLink, cannot_reach, connect
from snapline.runtime.slot.process_launcher import Child, LaunchedProcess, StartChild
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.runtime.wire.auth import CONTROL, DRIVER, Route
from snapline.runtime.wire.control_messages import (
    Drain,
    Heartbeat,
    KillProcess,
    Message,
    ProcessDied,
    StartProcess,
    SupervisorHello,
    ToSupervisor,
    decode_to_supervisor,
)


class Supervisor:
    """One slot of a job. Call `run` on the process's main thread: the operator process dies with that thread."""

    def __init__(
        self,
        order: SlotOrder,
        slot: int,
        host: str,
        task_attempt: int,
        *,
        start_child: StartChild = LaunchedProcess,
        threads: Threads | None = None,
    ) -> None:
        self._order = order
        self._slot = slot
        self._host = host
        self._task_attempt = task_attempt
        self._start_child = start_child
        self._threads = threads or SystemThreads()
        self._mailbox = self._threads.mailbox(self._time_ms)
        self._child: Child | None = None
        self._heard_ms = self._beaten_ms = 0.0
        self._is_drained = False
        self._has_ended = False

    def run(self) -> None:
        """Serve until the driver returns the slot. Raises `PeerError` if the driver is lost. Leaves nothing behind."""
        order = self._order
        address = (order.host, order.port)
        try:
            link = connect(
                address,
                order.credentials,
                Route(CONTROL, order.generation, self._slot, DRIVER),
                decode_to_supervisor,
                "supervisor-reader",
                retry=True,
            )
        except OSError as error:
            raise PeerError(f"slot {self._slot} on {self._host} {cannot_reach(address, error)}") from error
        self.serve(link)

    def serve(self, link: ControlLink) -> None:
        """Serve on a connection, then close it."""
        self._link = link
        try:
            link.start(self._received, self._lost)
            self._send(self._hello())
            self._heard_ms = self._beaten_ms = self._time_ms()
            self._beat()
            self._mailbox.serve(lambda: self._is_drained)
        finally:
            try:
                self._kill_child()
                if self._has_ended and self._order.local_copies is not None:
                    # The supervisors of a machine share the directory, and each tries to remove it.
                    shutil.rmtree(self._order.local_copies, ignore_errors=True)
            finally:
                link.close()

    def give_up(self, reason: str) -> None:
        """Make `run` raise `PeerError`. Any thread."""
        self._mailbox.post(lambda: self._fail(reason))

    def _time_ms(self) -> int:
        return round(self._threads.time_s() * 1000)

    def _hello(self) -> SupervisorHello:
        return SupervisorHello(
            generation=self._order.generation,
            slot=self._slot,
            host=self._host,
            pid=self._threads.process_id(),
            python=sys.executable,
            task_attempt=self._task_attempt,
        )

    def _beat(self) -> None:
        now_ms, order = self._time_ms(), self._order
        interval_ms, timeout_ms = order.heartbeat_interval_ms, order.heartbeat_timeout_ms
        self._heard_ms = silent_since(self._heard_ms, self._beaten_ms, now_ms, interval_ms)
        self._beaten_ms = now_ms
        if now_ms - self._heard_ms > timeout_ms:
            self._fail(f"slot {self._slot} has not heard from the driver for {timeout_ms / 1000:g} s and gives up")
        self._send(Heartbeat())
        self._mailbox.at(now_ms + interval_ms, self._beat)

    # On the link's thread.

    def _received(self, message: ToSupervisor) -> None:
        self._mailbox.post(lambda: self._handle(message))

    def _lost(self, reason: str) -> None:
        self.give_up(f"slot {self._slot} lost the driver: {reason}")

    # On the thread of `run`.

    def _handle(self, message: ToSupervisor) -> None:
        self._heard_ms = self._time_ms()
        match message:
            case StartProcess(incarnation):
                self._start(incarnation)
            case KillProcess(incarnation):
                if self._child is not None and self._child.incarnation == incarnation:
                    self._kill_child()
            case Drain(has_ended):
                self._is_drained = True
                self._has_ended = has_ended
            case Heartbeat():
                pass

    def _start(self, incarnation: int) -> None:
        self._kill_child()
        order = self._order
        bootstrap = Bootstrap(
            job_id=order.job_id,
            generation=order.generation,
            slot=self._slot,
            incarnation=incarnation,
            driver_host=order.host,
            driver_port=order.port,
            credentials=order.credentials,
            host=self._host,
            heartbeat_interval_ms=order.heartbeat_interval_ms,
            heartbeat_timeout_ms=order.heartbeat_timeout_ms,
            parent_pid=os.getpid(),
            sys_path=list(sys.path),
            shipment=order.shipment,
        )
        try:
            self._child = self._start_child(bootstrap, self._child_ended)
        except OSError as error:
            self._child_ended(incarnation, f"cannot be started: {error}", "")

    def _kill_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _child_ended(self, incarnation: int, error: str, log: str) -> None:
        """Any thread."""
        self._mailbox.post(lambda: self._report_end(ProcessDied(incarnation, error, log)))

    def _report_end(self, died: ProcessDied) -> None:
        if self._child is None or self._child.incarnation == died.incarnation:
            self._child = None
            self._send(died)

    def _send(self, message: Message) -> None:
        try:
            self._link.send(message)
        except (PeerError, OSError) as error:
            self._fail(f"slot {self._slot} lost the driver: {error}")

    def _fail(self, reason: str) -> None:
        raise PeerError(reason)
