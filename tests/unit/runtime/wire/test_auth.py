"""Authentication of a fresh connection, over sockets and over streams."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import cast

import pytest

from snapline.errors import PeerError
from snapline.runtime.wire.auth import (
    ClientHandshake,
    ClosedEarlyError,
    Refusals,
    ServerHandshake,
    async_client_handshake,
    async_server_handshake,
    client_handshake,
    server_handshake,
)

SECRET = b"s" * 32
HELLO_BYTES = ServerHandshake(SECRET, ("control",)).needs


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    client, server = socket.socketpair()
    with closing(client), closing(server):
        yield client, server


def both(client: Callable[[], None], server: Callable[[], None]) -> list[str]:
    """What the two ends raised."""
    errors: list[str] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except PeerError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run, args=(server,))
    thread.start()
    run(client)
    thread.join()
    return errors


def test_both_ends_trust_each_other(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    errors = both(
        lambda: client_handshake(client, SECRET, "control"), lambda: server_handshake(server, SECRET, "control")
    )
    assert not errors
    assert client.gettimeout() is server.gettimeout() is None
    client.sendall(b"more")
    assert server.recv(10) == b"more"


def test_a_client_with_another_secret_notices(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair

    def dial() -> None:
        with client:
            client_handshake(client, b"other", "control")

    errors = both(dial, lambda: server_handshake(server, SECRET, "control"))
    assert len(errors) == 2
    assert any("does not know the secret" in error for error in errors)


def test_a_client_that_cannot_prove_itself_is_refused() -> None:
    client, server = ClientHandshake(b"other", "control"), ServerHandshake(SECRET, ("control",))
    answer = server.receive(client.hello)
    with pytest.raises(PeerError, match="does not know the secret"):
        client.receive(answer)
    with pytest.raises(PeerError, match="does not know the secret"):
        server.receive(b"\0" * server.needs)


def test_a_proof_of_one_role_or_connection_serves_no_other() -> None:
    first, second = ServerHandshake(SECRET, ("control",)), ServerHandshake(SECRET, ("control",))
    client = ClientHandshake(SECRET, "control")
    answer = first.receive(client.hello)
    second.receive(client.hello)
    with pytest.raises(PeerError):
        second.receive(client.receive(answer))
    with pytest.raises(PeerError):
        first.receive(answer[-32:])


@pytest.mark.parametrize(
    ("hello", "complaint"),
    [
        (b"G" * HELLO_BYTES, "not a Snapline process"),
        (b"SNAP\x63" + b"\0" * (HELLO_BYTES - 5), "version 99"),
        (ClientHandshake(SECRET, "data").hello, "unknown connection purpose"),
    ],
    ids=[f"case-{number}" for number in range(3)],
)
def test_garbage_other_versions_and_other_purposes_are_refused(hello: bytes, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        ServerHandshake(SECRET, ("control",)).receive(hello)


@pytest.mark.parametrize("purpose", ["", "x" * 17])
def test_a_purpose_has_a_limited_length(purpose: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        ClientHandshake(SECRET, purpose)


def test_silence_and_early_ends_are_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    with pytest.raises(PeerError, match="silent"):
        server_handshake(server, SECRET, "control", timeout_s=0.01)
    with pytest.raises(PeerError, match="silent"):
        client_handshake(client, SECRET, "control", timeout_s=0.01)
    client.close()
    with pytest.raises(PeerError):
        server_handshake(server, SECRET, "control")


def test_a_slow_trickle_does_not_extend_the_time(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    stop = threading.Event()

    def trickle() -> None:
        while not stop.wait(0.005):
            client.sendall(b"S")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        with pytest.raises(PeerError, match="silent"):
            server_handshake(server, SECRET, "control", timeout_s=0.05)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("secret", [SECRET, b"other"])
def test_streams_do_the_same(secret: bytes) -> None:
    async def run() -> list[str]:
        results: list[str] = []
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await async_server_handshake(reader, writer, SECRET, "control", 2)
                results.append("served")
            except PeerError as error:
                results.append(str(error))
            writer.close()
            done.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            await async_client_handshake(reader, writer, secret, "control", 2)
            results.append("dialled")
        except PeerError as error:
            results.append(str(error))
        writer.close()
        await done.wait()
        server.close()
        await server.wait_closed()
        return sorted(results)

    results = asyncio.run(run())
    if secret == SECRET:
        assert results == ["dialled", "served"]
    else:
        assert len(results) == 2
        assert any("does not know the secret" in result for result in results)


class Nowhere:
    """A writer of which nobody reads."""

    def write(self, data: bytes) -> None:
        pass


def test_streams_end_in_time() -> None:
    async def run() -> None:
        reader, writer = asyncio.StreamReader(), cast(asyncio.StreamWriter, Nowhere())
        with pytest.raises(PeerError, match="silent"):
            await async_server_handshake(reader, writer, SECRET, "control", 0.01)
        reader.feed_eof()
        with pytest.raises(ClosedEarlyError):
            await async_client_handshake(reader, writer, SECRET, "control", 1)

    asyncio.run(run())


def test_refusals_are_logged_once_per_address(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals("the port", limit=2)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            refusals.refused("10.0.0.1", "garbage")
        refusals.refused("10.0.0.2", "silence")
        assert len(caplog.records) == 2
        assert refusals.count("10.0.0.1") == 5
        refusals.refused("10.0.0.3", "silence")
    assert refusals.total == 7
    assert refusals.count("10.0.0.1") == 0, "no more addresses are remembered than the limit"
