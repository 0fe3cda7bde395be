"""The supervisor of a slot: starts, watches and ends its operator process on the driver's orders."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time

from snapline.errors import PeerError
from snapline.runtime.slot.bootstrap import Bootstrap
from snapline.runtime.slot.process_launcher import Child, LaunchedProcess, StartChild
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.runtime.wire.auth import client_handshake
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
    encode,
)
from snapline.runtime.wire.frames import ControlConnection

CONNECT_TIMEOUT_S = 10.0
CONNECT_RETRY_S = 0.1
HANDSHAKE_TIMEOUT_S = 5.0
JOIN_TIMEOUT_S = 10.0


class Supervisor:
    """One slot of a job. `host` is the address of this machine, `task_attempt` what Spark calls the task.

    `run` belongs on the main thread of a process that Spark may kill: the operator process dies with the thread that
    calls it.
    """

    def __init__(
        self, order: SlotOrder, slot: int, host: str, task_attempt: int, *, start_child: StartChild = LaunchedProcess
    ) -> None:
        self._order = order
        self._slot = slot
        self._host = host
        self._task_attempt = task_attempt
        self._start_child = start_child
        self._child: Child | None = None
        # the driver sends one message for each of ours and an order now and then, so this stays short
        self._events: queue.SimpleQueue[ToSupervisor | ProcessDied | PeerError] = queue.SimpleQueue()

    def run(self) -> None:
        """Serve until the driver says that the slot is to be given back; `PeerError` if it is lost.

        However it ends, no process, thread or connection is left.
        """
        with self._connected() as sock:
            client_handshake(sock, self._order.secret, "control", HANDSHAKE_TIMEOUT_S)
            connection = ControlConnection(sock)
            reader = threading.Thread(target=self._read, args=(connection,), name="supervisor-reader", daemon=True)
            reader.start()
            try:
                self._serve(connection)
            finally:
                try:
                    self._kill_child()
                finally:
                    connection.close()
                    reader.join(JOIN_TIMEOUT_S)

    def give_up(self, reason: str) -> None:
        """Let `run` end with a `PeerError`; from any thread."""
        self._events.put(PeerError(reason))

    def _connected(self) -> socket.socket:
        address = (self._order.host, self._order.port)
        deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                return socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
            except OSError as error:
                if time.monotonic() > deadline_s:
                    raise PeerError(
                        f"slot {self._slot} on {self._host} cannot reach the driver at {address[0]}:{address[1]}: "
                        f"{error}; let spark.driver.host be an address the executors can reach, and open the driver's "
                        "ports to them"
                    ) from error
                time.sleep(CONNECT_RETRY_S)

    def _serve(self, connection: ControlConnection) -> None:
        interval_s = self._order.heartbeat_interval_ms / 1000
        timeout_s = self._order.heartbeat_timeout_ms / 1000
        hello = SupervisorHello(
            generation=self._order.generation,
            slot=self._slot,
            host=self._host,
            pid=os.getpid(),
            python=sys.executable,
            task_attempt=self._task_attempt,
        )
        self._send(connection, hello)
        heard_s = sent_s = time.monotonic()
        while True:
            now_s = time.monotonic()
            if now_s - sent_s >= interval_s:
                self._send(connection, Heartbeat())
                sent_s = now_s
            try:
                event = self._events.get(timeout=max(0.0, sent_s + interval_s - now_s))
            except queue.Empty:
                if time.monotonic() - heard_s > timeout_s:
                    raise PeerError(
                        f"slot {self._slot} has not heard from the driver for {timeout_s:g} s and gives up"
                    ) from None
                continue
            match event:
                case PeerError():
                    raise event
                case ProcessDied(incarnation):
                    if self._child is None or self._child.incarnation == incarnation:
                        self._child = None
                        self._send(connection, event)
                    continue
                case StartProcess(incarnation):
                    self._start(incarnation)
                case KillProcess(incarnation):
                    if self._child is not None and self._child.incarnation == incarnation:
                        self._kill_child()
                case Drain():
                    return
                case Heartbeat():
                    pass
            heard_s = time.monotonic()

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
            secret=order.secret,
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
        self._events.put(ProcessDied(incarnation, error, log))

    def _read(self, connection: ControlConnection) -> None:
        try:
            while (data := connection.receive()) is not None:
                self._events.put(decode_to_supervisor(data))
            self._events.put(PeerError(f"the driver closed the connection of slot {self._slot}"))
        except PeerError as error:
            self._events.put(error)
        except OSError as error:
            self._events.put(PeerError(f"slot {self._slot} lost the driver: {error}"))

    def _send(self, connection: ControlConnection, message: Message) -> None:
        try:
            connection.send(encode(message))
        except OSError as error:
            raise PeerError(f"slot {self._slot} lost the driver: {error}") from error
