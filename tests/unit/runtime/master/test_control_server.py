"""The driver's port, over loopback, with peers that behave and peers that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from snapline.config import Encryption
from snapline.errors import ConfigurationError, PeerError
from snapline.runtime.master import control_server
from snapline.runtime.master.control_server import MAX_HELLO_BYTES, ControlServer, PeerConnection
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.auth import DRIVER, Route
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.frames import read_frame, write_frame
from snapline.runtime.wire.secured_streams import SecuredStreams, async_client_handshake

CREDENTIALS = new_credentials(Encryption.MAC)
ROUTE = Route("control", 1, 0, DRIVER)
HELLO = m.SupervisorHello(1, 0, "node", 10, "3.11", 0)
DEADLINE_S = 10.0


class Owner:
    """Accepts every peer unless told otherwise, and keeps what it hears."""

    def __init__(self) -> None:
        self.credentials: Credentials | None = CREDENTIALS
        self.refusal: str | None = None
        self.not_allowed = ""
        self.peers: list[PeerConnection] = []
        self.heard: list[Any] = []
        self.ends: list[str] = []
        self.defects: list[Exception] = []

    def greeted(self, peer: PeerConnection, hello: Any) -> str | None:
        self.heard.append(hello)
        self.peers.append(peer)
        return self.refusal

    def unable(self, error: str) -> None:
        self.heard.append(error)

    def received(self, peer: PeerConnection, message: Any) -> None:
        if self.not_allowed:
            raise PeerError(self.not_allowed)
        self.heard.append(message)

    def closed(self, peer: PeerConnection, reason: str) -> None:
        self.ends.append(reason)


class Peer:
    """The other end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.streams = SecuredStreams(reader, writer, None, ROUTE)

    async def say(self, message: m.Message) -> None:
        await write_frame(self.streams, m.encode(message))

    async def is_hung_up_on(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


class Room:
    """A server and its owner."""

    def __init__(self) -> None:
        self.owner = Owner()
        self.server = ControlServer(self.owner, 1, self.owner.defects.append)
        self._writers: list[asyncio.StreamWriter] = []

    async def dial(
        self,
        *,
        credentials: Credentials | None = CREDENTIALS,
        route: Route = ROUTE,
        hello: m.Message | None = HELLO,
    ) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.server.port))
        self._writers.append(peer.writer)
        if credentials is not None:
            peer.streams = await async_client_handshake(peer.reader, peer.writer, credentials, route)
            assert m.decode_to_supervisor(await read_frame(peer.streams) or b"") == m.Heartbeat()
        if hello is not None:
            await peer.say(hello)
        return peer

    async def close(self) -> None:
        await self.server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0)


@asynccontextmanager
async def open_room() -> AsyncIterator[Room]:
    room = Room()
    await room.server.start("127.0.0.1")
    try:
        yield room
    finally:
        await room.close()
    assert room.owner.defects == []


def play(script: Callable[[Room], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(2 * DEADLINE_S), open_room() as room:
            await script(room)

    asyncio.run(run())


def test_an_accepted_peer_speaks_hears_and_leaves() -> None:
    async def script(room: Room) -> None:
        owner, peer = room.owner, await room.dial()
        await peer.say(m.Heartbeat())
        await room.until(lambda: len(owner.heard) == 2)
        assert owner.heard == [HELLO, m.Heartbeat()]
        owner.peers[0].send(m.StartProcess(3))
        data = await read_frame(peer.streams)
        assert data is not None
        assert m.decode_to_supervisor(data) == m.StartProcess(3)
        peer.writer.close()
        await room.until(lambda: bool(owner.ends))
        assert owner.ends == ["the connection was closed"]
        owner.peers[0].send(m.StartProcess(4))  # nobody is there: nothing happens

    play(script)


def test_a_peer_that_does_not_know_the_secret_is_never_heard() -> None:
    async def script(room: Room) -> None:
        with pytest.raises(PeerError):
            await room.dial(credentials=new_credentials(Encryption.MAC))
        assert room.owner.heard == []

    play(script)


@pytest.mark.parametrize("route", [Route("control", 1, 5, DRIVER), Route("control", 2, 0, DRIVER)])
def test_a_peer_that_says_it_is_another_than_it_has_proved_is_refused(route: Route) -> None:
    async def script(room: Room) -> None:
        peer = await room.dial(route=route)
        assert await peer.is_hung_up_on()
        assert room.owner.heard == []

    play(script)


def test_a_port_can_be_given() -> None:
    async def run() -> None:
        async with open_room() as room:
            taken = str(room.server.port)
            other = ControlServer(Owner(), 1, print)
            with pytest.raises(ConfigurationError, match=f"driver_ports='{taken}': no port of these is free"):
                await other.start("127.0.0.1", taken)

    asyncio.run(run())


def test_nobody_is_let_in_while_no_slots_are_expected() -> None:
    async def script(room: Room) -> None:
        room.owner.credentials = None
        peer = await room.dial(credentials=None, hello=None)
        assert await peer.is_hung_up_on()
        assert room.owner.heard == []

    play(script)


def test_a_refused_peer_is_hung_up_on_and_its_end_is_nobodys_business() -> None:
    async def script(room: Room) -> None:
        room.owner.refusal = "an older generation"
        peer = await room.dial()
        assert await peer.is_hung_up_on()
        assert room.owner.ends == []

    play(script)


@pytest.mark.parametrize("first", [m.Heartbeat(), m.TasksCancelled(1)])
def test_the_first_message_must_say_who_it_is(first: m.Message) -> None:
    async def script(room: Room) -> None:
        peer = await room.dial(hello=first)
        assert await peer.is_hung_up_on()
        assert room.owner.heard == []

    play(script)


def test_a_process_that_cannot_run_the_job_says_why_instead_of_a_hello() -> None:
    async def script(room: Room) -> None:
        peer = await room.dial(hello=m.ProcessUnable("no such module"))
        assert await peer.is_hung_up_on()
        assert room.owner.heard == ["no such module"]

    play(script)


def test_a_hello_may_not_be_large() -> None:
    async def script(room: Room) -> None:
        peer = await room.dial(hello=m.ProcessUnable("x" * MAX_HELLO_BYTES))
        assert await peer.is_hung_up_on()
        assert room.owner.heard == []

    play(script)


def test_a_message_that_is_not_allowed_ends_the_connection_with_the_reason() -> None:
    async def script(room: Room) -> None:
        peer = await room.dial()
        await room.until(lambda: bool(room.owner.heard))
        room.owner.not_allowed = "it does not run that"
        await peer.say(m.TasksCancelled(1))
        assert await peer.is_hung_up_on()
        await room.until(lambda: bool(room.owner.ends))
        assert room.owner.ends == ["it does not run that"]

    play(script)


def test_garbage_ends_the_connection() -> None:
    async def script(room: Room) -> None:
        peer = await room.dial()
        await room.until(lambda: bool(room.owner.heard))
        await write_frame(peer.streams, b"\xff garbage")
        assert await peer.is_hung_up_on()
        await room.until(lambda: bool(room.owner.ends))
        assert room.owner.heard == [HELLO]

    play(script)


def test_a_peer_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "MAX_QUEUED_BYTES", 64)

    async def script(room: Room) -> None:
        await room.dial()
        await room.until(lambda: bool(room.owner.peers))
        (connection,) = room.owner.peers
        for _ in range(100):
            connection.send(m.StartProcess(1))
        await room.until(lambda: bool(room.owner.ends))
        assert "it does not read" in room.owner.ends[0]

    play(script)


def test_a_message_that_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "FRAME_LIMIT_BYTES", 4)

    async def script(room: Room) -> None:
        peer = await room.dial()
        await room.until(lambda: bool(room.owner.peers))
        room.owner.peers[0].send(m.StartProcess(1))
        assert await peer.is_hung_up_on()
        await room.until(lambda: bool(room.owner.ends))
        assert "StartProcess" in room.owner.ends[0]
        assert "too large" in room.owner.ends[0]

    play(script)


def test_an_address_of_another_machine_is_a_clear_error() -> None:
    async def run() -> None:
        await Room().server.start("192.0.2.1")

    with pytest.raises(ConfigurationError, match=r"cannot listen at '192\.0\.2\.1'.*spark\.driver\.host"):
        asyncio.run(run())
