from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from snapline.web.http_protocol import MAX_HEADER_BYTES, Connections, protocol_factory

DEADLINE_S = 10.0
GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"


async def broken(scope: Any, receive: Any, send: Any) -> None:
    raise ZeroDivisionError


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the size of the body; a path of digits is how many bytes to answer with, `/wait` never answers."""
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    if scope["path"] == "/wait":
        await asyncio.Event().wait()
    digits = scope["path"][1:]
    body = b"x" * int(digits) if digits.isdecimal() else str(size).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for start in range(0, len(body), 65536):
        part = body[start : start + 65536]
        await send({"type": "http.response.body", "body": part, "more_body": start + 65536 < len(body)})


class Client:
    """A connection that sends and reads bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, data: bytes = GET) -> bytes:
        self.writer.write(data)
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), DEADLINE_S)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head + await asyncio.wait_for(self.reader.readexactly(length), DEADLINE_S)

    async def ended(self) -> bool:
        """Waits until the server ends the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(), DEADLINE_S) == b""
        except ConnectionResetError:
            return True


class Listener:
    def __init__(self, limits: Connections, port: int) -> None:
        self.limits, self.port, self.clients = limits, port, list[Client]()

    async def connect(self, expected: int | None = None) -> Client:
        """A new connection, once the server knows of it."""
        wanted = len(self.limits) + 1 if expected is None else expected
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        await self.until(lambda: len(self.limits) >= wanted)
        return client

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.001)


@asynccontextmanager
async def listening(app: Any = echo, **limits: Any) -> AsyncIterator[Listener]:
    connections, loop = Connections(**limits), asyncio.get_running_loop()
    server = await loop.create_server(protocol_factory(app, connections, loop), "127.0.0.1", 0)
    listener = Listener(connections, server.sockets[0].getsockname()[1])
    try:
        yield listener
    finally:
        server.close()
        connections.close()
        for client in listener.clients:
            client.writer.close()
        await listener.until(lambda: len(connections) == 0)


def test_requests_follow_each_other_on_a_connection() -> None:
    async def use() -> None:
        async with listening() as server:
            client = await server.connect()
            for body in (b"", b"abc"):
                head = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
                assert (await client.ask(head + body)).endswith(b"%d" % len(body))
            assert (await client.ask(GET + GET)).startswith(b"HTTP/1.1 200")
            assert (await client.ask(b"")).startswith(b"HTTP/1.1 200")

    asyncio.run(use())


def test_what_is_no_http_is_refused_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def use() -> None:
        async with listening() as server:
            for nonsense in (b"\x16\x03\x01nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"):
                client = await server.connect()
                reply = await client.ask(nonsense)
                assert reply.startswith(b"HTTP/1.1 400")
                assert b'{"errors":["' in reply
                assert await client.ended()
            client = await server.connect()
            long = b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * MAX_HEADER_BYTES
            assert (await client.ask(long)).startswith(b"HTTP/1.1 400")

    with caplog.at_level(logging.DEBUG, "snapline"):
        asyncio.run(use())
    assert caplog.records == []


def test_a_defect_of_the_application_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def use() -> None:
        async with listening(broken) as server:
            client = await server.connect()
            client.writer.write(GET)
            assert (await client.reader.readline()).startswith(b"HTTP/1.1 500")

    asyncio.run(use())
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_request_that_does_not_come_ends_the_connection() -> None:
    async def use() -> None:
        async with listening(request_timeout_s=0.05) as server:
            silent, slow, slow_body, idle = [await server.connect() for _ in range(4)]
            slow.writer.write(GET[:10])
            slow_body.writer.write(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc")
            await idle.ask()
            for client in (silent, slow, slow_body, idle):
                assert await client.ended()
            await server.until(lambda: len(server.limits) == 0)

    asyncio.run(use())


def test_an_answer_that_nobody_reads_ends_the_connection() -> None:
    async def use() -> None:
        async with listening(answer_timeout_s=0.2) as server:
            client = await server.connect()
            client.writer.write(b"GET /50000000 HTTP/1.1\r\nhost: x\r\n\r\n")
            waiting = await server.connect()
            waiting.writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            await server.until(lambda: len(server.limits) == 0)

    asyncio.run(use())


def test_the_oldest_that_waits_makes_room() -> None:
    async def use() -> None:
        async with listening(most=3) as server:
            first, second, busy = [await server.connect() for _ in range(3)]
            busy.writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            await server.until(lambda: len(server.limits._busy) == 1)
            await first.ask()  # has proved that it speaks HTTP, so the silent one goes first
            third = await server.connect(3)
            assert await second.ended()
            assert (await first.ask()).startswith(b"HTTP/1.1 200")
            assert (await third.ask()).startswith(b"HTTP/1.1 200")
            fourth = await server.connect(3)
            assert await first.ended()
            assert (await fourth.ask()).startswith(b"HTTP/1.1 200")
            assert (await third.ask()).startswith(b"HTTP/1.1 200")

    asyncio.run(use())


def test_nobody_makes_room_who_is_being_answered() -> None:
    async def use() -> None:
        async with listening(most=2) as server:
            for client in [await server.connect() for _ in range(2)]:
                client.writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            await server.until(lambda: len(server.limits._busy) == 2)
            refused = await server.connect(2)
            assert await refused.ended()
            assert len(server.limits) == 2

    asyncio.run(use())


def test_logging_of_the_program_stays_as_it_is() -> None:
    access = logging.getLogger("uvicorn.access")
    handler = logging.NullHandler()
    access.addHandler(handler)
    try:

        async def use() -> None:
            async with listening() as server:
                await (await server.connect()).ask()

        asyncio.run(use())
        assert access.handlers == [handler]
        assert access.propagate
    finally:
        access.removeHandler(handler)
