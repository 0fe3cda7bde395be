"""The driver's port, and how many strangers it bears; processes that are hung up on dial again."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.master.control_server import (
    MAX_UNKNOWN_PEERS,
    ControlServer,
    PeerConnection,
    connection_limit,
)
from snapline.runtime.network.descriptors import require_descriptors
from snapline.runtime.slot import control_link
from snapline.runtime.slot.control_link import SocketLink, connect
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.auth import DRIVER, Route
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.frames import ControlConnection
from snapline.runtime.wire.secured_socket import SecuredSocket, server_handshake

CREDENTIALS = new_credentials(Encryption.MAC)
ROUTE = Route("control", 1, 0, DRIVER)
SLOTS = 2


class Listener:
    """Accepts everybody who knows the secret."""

    def __init__(self) -> None:
        self.credentials: Credentials | None = CREDENTIALS
        self.greetings: list[m.SupervisorHello | m.ProcessHello] = []
        self.closed_reasons: list[str] = []

    def greeted(self, peer: PeerConnection, hello: m.SupervisorHello | m.ProcessHello) -> str | None:
        self.greetings.append(hello)
        return None

    def unable(self, error: str) -> None:
        raise AssertionError(error)

    def received(self, peer: PeerConnection, message: m.ToMaster) -> None:
        """Heartbeats."""

    def closed(self, peer: PeerConnection, reason: str) -> None:
        self.closed_reasons.append(reason)


class Setup:
    def __init__(self) -> None:
        self.listener = Listener()
        self.defects: list[Exception] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = ControlServer(self.listener, SLOTS, self.defects.append)
        asyncio.run_coroutine_threadsafe(self.server.start("127.0.0.1"), self._loop).result(10)
        self.address = ("127.0.0.1", self.server.port)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert self.defects == []


@pytest.fixture
def setup() -> Iterator[Setup]:
    setup = Setup()
    yield setup
    setup.close()


def eventually(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.005)


def join(setup: Setup, incarnation: int) -> SocketLink:
    link = connect(setup.address, CREDENTIALS, ROUTE, m.decode_to_process, "test")
    link.start(lambda message: None, lambda reason: None)
    link.send(m.ProcessHello(1, 0, incarnation, 1, "127.0.0.1", 1))
    return link


def test_a_process_joins_at_once_although_a_thousand_strangers_are_silent(setup: Setup) -> None:
    require_descriptors(3000, "the test")
    first = join(setup, 1)
    eventually(lambda: len(setup.listener.greetings) == 1)
    with ExitStack() as crowd:
        silent = [crowd.enter_context(socket.create_connection(setup.address, timeout=5)) for _ in range(1000)]
        started_s = time.monotonic()
        again = join(setup, 2)
        eventually(lambda: len(setup.listener.greetings) == 2)
        assert time.monotonic() - started_s < 6
        # The oldest of the silent went, and who had authenticated stayed.
        silent[0].settimeout(5)
        assert silent[0].recv(1) == b""
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[-1].recv(1)
        first.send(m.Heartbeat())
        assert setup.listener.closed_reasons == []
        assert len(setup.server._unknown) <= MAX_UNKNOWN_PEERS + 2 * SLOTS
    eventually(lambda: not setup.server._unknown)
    for link in (first, again):
        link.close()
    eventually(lambda: len(setup.listener.closed_reasons) == 2)


def test_the_oldest_has_to_go_but_no_more_than_that(setup: Setup) -> None:
    limit = MAX_UNKNOWN_PEERS + 2 * SLOTS
    assert connection_limit(SLOTS) == limit + 2 * SLOTS
    with ExitStack() as crowd:
        silent = []
        for number in range(limit + 1):
            silent.append(crowd.enter_context(socket.create_connection(setup.address, timeout=5)))
            eventually(lambda number=number: len(setup.server._unknown) == min(number + 1, limit))  # type: ignore[misc]
        assert silent[0].recv(1) == b""
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].recv(1)


# The dialling side.


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def at_once(sock: socket.socket) -> None:
    """Hangs up before the first message."""


def after_authentication(sock: socket.socket) -> None:
    """Hangs up when the other side has done its part."""
    server_handshake(SecuredSocket(sock), CREDENTIALS, "control")


@pytest.mark.parametrize("hang_up", [at_once, after_authentication])
def test_a_driver_that_hangs_up_before_it_has_answered_is_dialled_again(
    server: socket.socket, hang_up: Callable[[socket.socket], None]
) -> None:
    connections: list[ControlConnection] = []

    def serve() -> None:
        for _ in range(2):
            sock, _ = server.accept()
            hang_up(sock)
            sock.close()
        sock, _ = server.accept()
        secured = SecuredSocket(sock)
        server_handshake(secured, CREDENTIALS, "control")
        connections.append(ControlConnection(secured))
        connections[0].send(m.encode(m.Heartbeat()))

    thread = threading.Thread(target=serve)
    thread.start()
    link = connect(server.getsockname(), CREDENTIALS, ROUTE, m.decode_to_supervisor, "test")
    thread.join()
    received: list[object] = []
    is_over = threading.Event()
    link.start(received.append, lambda reason: is_over.set())
    connections[0].send(m.encode(m.StartProcess(1)))
    connections[0].close()
    assert is_over.wait(10)
    assert received == [m.StartProcess(1)]
    link.close()


def test_a_driver_that_always_hangs_up_is_given_up(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_link, "CONNECT_TIMEOUT_S", 0.3)
    monkeypatch.setattr(control_link, "CONNECT_RETRY_S", 0.01)
    accepted: list[int] = []

    def serve() -> None:
        while True:
            try:
                sock, _ = server.accept()
            except OSError:
                return
            accepted.append(1)
            sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(PeerError, match=r"closed|broke|hung up"):
        connect(server.getsockname(), CREDENTIALS, ROUTE, m.decode_to_supervisor, "test")
    server.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert len(accepted) > 1
