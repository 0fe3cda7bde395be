"""Authentication and messages over asyncio streams, with each kind of protection."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import cast

import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.wire.auth import ClosedEarlyError, Route
from snapline.runtime.wire.credentials import Credentials, new_credentials
from snapline.runtime.wire.frames import read_frame, write_frame
from snapline.runtime.wire.secured_socket import SecuredSocket, client_handshake
from snapline.runtime.wire.secured_streams import async_client_handshake, async_server_handshake

CREDENTIALS = {encryption: new_credentials(encryption) for encryption in Encryption}
ROUTE = Route("control", 3, 1, 2)


def talk(credentials: Credentials, others: Credentials) -> list[str]:
    """What both ends say of a connection; the server echoes one message backwards."""

    async def run() -> list[str]:
        results: list[str] = []
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                streams = await async_server_handshake(reader, writer, credentials, ("control",), 2)
                frame = await read_frame(streams)
                assert frame is not None
                await write_frame(streams, frame[::-1])
                results.append(f"served {streams.route.from_slot}")
            except PeerError as error:
                results.append(str(error))
            writer.close()
            done.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            streams = await async_client_handshake(reader, writer, others, ROUTE, 2)
            await write_frame(streams, b"abc" * 100_000)
            assert await read_frame(streams) == b"cba" * 100_000
            results.append("dialled")
        except PeerError as error:
            results.append(str(error))
        writer.transport.abort()
        await done.wait()
        server.close()
        await server.wait_closed()
        return sorted(results)

    return asyncio.run(run())


@pytest.mark.parametrize("encryption", Encryption)
def test_ends_with_the_same_credentials_talk(encryption: Encryption) -> None:
    assert talk(CREDENTIALS[encryption], CREDENTIALS[encryption]) == ["dialled", "served 1"]


@pytest.mark.parametrize("encryption", Encryption)
def test_ends_with_other_credentials_do_not(encryption: Encryption) -> None:
    results = talk(CREDENTIALS[encryption], new_credentials(encryption))
    assert not {"dialled", "served 1"} & set(results)
    assert any("does not know the secret" in result or "certificate of this job" in result for result in results)


@pytest.mark.parametrize("encryption", Encryption)
def test_a_blocking_socket_at_the_other_end(encryption: Encryption) -> None:
    credentials = CREDENTIALS[encryption]

    def dial(address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=5) as sock:
            secured = SecuredSocket(sock)
            client_handshake(secured, credentials, ROUTE)
            secured.send([b"\0\0\0\x03", b"abc"])
            answer = memoryview(bytearray(4))
            secured.read(answer)
            assert bytes(answer) == b"\0\0\0\x02"

    async def run() -> bytes | None:
        received: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            streams = await async_server_handshake(reader, writer, credentials, ("control",), 5)
            received.set_result(await read_frame(streams))
            await write_frame(streams, b"ok")
            assert await read_frame(streams) is None
            writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        thread = threading.Thread(target=dial, args=(server.sockets[0].getsockname(),))
        thread.start()
        frame = await received
        await asyncio.to_thread(thread.join)
        server.close()
        await server.wait_closed()
        return frame

    assert asyncio.run(run()) == b"abc"


class Nowhere:
    """A writer of which nobody reads."""

    def write(self, data: bytes) -> None:
        pass


def test_streams_end_in_time() -> None:
    async def run() -> None:
        reader, writer = asyncio.StreamReader(), cast(asyncio.StreamWriter, Nowhere())
        mac = CREDENTIALS[Encryption.MAC]
        with pytest.raises(PeerError, match="silent"):
            await async_server_handshake(reader, writer, mac, ("control",), 0.01)
        reader.feed_eof()
        with pytest.raises(ClosedEarlyError):
            await async_client_handshake(reader, writer, mac, ROUTE, 1)

    asyncio.run(run())
