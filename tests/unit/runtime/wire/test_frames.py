"""Control frames over sockets and over streams."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from snapline.errors import PeerError
from snapline.runtime.wire.auth import Route
from snapline.runtime.wire.frames import ControlConnection, read_frame, write_frame
from snapline.runtime.wire.secured_socket import SecuredSocket
from snapline.runtime.wire.secured_streams import SecuredStreams

ROUTE = Route("control", 0, 0, 0)


@pytest.fixture
def ends() -> Iterator[tuple[ControlConnection, ControlConnection]]:
    first, second = (ControlConnection(SecuredSocket(sock), limit=1_000_000) for sock in socket.socketpair())
    yield first, second
    first.close()
    second.close()


def test_messages_of_many_threads_stay_whole(ends: tuple[ControlConnection, ControlConnection]) -> None:
    sender, receiver = ends
    messages = [bytes([index]) * size for index, size in enumerate([0, 1, 5, 70_000, 300_000, 65_536])]
    threads = [threading.Thread(target=sender.send, args=(message,)) for message in messages * 5]
    for thread in threads:
        thread.start()
    received = [receiver.receive() for _ in threads]
    for thread in threads:
        thread.join()
    assert sorted(map(bytes, filter(None, received))) == sorted(filter(None, messages * 5))


def test_a_clean_end_is_none_and_a_cut_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    connection = ControlConnection(SecuredSocket(ours))
    theirs.sendall(struct.pack("!I", 3) + b"abc" + struct.pack("!I", 3) + b"a")
    theirs.close()
    assert connection.receive() == b"abc"
    with pytest.raises(PeerError, match="middle"):
        connection.receive()
    connection.close()
    ours, theirs = socket.socketpair()
    connection = ControlConnection(SecuredSocket(ours))
    theirs.close()
    assert connection.receive() is None
    with pytest.raises(PeerError, match="gone"):
        connection.send(b"x")
    connection.close()


def test_no_message_is_larger_than_the_limit() -> None:
    ours, theirs = socket.socketpair()
    connection = ControlConnection(SecuredSocket(ours), limit=10)
    with pytest.raises(PeerError, match="no more than 10"):
        connection.send(b"x" * 11)
    theirs.sendall(struct.pack("!I", 11))
    with pytest.raises(PeerError, match="no more than 10"):
        connection.receive()
    connection.close()
    theirs.close()


def test_close_wakes_who_waits(ends: tuple[ControlConnection, ControlConnection]) -> None:
    connection, _ = ends
    received: list[bytes | None] = [b""]
    thread = threading.Thread(target=lambda: received.append(connection.receive()))
    thread.start()
    connection.close()
    connection.close()
    thread.join(5)
    assert not thread.is_alive()
    assert received[-1] is None
    assert connection.receive() is None


def test_close_wakes_who_sends(ends: tuple[ControlConnection, ControlConnection]) -> None:
    connection, _ = ends
    errors: list[PeerError] = []
    is_sending = threading.Event()

    def fill() -> None:
        try:
            while True:
                connection.send(b"x" * 100_000)
                is_sending.set()
        except PeerError as error:
            errors.append(error)

    thread = threading.Thread(target=fill)
    thread.start()
    assert is_sending.wait(5)
    connection.close()
    thread.join(5)
    assert len(errors) == 1


def test_streams_read_and_write_frames() -> None:
    async def run() -> list[bytes | None]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            streams = SecuredStreams(reader, writer, None, ROUTE)
            while (frame := await read_frame(streams, 1_000_000)) is not None:
                await write_frame(streams, frame[::-1])
            writer.write(struct.pack("!I", 100))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        streams = SecuredStreams(reader, writer, None, ROUTE)
        answers = []
        for frame in (b"", b"abc", b"12" * 200_000):
            await write_frame(streams, frame)
            answers.append(await read_frame(streams))
        with pytest.raises(PeerError, match="no more than"):
            await write_frame(streams, b"abc", limit=2)
        writer.write_eof()
        with pytest.raises(PeerError, match="middle"):
            await read_frame(streams)
        assert await read_frame(streams) is None
        writer.close()
        reader = asyncio.StreamReader()
        reader.feed_data(struct.pack("!I", 11))
        with pytest.raises(PeerError, match="no more than"):
            await read_frame(SecuredStreams(reader, writer, None, ROUTE), limit=10)
        server.close()
        return answers

    assert asyncio.run(run()) == [b"", b"cba", b"21" * 200_000]
