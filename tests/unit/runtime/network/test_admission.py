"""The data port: who is let in, who is not, and that nobody can hold up the others."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.network import admission as module
from snapline.runtime.network.admission import Admission
from snapline.runtime.wire.auth import DATA, DRIVER, PROBE, Refusals, Route
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake

CREDENTIALS = {encryption: new_credentials(encryption) for encryption in Encryption}
DEADLINE_S = 10.0
ROUTE = Route(DATA, 3, 1, 0)
LIMIT = 3


class Port:
    """A data port that keeps the connections it lets in."""

    def __init__(self, encryption: Encryption = Encryption.MAC) -> None:
        self.credentials = CREDENTIALS[encryption]
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        self.arrived: queue.SimpleQueue[tuple[SecuredSocket, str, Route]] = queue.SimpleQueue()
        self.admission = Admission(listener, self.credentials, Refusals("a slot"), self._arrived, lambda _: None, LIMIT)

    def _arrived(self, secured: SecuredSocket, host: str, route: Route) -> None:
        self.arrived.put((secured, host, route))

    def dial(self, route: Route = ROUTE, credentials: Credentials | None = None) -> SecuredSocket:
        secured = SecuredSocket(self.silent())
        try:
            client_handshake(secured, credentials or self.credentials, route, DEADLINE_S)
        except PeerError:
            secured.close()
            raise
        secured.socket.settimeout(DEADLINE_S)
        return secured

    def silent(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=DEADLINE_S)

    def close(self) -> None:
        self.admission.close()


@pytest.fixture
def port() -> Iterator[Port]:
    with closing(Port()) as port:
        yield port


def is_closed(sock: socket.socket) -> bool:
    with suppress(ConnectionError):
        return sock.recv(1) == b""
    return True


@pytest.mark.parametrize("encryption", Encryption)
@pytest.mark.parametrize("route", [ROUTE, Route(PROBE, 0, DRIVER, 2)], ids=["data", "probe"])
def test_who_has_the_credentials_is_let_in_with_what_it_has_proved(encryption: Encryption, route: Route) -> None:
    with closing(Port(encryption)) as port, closing(port.dial(route)) as secured:
        arrived, host, proved = port.arrived.get(timeout=DEADLINE_S)
        assert (host, proved) == ("127.0.0.1", route)
        arrived.send([b"x"])
        assert secured.read_within(1, time.monotonic() + DEADLINE_S) == b"x"
        arrived.close()


class Dripping(socket.socket):
    """Sends byte by byte."""

    def sendall(self, data: Any, flags: int = 0) -> None:
        for byte in bytes(data):
            super().sendall(bytes([byte]), flags)


@pytest.mark.parametrize("encryption", Encryption)
def test_a_handshake_may_arrive_byte_by_byte(encryption: Encryption) -> None:
    with closing(Port(encryption)) as port, closing(SecuredSocket(Dripping())) as secured:
        secured.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secured.socket.connect(port.address)
        client_handshake(secured, port.credentials, ROUTE, DEADLINE_S)
        arrived, _, proved = port.arrived.get(timeout=DEADLINE_S)
        assert proved == ROUTE
        arrived.close()


def test_a_wrong_secret_is_not_let_in(port: Port) -> None:
    with pytest.raises(PeerError, match="belongs to another"):
        port.dial(credentials=new_credentials(Encryption.MAC))


def test_what_is_no_handshake_is_hung_up_on(port: Port) -> None:
    with closing(port.silent()) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: everything\r\n\r\n")
        assert is_closed(sock)
    assert port.arrived.empty()


def test_who_does_not_speak_does_not_keep_others_out(port: Port) -> None:
    silent = [port.silent() for _ in range(LIMIT + 5)]
    try:
        with closing(port.dial()):
            arrived, _, _ = port.arrived.get(timeout=DEADLINE_S)
            arrived.close()
        assert is_closed(silent[0]), "the oldest goes first"
    finally:
        for sock in silent:
            sock.close()


def test_who_does_not_authenticate_in_time_is_hung_up_on(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_TIMEOUT_S", 0.05)
    with closing(port.silent()) as sock:
        assert is_closed(sock)


def test_a_failed_adoption_does_not_stop_the_port(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    def arrived(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(port.admission, "_arrived", arrived)
    for _ in range(2):
        with closing(port.dial()) as secured:
            assert is_closed(secured.socket)


def test_the_close_hangs_up_on_everyone_who_waits(port: Port) -> None:
    with closing(port.silent()) as sock:
        port.close()
        assert is_closed(sock)
    with pytest.raises(OSError, match="refused"):
        port.silent()
