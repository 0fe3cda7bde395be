"""Authenticated asyncio streams, whose messages are protected as the job asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.wire.auth import (
    HANDSHAKE_TIMEOUT_S,
    ClientHandshake,
    ClosedEarlyError,
    Route,
    ServerHandshake,
)
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.seals import TAG_BYTES, Seals
from snapline.runtime.wire.tls import tls_context


class SecuredStreams:
    """A reader and a writer, with the seals that their handshake led to; TLS is inside the streams."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seals: Seals | None, route: Route
    ) -> None:
        self.writer = writer
        self.route = route
        """What the other end has proved."""
        self._reader = reader
        self._seals = seals

    def write(self, *parts: bytes) -> None:
        """Queue parts, none of which is empty, to be sent together."""
        if self._seals is None:
            self.writer.writelines(parts)
        else:
            seal = self._seals.seal
            self.writer.writelines([data for part in parts for data in seal(part)])

    async def read(self, count: int) -> bytes:
        """Returns the next part. Raises `PeerError` if it was changed, `asyncio.IncompleteReadError`, `OSError`."""
        if self._seals is None:
            return await self._reader.readexactly(count)
        return bytes(self._seals.open(memoryview(await self._reader.readexactly(count + TAG_BYTES))))


async def async_client_handshake(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    credentials: Credentials,
    route: Route,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> SecuredStreams:
    """Authenticate a dialled connection. Raises `PeerError` if that fails; the caller closes it."""
    handshake = ClientHandshake(credentials, route)
    deadline = time.monotonic() + timeout_s
    await _begin(writer, credentials, deadline, is_server=False)
    writer.write(handshake.hello)
    answer = await _read(reader, handshake.needs, deadline)
    writer.write(handshake.receive(answer))
    return SecuredStreams(reader, writer, handshake.seals, route)


async def async_server_handshake(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    credentials: Credentials,
    purposes: Collection[str],
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> SecuredStreams:
    """Authenticate an accepted connection. Raises `PeerError` if that fails; the caller closes it."""
    handshake = ServerHandshake(credentials, purposes)
    deadline = time.monotonic() + timeout_s
    await _begin(writer, credentials, deadline, is_server=True)
    while handshake.needs:
        answer = handshake.receive(await _read(reader, handshake.needs, deadline))
        if answer:
            writer.write(answer)
    return SecuredStreams(reader, writer, handshake.seals, handshake.route)


async def _begin(writer: asyncio.StreamWriter, credentials: Credentials, deadline: float, *, is_server: bool) -> None:
    if credentials.encryption is not Encryption.TLS:
        return
    context = tls_context(credentials, is_server=is_server)
    try:
        await writer.start_tls(context, ssl_handshake_timeout=max(deadline - time.monotonic(), 0.001))
    except OSError as error:
        raise PeerError(f"the other end does not have the certificate of this job, or hung up: {error}") from error


async def _read(reader: asyncio.StreamReader, count: int, deadline: float) -> bytes:
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            return await reader.readexactly(count)
    except TimeoutError:
        raise PeerError("the other end was silent for too long") from None
    except asyncio.IncompleteReadError:
        raise ClosedEarlyError("the other end closed the connection early") from None
    except OSError as error:
        raise ClosedEarlyError(f"the connection broke during authentication: {error}") from error
