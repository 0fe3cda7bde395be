"""Dialling the data port of a slot: reachable, silent, absent, or of another job."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from snapline.config import Encryption
from snapline.runtime.master import slot_probe
from snapline.runtime.master.slot_probe import SocketProbe
from snapline.runtime.network.admission import REFUSED, WELCOME, Admission
from snapline.runtime.wire.auth import Refusals, Route
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.secured_socket import SecuredSocket

CREDENTIALS = new_credentials(Encryption.MAC)
SLOT = 3


def probe(address: tuple[str, int], credentials: Credentials = CREDENTIALS, slot: int = SLOT) -> str | None:
    """What the probe finds: None, or the error."""

    async def run() -> str | None:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[str | None] = loop.create_future()
        dial = SocketProbe(loop)
        dial(address, slot, credentials, found.set_result)
        async with asyncio.timeout(10):
            error = await found
        await dial.close()
        return error

    return asyncio.run(run())


def with_data_port(use: Callable[[tuple[str, int]], None]) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def arrived(secured: SecuredSocket, host: str, route: Route) -> None:
        secured.send([WELCOME if route.to_slot == SLOT else REFUSED])
        secured.close()

    admission = Admission(listener, CREDENTIALS, Refusals("a slot"), arrived, lambda _: None, 10)
    with closing(admission):
        use(listener.getsockname())


def test_a_data_port_that_can_be_reached_is_fine() -> None:
    with_data_port(lambda address: _is_fine(probe(address)))


def test_a_data_port_of_another_job_is_an_error() -> None:
    with_data_port(lambda address: _is_error(probe(address, new_credentials(Encryption.MAC)), "belongs to another"))


def test_a_data_port_of_another_slot_is_an_error() -> None:
    with_data_port(lambda address: _is_error(probe(address, slot=4), "another slot than 4 listens there"))


def test_a_port_where_nobody_listens_is_an_error() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = server.getsockname()
    _is_error(probe(address), "Connect call failed")


def test_a_port_that_never_answers_is_an_error_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_probe, "PROBE_TIMEOUT_S", 0.05)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        _is_error(probe(server.getsockname()), "no answer within 0.05 s")


def test_probes_under_way_end_with_the_close() -> None:
    async def run() -> list[str | None]:
        found: list[str | None] = []
        loop = asyncio.get_running_loop()
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            dial = SocketProbe(loop)
            dial(server.getsockname(), SLOT, CREDENTIALS, found.append)
            await asyncio.sleep(0)
            await dial.close()
        return found

    before = threading.active_count()
    assert asyncio.run(run()) == []
    assert threading.active_count() == before


def _is_fine(error: str | None) -> None:
    assert error is None


def _is_error(error: str | None, text: str) -> None:
    assert error is not None
    assert text in error
