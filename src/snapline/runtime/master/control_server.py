"""The driver's port: authenticates supervisors and operator processes and reads their messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Protocol

from snapline.errors import ConfigurationError, PeerError
from snapline.runtime.wire.auth import CONTROL, HANDSHAKE_TIMEOUT_S, Refusals
from snapline.runtime.wire.control_messages import (
    Heartbeat,
    Message,
    ProcessHello,
    ProcessUnable,
    SupervisorHello,
    ToMaster,
    decode_to_master,
    encode,
)
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.frames import FRAME_LIMIT_BYTES, read_frame, write_frame
from snapline.runtime.wire.listener import listen
from snapline.runtime.wire.secured_streams import SecuredStreams, async_server_handshake
from snapline.runtime.wire.socket_errors import listen_advice

MAX_HELLO_BYTES = 64 * 1024
MAX_UNKNOWN_PEERS = 256
"""Limit on connections that have not authenticated, on top of the expected peers. With more, the oldest goes."""

BACKLOG = 4096
"""All slots may dial at the same time; the system lowers it to its own limit."""

MAX_QUEUED_BYTES = 1 << 30
"""A peer with more data waiting counts as lost."""


def connection_limit(slots: int) -> int:
    """The most connections the driver of a job may have: two for each slot, and those that have not authenticated."""
    return 2 * slots + _unknown_limit(slots)


def _unknown_limit(slots: int) -> int:
    return MAX_UNKNOWN_PEERS + 2 * slots


class PeerConnection:
    """An authenticated peer. Used on the loop only; `heard_s` is the time of its last message."""

    def __init__(self, streams: SecuredStreams, host: str) -> None:
        self.host = host
        self.heard_s = asyncio.get_running_loop().time()
        self.close_reason = ""
        """Why this side closed the connection; empty if the other side did."""
        self.streams = streams
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._is_closed = False

    def send(self, message: Message) -> None:
        """Queue a message; does nothing if the connection is closed."""
        if self._is_closed:
            return
        data = encode(message)
        if len(data) > FRAME_LIMIT_BYTES:
            self.close(f"{type(message).__name__} of {len(data)} bytes is too large to be sent; keep less state inline")
            return
        self._queued_bytes += len(data)
        if self._queued_bytes > MAX_QUEUED_BYTES:
            self.close(f"it does not read; {self._queued_bytes} bytes are waiting for it")
            return
        self._queue.append(data)
        self._wake.set()

    def close(self, reason: str = "") -> None:
        """End the connection at once and drop what is queued."""
        if not self._is_closed:
            self._is_closed = True
            self.close_reason = reason
            self._queue.clear()
            self._wake.set()
            self.streams.writer.transport.abort()

    async def send_queued(self) -> None:
        while not self._is_closed:
            while self._queue:
                data = self._queue.popleft()
                await write_frame(self.streams, data)
                self._queued_bytes -= len(data)
            self._wake.clear()
            if not self._queue and not self._is_closed:
                await self._wake.wait()


class Listener(Protocol):
    """The owner of the slots. Called on the loop."""

    @property
    def credentials(self) -> Credentials | None:
        """What peers must have now, or None if none is expected."""

    def greeted(self, peer: PeerConnection, hello: SupervisorHello | ProcessHello) -> str | None:
        """An authenticated peer identifies itself. Returns why it is refused, or None."""

    def unable(self, error: str) -> None:
        """An authenticated peer says, before identifying itself, that it cannot run the job."""

    def received(self, peer: PeerConnection, message: ToMaster) -> None:
        """An accepted peer sent a message. Raises `PeerError` if it may not: the connection ends then."""

    def closed(self, peer: PeerConnection, reason: str) -> None:
        """The connection of an accepted peer has ended."""


class ControlServer:
    """Listens on the driver's address. Refused peers are only logged."""

    def __init__(self, listener: Listener, slots: int, on_defect: Callable[[Exception], None]) -> None:
        self.port = 0
        self._listener = listener
        self._on_defect = on_defect
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unknown: dict[asyncio.StreamWriter, None] = {}
        """Who has not authenticated, in the order of arrival."""
        self._max_unknown = _unknown_limit(slots)
        self._refusals = Refusals("the job's driver")

    async def start(self, host: str, ports: str | None = None) -> None:
        """Listen on one of these ports, see `Execution.driver_ports`. Raises `ConfigurationError`."""
        try:
            sock = listen(host, ports, "driver_ports", BACKLOG)
        except OSError as error:
            advice = listen_advice(
                error, "set spark.driver.host to an address of this machine that the executors can reach"
            )
            raise ConfigurationError(
                f"the driver cannot listen at {host!r}, where its slots are to reach it: {error}; {advice}"
            ) from error
        self.port = sock.getsockname()[1]
        self._server = await asyncio.start_server(self._accept, sock=sock, backlog=BACKLOG)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            address = writer.get_extra_info("peername")
            host = str(address[0]) if address else "an address that is gone"
            connection = await self._welcome(reader, writer, host)
            if connection is not None:
                await self._attend(connection)
        except Exception as error:
            self._on_defect(error)
        finally:
            # Nothing is left to send to a peer that is refused or gone; a TLS farewell would wait for its answer.
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _welcome(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str
    ) -> PeerConnection | None:
        """Returns the peer, or None if it was refused."""
        if len(self._unknown) >= self._max_unknown:
            oldest = next(iter(self._unknown))
            del self._unknown[oldest]
            oldest.transport.abort()
        self._unknown[writer] = None
        try:
            streams = await self._authenticate(reader, writer)
            hello = await self._hello(streams)
        except PeerError as error:
            self._refusals.refused(host, str(error))
            return None
        if isinstance(hello, ProcessUnable):
            self._listener.unable(hello.error)
            return None
        connection = PeerConnection(streams, host)
        refusal = self._listener.greeted(connection, hello)
        if refusal is not None:
            self._refusals.refused(host, refusal)
            return None
        return connection

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> SecuredStreams:
        credentials = self._listener.credentials
        try:
            if credentials is None:
                raise PeerError("no slots are expected now")
            streams = await async_server_handshake(reader, writer, credentials, (CONTROL,), HANDSHAKE_TIMEOUT_S)
            if writer not in self._unknown:
                raise PeerError("it had to make room")
        except PeerError as error:
            if writer not in self._unknown:
                raise PeerError("too many connections that have not authenticated: the oldest has to go") from error
            raise
        finally:
            self._unknown.pop(writer, None)
        # From here on it keeps its connection, and this message is how it knows.
        await write_frame(streams, encode(Heartbeat()))
        return streams

    async def _hello(self, streams: SecuredStreams) -> SupervisorHello | ProcessHello | ProcessUnable:
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                data = await read_frame(streams, MAX_HELLO_BYTES)
        except TimeoutError:
            raise PeerError("it did not identify itself") from None
        hello = decode_to_master(data) if data is not None else None
        if not isinstance(hello, SupervisorHello | ProcessHello | ProcessUnable):
            raise PeerError("its first message does not identify it")
        if not isinstance(hello, ProcessUnable) and (hello.generation, hello.slot) != streams.route[1:3]:
            raise PeerError(f"it says that it is slot {hello.slot} and has proved to be slot {streams.route.from_slot}")
        return hello

    async def _attend(self, connection: PeerConnection) -> None:
        loop = asyncio.get_running_loop()
        sender = loop.create_task(self._send(connection))
        reason = "the connection was closed"
        try:
            while (data := await read_frame(connection.streams)) is not None:
                connection.heard_s = loop.time()
                self._take(connection, data)
        except PeerError as error:
            reason = str(error)
        finally:
            connection.close()
            await asyncio.gather(sender, return_exceptions=True)
        self._listener.closed(connection, connection.close_reason or reason)

    def _take(self, connection: PeerConnection, data: bytes) -> None:
        try:
            self._listener.received(connection, decode_to_master(data))
        except PeerError as error:
            connection.close(str(error))

    async def _send(self, connection: PeerConnection) -> None:
        with contextlib.suppress(PeerError):  # the reading side notices too
            await connection.send_queued()
