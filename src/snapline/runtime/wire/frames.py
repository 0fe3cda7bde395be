"""Control messages on an authenticated connection: a length of four bytes, big-endian, and the message."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading

from snapline.errors import PeerError
from snapline.runtime.wire.secured_socket import SecuredSocket
from snapline.runtime.wire.secured_streams import SecuredStreams

FRAME_LIMIT_BYTES = 512 * 1024 * 1024

_LENGTH = struct.Struct("!I")


def _check(length: int, limit: int) -> None:
    if length > limit:
        raise PeerError(f"a message of {length} bytes; no more than {limit} are allowed")


def _parts(data: bytes) -> list[bytes]:
    return [_LENGTH.pack(len(data)), data] if data else [_LENGTH.pack(0)]


class ControlConnection:
    """Frames over an authenticated socket, which it owns."""

    def __init__(self, secured: SecuredSocket, limit: int = FRAME_LIMIT_BYTES) -> None:
        with contextlib.suppress(OSError):
            secured.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._secured = secured
        self._limit = limit
        self._send_lock = threading.Lock()
        self._is_closed = False

    def send(self, data: bytes) -> None:
        """Any thread. Raises `PeerError` if the connection is gone or the message too large."""
        _check(len(data), self._limit)
        try:
            with self._send_lock:
                self._secured.send(_parts(data))
        except OSError as error:
            raise PeerError(f"the connection is gone: {error}") from error

    def receive(self) -> bytes | None:
        """Returns the next message, or None after a clean end or `close`. One thread only."""
        try:
            header = bytearray(_LENGTH.size)
            if not self._secured.read(memoryview(header), may_end=True):
                return None
            (length,) = _LENGTH.unpack(header)
            _check(length, self._limit)
            data = bytearray(length)
            if length:
                self._secured.read(memoryview(data))
            return bytes(data)
        except (OSError, PeerError) as error:
            if self._is_closed:
                return None
            if isinstance(error, PeerError):
                raise
            raise PeerError(f"the connection is gone: {error}") from error

    def receive_within(self, timeout_s: float) -> bytes | None:
        """Like `receive`. Raises `PeerError` too if the other end is silent for longer."""
        self._secured.socket.settimeout(timeout_s)
        data = self.receive()
        self._secured.socket.settimeout(None)
        return data

    def close(self) -> None:
        """End the connection and wake `receive`. Any thread; idempotent."""
        self._is_closed = True
        self._secured.shutdown()
        self._secured.close()


async def read_frame(streams: SecuredStreams, limit: int = FRAME_LIMIT_BYTES) -> bytes | None:
    """Returns the next message, or None at a clean end. Raises `PeerError` if it is too large, changed or cut off."""
    is_started = False
    try:
        (length,) = _LENGTH.unpack(await streams.read(_LENGTH.size))
        is_started = True
        _check(length, limit)
        return await streams.read(length) if length else b""
    except asyncio.IncompleteReadError as error:
        if not error.partial and not is_started:
            return None
        raise PeerError("the other end closed the connection in the middle of a message") from error
    except OSError as error:
        raise PeerError(f"the connection is gone: {error}") from error


async def write_frame(streams: SecuredStreams, data: bytes, limit: int = FRAME_LIMIT_BYTES) -> None:
    """Send a message and wait until there is room for more. Messages of concurrent callers do not mix."""
    _check(len(data), limit)
    try:
        streams.write(*_parts(data))
        await streams.writer.drain()
    except OSError as error:
        raise PeerError(f"the connection is gone: {error}") from error
