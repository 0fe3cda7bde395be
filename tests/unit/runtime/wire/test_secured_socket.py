"""Authentication and messages over blocking sockets, with each kind of protection."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.wire.auth import Route
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake, rest_of, server_handshake

CREDENTIALS = {encryption: new_credentials(encryption) for encryption in Encryption}
MAC = CREDENTIALS[Encryption.MAC]
ROUTE = Route("control", 3, 1, 2)
DEADLINE_S = 10.0

Pair = tuple[SecuredSocket, SecuredSocket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    client, server = (SecuredSocket(sock) for sock in socket.socketpair())
    with closing(client), closing(server):
        yield client, server


@pytest.fixture
def tcp_pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = SecuredSocket(socket.create_connection(listener.getsockname()))
        server = SecuredSocket(listener.accept()[0])
    with closing(client), closing(server):
        yield client, server


def both(client: Callable[[], Any], server: Callable[[], Any]) -> list[str]:
    """What the two ends raised."""
    errors: list[str] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except PeerError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run, args=(server,))
    thread.start()
    run(client)
    thread.join()
    return errors


def authenticate(pair: Pair, credentials: Credentials, others: Credentials | None = None) -> list[str]:
    client, server = pair

    def dial() -> None:
        try:
            client_handshake(client, others or credentials, ROUTE)
        except PeerError:
            client.close()
            raise

    return both(dial, lambda: server_handshake(server, credentials, "control"))


@pytest.mark.parametrize("encryption", Encryption)
def test_parts_arrive_in_both_directions(pair: Pair, encryption: Encryption) -> None:
    assert authenticate(pair, CREDENTIALS[encryption]) == []
    parts = [b"head", bytes(range(256)) * 2000, b"x"]
    for sender, receiver in (pair, pair[::-1]):
        assert sender.socket.gettimeout() is None
        thread = threading.Thread(target=sender.send, args=(parts,))
        thread.start()
        for part in parts:
            view = memoryview(bytearray(len(part)))
            assert receiver.read(view, may_end=True)
            assert view == part
        thread.join()
    client, server = pair
    client.send_within([b"?"], time.monotonic() + DEADLINE_S)
    assert server.read_within(1, time.monotonic() + DEADLINE_S) == b"?"
    client.close()
    assert not server.read(memoryview(bytearray(4)), may_end=True)
    with pytest.raises(PeerError, match="in the middle of a message"):
        server.read(memoryview(bytearray(4)))


@pytest.mark.parametrize("encryption", Encryption)
def test_what_has_arrived_is_read_without_waiting(pair: Pair, encryption: Encryption) -> None:
    """As the data plane reads: any buffers, and tags are checked later."""
    assert authenticate(pair, CREDENTIALS[encryption]) == []
    client, server = pair
    server.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.receive_into([memoryview(bytearray(10))])
    body = bytes(range(256)) * 100
    client.send([body])
    size = len(body) + server.tag_bytes
    data = bytearray(size)
    view = view_of_all = memoryview(data)
    while view:
        count = server.receive_into([view[:1000], view[1000:3000]])
        assert server.is_holding is (encryption is Encryption.TLS and count == len(view[:3000]))
        view = view[count:]
    assert data[: len(body)] == body
    if server.tag_bytes:
        assert server.open(view_of_all) == body
    with pytest.raises(BlockingIOError):
        server.receive_into([memoryview(bytearray(10))])
    client.close()
    assert server.receive_into([memoryview(bytearray(10))]) == 0


@pytest.mark.parametrize("encryption", Encryption)
def test_nothing_that_was_read_is_left_behind_while_the_reader_waits(tcp_pair: Pair, encryption: Encryption) -> None:
    """However a large part is cut on its way: a poller hears only of what is still in the socket."""
    assert authenticate(tcp_pair, CREDENTIALS[encryption]) == []
    client, server = tcp_pair
    server.socket.setblocking(False)
    sent = memoryview(bytearray(b"x" * 3_000_000))
    sender = threading.Thread(target=client.send, args=([sent],))
    sender.start()
    view = memoryview(bytearray(len(sent) + server.tag_bytes))
    try:
        while view:
            server.await_bytes(len(view))
            assert select.select([server.socket], [], [], DEADLINE_S)[0], f"waits for {len(view)} bytes"
            with contextlib.suppress(BlockingIOError):
                view = view[server.receive_into([view]) :]
    finally:
        client.shutdown()
        sender.join()


def test_what_waits_to_be_read_is_counted(pair: Pair) -> None:
    client, server = pair
    assert server.unread_bytes == 0
    client.socket.sendall(b"12345")
    assert server.unread_bytes == 5


@pytest.mark.parametrize("encryption", Encryption)
def test_an_end_with_other_credentials_is_noticed_by_both(pair: Pair, encryption: Encryption) -> None:
    errors = authenticate(pair, CREDENTIALS[encryption], new_credentials(encryption))
    assert len(errors) == 2
    assert any("does not know the secret" in error or "does not have the certificate" in error for error in errors)


def test_ends_that_protect_their_messages_differently_do_not_connect(pair: Pair) -> None:
    tls = CREDENTIALS[Encryption.TLS]
    errors = authenticate(pair, Credentials(tls.secret, Encryption.MAC), tls)
    assert any("not a Snapline process" in error for error in errors)


@pytest.mark.parametrize("encryption", [Encryption.MAC, Encryption.TLS])
def test_silence_and_early_ends_are_refused(pair: Pair, encryption: Encryption) -> None:
    client, server = pair
    credentials = CREDENTIALS[encryption]
    with pytest.raises(PeerError, match="silent"):
        server_handshake(server, credentials, "control", timeout_s=0.01)
    with pytest.raises(PeerError, match="silent"):
        client_handshake(client, credentials, ROUTE, timeout_s=0.01)
    client.close()
    with pytest.raises(PeerError):
        server_handshake(server, credentials, "control")


def test_a_slow_trickle_does_not_extend_the_time(pair: Pair) -> None:
    client, server = pair
    stop = threading.Event()

    def trickle() -> None:
        while not stop.wait(0.005):
            client.socket.sendall(b"S")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        with pytest.raises(PeerError, match="silent"):
            server_handshake(server, MAC, "control", timeout_s=0.05)
    finally:
        stop.set()
        thread.join()


def test_more_buffers_than_the_system_takes_at_once(pair: Pair) -> None:
    client, server = pair
    thread = threading.Thread(target=client.send, args=([b"xy"] * 3000,))
    thread.start()
    view = memoryview(bytearray(6000))
    server.read(view)
    thread.join()
    assert view == b"xy" * 3000


def test_the_rest_of_buffers() -> None:
    views = [memoryview(b"abc"), memoryview(b""), memoryview(b"de")]
    for count in range(6):
        assert b"".join(rest_of(views, count)) == b"abcde"[count:]
