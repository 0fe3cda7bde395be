"""Dials the data port of an operator process, so that an unreachable port is an error and not a hanging job."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeAlias

from snapline.errors import PeerError
from snapline.runtime.network.admission import WELCOME
from snapline.runtime.wire.auth import DRIVER, PROBE, Route
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.secured_streams import async_client_handshake

PROBE_TIMEOUT_S = 5.0

Probe: TypeAlias = Callable[[tuple[str, int], int, Credentials, Callable[[str | None], None]], None]
"""Dials the address of a slot with credentials, then calls back on the loop with None or the error."""


class SocketProbe:
    """Dials over sockets on the running loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._probes: set[asyncio.Task[None]] = set()

    def __call__(
        self, address: tuple[str, int], slot: int, credentials: Credentials, done: Callable[[str | None], None]
    ) -> None:
        probe = self._loop.create_task(_probe(address, slot, credentials, done))
        self._probes.add(probe)
        probe.add_done_callback(self._over)

    async def close(self) -> None:
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)

    def _over(self, probe: asyncio.Task[None]) -> None:
        self._probes.discard(probe)
        if not probe.cancelled():
            probe.result()


async def _probe(
    address: tuple[str, int], slot: int, credentials: Credentials, done: Callable[[str | None], None]
) -> None:
    error = None
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await _dial(address, slot, credentials)
    except (OSError, TimeoutError, PeerError) as raised:
        error = str(raised) or f"no answer within {PROBE_TIMEOUT_S:g} s"
    done(error)


async def _dial(address: tuple[str, int], slot: int, credentials: Credentials) -> None:
    reader, writer = await asyncio.open_connection(*address)
    try:
        streams = await async_client_handshake(reader, writer, credentials, Route(PROBE, 0, DRIVER, slot))
        try:
            answer = await streams.read(len(WELCOME))
        except asyncio.IncompleteReadError:
            raise PeerError("it hung up without an answer") from None
        if answer != WELCOME:
            raise PeerError(f"another slot than {slot} listens there")
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
