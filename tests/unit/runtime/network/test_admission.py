"""The data port: who is let in, who is not, and that nobody can hold up the others."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from snapline.errors import PeerError
from snapline.runtime.network import admission as module
from snapline.runtime.network.admission import DATA, PROBE, Admission, Hello
from snapline.runtime.wire.auth import Refusals, client_handshake

SECRET = b"s" * 32
DEADLINE_S = 10.0
HELLO = Hello(3, 1, 0)
LIMIT = 3


class Port:
    """A data port that keeps the connections it lets in."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        self.arrived: queue.SimpleQueue[tuple[socket.socket, str, Hello]] = queue.SimpleQueue()
        self.admission = Admission(listener, SECRET, Refusals("a slot"), self._arrived, lambda _: None, LIMIT)

    def _arrived(self, sock: socket.socket, host: str, hello: Hello) -> None:
        self.arrived.put((sock, host, hello))

    def dial(self, *, purpose: str = DATA, secret: bytes = SECRET) -> socket.socket:
        sock = self.silent()
        try:
            client_handshake(sock, secret, purpose, DEADLINE_S)
        except PeerError:
            sock.close()
            raise
        sock.settimeout(DEADLINE_S)
        return sock

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


def test_a_slot_that_knows_the_secret_is_let_in_with_what_it_says(port: Port) -> None:
    with closing(port.dial()) as sock:
        sock.sendall(HELLO.encode())
        arrived, host, hello = port.arrived.get(timeout=DEADLINE_S)
        assert (host, hello) == ("127.0.0.1", HELLO)
        arrived.sendall(b"x")
        assert sock.recv(1) == b"x"
        arrived.close()


def test_a_hello_may_arrive_byte_by_byte(port: Port) -> None:
    with closing(port.dial()) as sock:
        for byte in HELLO.encode():
            sock.sendall(bytes([byte]))
        arrived, _, hello = port.arrived.get(timeout=DEADLINE_S)
        assert hello == HELLO
        arrived.close()


def test_a_probe_is_answered_and_hung_up_on(port: Port) -> None:
    with closing(port.dial(purpose=PROBE)) as sock:
        assert is_closed(sock)
    assert port.arrived.empty()


def test_a_wrong_secret_is_not_let_in(port: Port) -> None:
    with pytest.raises(PeerError, match="belongs to another"):
        port.dial(secret=b"x" * 32)


def test_what_is_no_handshake_is_hung_up_on(port: Port) -> None:
    with closing(port.silent()) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: everything\r\n\r\n")
        assert is_closed(sock)
    assert port.arrived.empty()


def test_who_does_not_speak_does_not_keep_others_out(port: Port) -> None:
    silent = [port.silent() for _ in range(LIMIT + 5)]
    try:
        with closing(port.dial()) as sock:
            sock.sendall(HELLO.encode())
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
    with closing(port.dial()) as sock:
        sock.sendall(HELLO.encode())
        assert is_closed(sock)
    with closing(port.dial(purpose=PROBE)) as sock:
        assert is_closed(sock)


def test_the_close_hangs_up_on_everyone_who_waits(port: Port) -> None:
    with closing(port.silent()) as sock:
        port.close()
        assert is_closed(sock)
    with pytest.raises(OSError, match="refused"):
        port.silent()
