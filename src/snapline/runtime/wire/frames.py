"""Control messages on an authenticated connection: `[u32 length][bytes]`, big-endian."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading

from snapline.errors import PeerError

FRAME_LIMIT_BYTES = 512 * 1024 * 1024

_LENGTH = struct.Struct("!I")


def _check(length: int, limit: int) -> None:
    if length > limit:
        raise PeerError(f"a message of {length} bytes; no more than {limit} are allowed")


class ControlConnection:
    """Frames over an authenticated blocking socket, which it owns."""

    def __init__(self, sock: socket.socket, limit: int = FRAME_LIMIT_BYTES) -> None:
        sock.settimeout(None)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._limit = limit
        self._send_lock = threading.Lock()
        self._is_closed = False

    def send(self, data: bytes) -> None:
        """Any thread. Raises `PeerError` if the connection is gone or the message too large."""
        _check(len(data), self._limit)
        try:
            with self._send_lock:
                if len(data) < 65_536:
                    self._sock.sendall(_LENGTH.pack(len(data)) + data)
                else:
                    self._sock.sendall(_LENGTH.pack(len(data)))
                    self._sock.sendall(data)
        except OSError as error:
            raise PeerError(f"the connection is gone: {error}") from error

    def receive(self) -> bytes | None:
        """Returns the next message, or None after a clean end or `close`. One thread only."""
        try:
            header = self._read(_LENGTH.size, may_end=True)
            if header is None:
                return None
            (length,) = _LENGTH.unpack(header)
            _check(length, self._limit)
            return self._read(length, may_end=False)
        except OSError as error:
            if self._is_closed:
                return None
            raise PeerError(f"the connection is gone: {error}") from error

    def receive_within(self, timeout_s: float) -> bytes | None:
        """Like `receive`. Raises `PeerError` too if the other end is silent for longer."""
        self._sock.settimeout(timeout_s)
        data = self.receive()
        self._sock.settimeout(None)
        return data

    def close(self) -> None:
        """End the connection and wake `receive`. Any thread; idempotent."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _read(self, count: int, *, may_end: bool) -> bytes | None:
        chunks: list[bytes] = []
        left = count
        while left:
            chunk = self._sock.recv(min(left, 1 << 20))
            if not chunk:
                if self._is_closed or (may_end and not chunks):
                    return None
                raise PeerError("the other end closed the connection in the middle of a message")
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)


async def read_frame(reader: asyncio.StreamReader, limit: int = FRAME_LIMIT_BYTES) -> bytes | None:
    """Returns the next message, or None at a clean end. Raises `PeerError` if it is too large or cut off."""
    try:
        header = await reader.readexactly(_LENGTH.size)
        (length,) = _LENGTH.unpack(header)
        _check(length, limit)
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        if not error.partial and error.expected == _LENGTH.size:
            return None
        raise PeerError("the other end closed the connection in the middle of a message") from error
    except OSError as error:
        raise PeerError(f"the connection is gone: {error}") from error


async def write_frame(writer: asyncio.StreamWriter, data: bytes, limit: int = FRAME_LIMIT_BYTES) -> None:
    """Send a message and wait until there is room for more. Messages of concurrent callers do not mix."""
    _check(len(data), limit)
    try:
        writer.writelines((_LENGTH.pack(len(data)), data))
        await writer.drain()
    except OSError as error:
        raise PeerError(f"the connection is gone: {error}") from error
