"""The connection of a slot's processes to the driver, over loopback."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.slot.control_link import SocketLink, connect
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.auth import DRIVER, Route
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.frames import ControlConnection
from snapline.runtime.wire.secured_socket import SecuredSocket, server_handshake

CREDENTIALS = new_credentials(Encryption.MAC)
ROUTE = Route("control", 1, 0, DRIVER)
DEADLINE_S = 10.0


class Driver:
    """Accepts one connection, on a thread."""

    def __init__(self, credentials: Credentials = CREDENTIALS) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(DEADLINE_S)
        self.address: tuple[str, int] = self._server.getsockname()
        self._connection: ControlConnection | None = None
        self._thread = threading.Thread(target=self._accept, args=(credentials,))
        self._thread.start()

    def _accept(self, credentials: Credentials) -> None:
        sock, _ = self._server.accept()
        try:
            secured = SecuredSocket(sock)
            assert server_handshake(secured, credentials, "control", DEADLINE_S) == ROUTE
        except PeerError:
            sock.close()
        else:
            self._connection = ControlConnection(secured)
            self._connection.send(m.encode(m.Heartbeat()))

    def accepted(self) -> ControlConnection:
        self._thread.join(DEADLINE_S)
        assert self._connection is not None
        return self._connection

    def close(self) -> None:
        self._thread.join(DEADLINE_S)
        self._server.close()
        if self._connection is not None:
            self._connection.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    with closing(Driver()) as driver:
        yield driver


class Heard:
    """Keeps what a link hears."""

    def __init__(self, link: SocketLink) -> None:
        self.messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ends: queue.SimpleQueue[str] = queue.SimpleQueue()
        link.start(self.messages.put, self.ends.put)


def dial(driver: Driver) -> SocketLink:
    return connect(driver.address, CREDENTIALS, ROUTE, m.decode_to_process, "link")


def test_messages_go_both_ways(driver: Driver) -> None:
    with closing(dial(driver)) as link, closing(driver.accepted()) as other:
        heard = Heard(link)
        other.send(m.encode(m.Cancel(4)))
        assert heard.messages.get(timeout=DEADLINE_S) == m.Cancel(4)
        link.send(m.TasksCancelled(4))
        assert m.decode_to_master(other.receive() or b"") == m.TasksCancelled(4)


def test_the_end_is_reported_once(driver: Driver) -> None:
    link = dial(driver)
    heard = Heard(link)
    driver.accepted().close()
    assert heard.ends.get(timeout=DEADLINE_S) == "it closed the connection"
    link.close()
    link.close()
    assert heard.ends.empty()


def test_after_the_end_sending_is_an_error(driver: Driver) -> None:
    link = dial(driver)
    driver.accepted()
    link.close()
    with pytest.raises(PeerError, match="the connection is gone"):
        link.send(m.Heartbeat())


def test_a_message_that_cannot_be_read_ends_the_link(driver: Driver) -> None:
    with closing(dial(driver)) as link, closing(driver.accepted()) as other:
        heard = Heard(link)
        other.send(b"\xff garbage")
        assert heard.ends.get(timeout=DEADLINE_S)
        assert heard.messages.empty()


def test_a_link_may_be_closed_by_what_it_hears(driver: Driver) -> None:
    link = dial(driver)
    is_closed = threading.Event()

    def received(_: Any) -> None:
        link.close()
        is_closed.set()

    link.start(received, lambda _: None)
    with closing(driver.accepted()) as other:
        other.send(m.encode(m.Cancel(1)))
        assert is_closed.wait(DEADLINE_S)


def test_a_driver_of_another_job_is_not_trusted() -> None:
    with (
        closing(Driver(new_credentials(Encryption.MAC))) as driver,
        pytest.raises(PeerError, match="belongs to another"),
    ):
        dial(driver)


def test_a_driver_that_does_not_listen_is_an_error_at_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        connect(address, CREDENTIALS, ROUTE, m.decode_to_process, "link")


def test_a_driver_that_does_not_listen_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Driver()) as driver:
        dialled: list[Any] = []
        real = socket.create_connection

        def create_connection(address: Any, timeout: float) -> socket.socket:
            dialled.append(address)
            if len(dialled) < 3:
                raise ConnectionRefusedError("not yet")
            return real(address, timeout=timeout)

        monkeypatch.setattr(socket, "create_connection", create_connection)
        link = connect(driver.address, CREDENTIALS, ROUTE, m.decode_to_process, "link", retry=True)
        link.close()
        assert len(dialled) == 3
