"""A Spark in this process, a real standalone cluster beside it, and a scripted driver for slots."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import SparkSession

from snapline.config import Encryption
from snapline.devtools.kit.processes import look
from snapline.devtools.servers.standalone_cluster import StandaloneCluster
from snapline.errors import PeerError
from snapline.runtime.slot.slot_provider import SlotOrder
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.credentials import new_credentials
from snapline.runtime.wire.frames import ControlConnection
from snapline.runtime.wire.secured_socket import SecuredSocket, server_handshake

DEADLINE_S = 120.0


def eventually(condition: Callable[[], Any], *, within_s: float = DEADLINE_S) -> Any:
    """The first true value of the condition."""
    deadline_s = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.01)
    return value


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., Any]:
    return eventually


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One `local[4]` session for all tests of this process; its workers run the Python of the tests.

    Machines that run tests may be slow: a slot that is late is not taken for lost.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local[4]")
            .appName("tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.snapline.execution.heartbeat_timeout", "60s")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


class ScriptedDriver:
    """Listens as a driver does, answers heartbeats, and otherwise does what a test says."""

    def __init__(self, *, timeout_ms: int = 10_000) -> None:
        self.hellos: dict[int, m.SupervisorHello] = {}
        self.workers: dict[int, m.ProcessHello] = {}
        self.died: list[m.ProcessDied] = []
        self._timeout_ms = timeout_ms
        self._credentials = new_credentials(Encryption.MAC)
        self._supervisors: list[ControlConnection] = []
        self._threads: list[threading.Thread] = []
        self._connections: list[ControlConnection] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def order(self, slots: int, shipment: bytes, *, generation: int = 1) -> SlotOrder:
        return SlotOrder(
            job_id=f"job-{self._server.getsockname()[1]}",
            job_name="scripted",
            generation=generation,
            slots=slots,
            host="127.0.0.1",
            port=self._server.getsockname()[1],
            credentials=self._credentials,
            shipment=shipment,
            heartbeat_interval_ms=200,
            heartbeat_timeout_ms=self._timeout_ms,
            slot_host=None,
        )

    def send_all(self, message: m.Message) -> None:
        """To all that are still there."""
        for connection in self._supervisors:
            with suppress(PeerError):
                connection.send(m.encode(message))

    def forget(self) -> None:
        """Hang up, and wait for others to come."""
        for connection in self._connections:
            connection.close()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        self._connections.clear()
        self._threads.clear()
        self._supervisors.clear()
        self.hellos.clear()
        self.workers.clear()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._accepting.join(DEADLINE_S)
        self.forget()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            try:
                secured = SecuredSocket(sock)
                server_handshake(secured, self._credentials, "control", DEADLINE_S)
            except PeerError:
                sock.close()
                continue
            connection = ControlConnection(secured)
            connection.send(m.encode(m.Heartbeat()))
            self._connections.append(connection)
            thread = threading.Thread(target=self._listen, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _listen(self, connection: ControlConnection) -> None:
        try:
            while (data := connection.receive()) is not None:
                match m.decode_to_master(data):
                    case m.SupervisorHello() as hello:
                        self._supervisors.append(connection)
                        self.hellos[hello.slot] = hello
                    case m.ProcessHello() as hello:
                        self.workers[hello.slot] = hello
                    case m.ProcessDied() as died:
                        self.died.append(died)
                    case m.Heartbeat():
                        connection.send(m.encode(m.Heartbeat()))
        except PeerError:
            connection.close()


@pytest.fixture
def scripted_driver() -> Iterator[ScriptedDriver]:
    driver = ScriptedDriver()
    yield driver
    driver.close()


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers, each a process of its own."""
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    return lambda pid: look(pid) is not None
