"""Authenticated blocking sockets, whose messages are protected as the job asks."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import termios
import time
from collections.abc import Sequence

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
from snapline.runtime.wire.seals import TAG_BYTES, Buffer, Seals
from snapline.runtime.wire.tls import MAX_RECORD_BYTES, TLS_HEADER_BYTES, TlsStream, record_length

_MANY_BYTES = 64 * 1024
"""A reader that needs less than this hears of every byte that arrives."""
_RECEIVE_BYTES = 256 * 1024
"""How much of an encrypted connection is read at once."""
_RECEIVES_AT_ONCE = 8
_COUNT = struct.Struct("i")
_MAX_VIEWS = 512
"""The system takes 1024 buffers at once."""


class SecuredSocket:
    """A socket, which it owns, with the TLS or the seals that its handshake leads to.

    Messages consist of parts, a header and a body; what is sent as one part is read as one part. One thread at a time
    may send, and one may read.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._tls: TlsStream | None = None
        self._seals: Seals | None = None
        self._awaited = 1
        self.is_holding = False
        """Whether `receive_into` must be called again although the socket may have nothing more to read."""

    @property
    def socket(self) -> socket.socket:
        """To set options; send and read through this object."""
        return self._sock

    def protect(self, tls: TlsStream | None, seals: Seals | None) -> None:
        """From now on protect every part in both directions: with seals if there are any, else with established TLS."""
        self._tls, self._seals = tls if seals is None else None, seals

    # Sending.

    def protected(self, parts: Sequence[Buffer]) -> list[memoryview]:
        """What must be sent for these parts, next and completely, none of which is empty."""
        if self._tls is not None:
            return self._tls.encrypt(parts)
        views = [memoryview(part).cast("B") for part in parts]
        if self._seals is not None:
            seal = self._seals.seal
            return [memoryview(sealed) for part in views for sealed in seal(part)]
        return views

    def send_some(self, views: list[memoryview]) -> list[memoryview]:
        """Send protected bytes without joining them first. Returns what is left to send."""
        try:
            return rest_of(views, self._sock.sendmsg(views[:_MAX_VIEWS]))
        except BlockingIOError:
            return views

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send parts completely. Raises `OSError`."""
        views = self.protected(parts)
        while views:
            views = self.send_some(views)

    def send_within(self, parts: Sequence[Buffer], deadline: float) -> None:
        """Send parts. Raises `PeerError` after `deadline`, a time of the monotonic clock."""
        _send_within(self._sock, b"".join(self.protected(parts)), deadline)
        self._sock.settimeout(None)

    # Reading.

    def read(self, view: memoryview, *, may_end: bool = False) -> bool:
        """Read a part. Returns False if `may_end` and the connection has ended before it. Raises `PeerError`."""
        if self._tls is not None:
            return self._decrypt(view, self._tls, may_end=may_end)
        if self._seals is None:
            return self._fill(view, may_end=may_end)
        sealed = memoryview(bytearray(len(view) + TAG_BYTES))
        if not self._fill(sealed, may_end=may_end):
            return False
        view[:] = self._seals.open(sealed)
        return True

    def read_within(self, count: int, deadline: float) -> bytes:
        """Returns a part of `count` bytes. Raises `PeerError` after `deadline`, a time of the monotonic clock."""
        data = bytearray(count)
        if self._tls is not None:
            view = memoryview(data)
            while view:
                if (decrypted := self._tls.read_into(view)) < 0:
                    raise ClosedEarlyError("the other end closed the connection early")
                view = view[decrypted:]
                if view and not decrypted:
                    self._tls.feed(_receive_record_within(self._sock, deadline))
        else:
            received = _receive_within(self._sock, count + self.tag_bytes, deadline)
            data[:] = received if self._seals is None else self._seals.open(memoryview(received))
        self._sock.settimeout(None)
        return bytes(data)

    # Reading a non-blocking socket, where the reader cuts the bytes into parts itself.

    @property
    def tag_bytes(self) -> int:
        """How many bytes more than a part arrive for it; `open` must get them all before the part is used."""
        return TAG_BYTES if self._seals is not None else 0

    def open(self, sealed: memoryview) -> Buffer:
        """Returns the part that arrived as `sealed`. Raises `PeerError` unless the other end sent it next."""
        assert self._seals is not None
        return self._seals.open(sealed)

    def await_bytes(self, count: int) -> None:
        """Count as readable only when many bytes have arrived, because a reader needs `count`; or with any again."""
        if self._tls is not None:
            count -= TLS_HEADER_BYTES + MAX_RECORD_BYTES  # may have been read, and not decrypted yet
        if count < _MANY_BYTES:
            count = 1
        if count != self._awaited:
            self._awaited = count
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    @property
    def unread_bytes(self) -> int:
        """What has arrived and waits to be read."""
        (count,) = _COUNT.unpack(fcntl.ioctl(self._sock, termios.FIONREAD, bytes(_COUNT.size)))
        return int(count)

    def receive_into(self, views: list[memoryview]) -> int:
        """Read what has arrived. Returns the number of bytes, 0 at the end. Raises `BlockingIOError`, `PeerError`.

        If it fills all views, more may be waiting, also in this object: see `is_holding`.
        """
        if self._tls is None:
            return self._sock.recvmsg_into(views)[0]
        total = receives = 0
        while True:
            while views and (count := self._tls.read_into(views[0])) > 0:
                total += count
                views = rest_of(views, count)
            self.is_holding = not views
            if not views or count < 0 or (total and receives >= _RECEIVES_AT_ONCE):
                return total
            try:
                received = self._sock.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                if total:
                    return total
                raise
            if not received:
                return total
            # Must be decrypted before the next wait: only what is still in the socket ends that.
            self._tls.feed(received)
            receives += 1

    def _fill(self, view: memoryview, *, may_end: bool) -> bool:
        while view:
            count = self._sock.recv_into(view, 0, socket.MSG_WAITALL)
            if not count:
                if may_end:
                    return False
                raise PeerError("the other end closed the connection in the middle of a message")
            view = view[count:]
            may_end = False
        return True

    def _decrypt(self, view: memoryview, tls: TlsStream, *, may_end: bool) -> bool:
        while view:
            count = tls.read_into(view)
            if count > 0:
                view = view[count:]
                may_end = False
                continue
            received = b"" if count else self._sock.recv(_RECEIVE_BYTES)
            if not received:
                if may_end:
                    return False
                raise PeerError("the other end closed the connection in the middle of a message")
            tls.feed(received)
        return True

    # Ending.

    def shutdown(self) -> None:
        """End the connection and wake who reads or sends. Any thread; idempotent."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()


def rest_of(views: list[memoryview], count: int) -> list[memoryview]:
    """What is left of buffers after `count` bytes were sent or read."""
    for position, view in enumerate(views):
        if count < view.nbytes:
            return [view[count:], *views[position + 1 :]]
        count -= view.nbytes
    return []


def client_handshake(
    secured: SecuredSocket, credentials: Credentials, route: Route, timeout_s: float = HANDSHAKE_TIMEOUT_S
) -> None:
    """Authenticate a dialled connection. Raises `PeerError` if that fails; the caller closes it."""
    handshake = ClientHandshake(credentials, route)
    deadline = time.monotonic() + timeout_s
    try:
        tls = _begin(secured, credentials, deadline, is_server=False)
        secured.send_within([handshake.hello], deadline)
        secured.send_within([handshake.receive(secured.read_within(handshake.needs, deadline))], deadline)
    except OSError as error:
        raise ClosedEarlyError(f"the connection broke during authentication: {error}") from error
    secured.protect(tls, handshake.seals)


def server_handshake(
    secured: SecuredSocket, credentials: Credentials, purpose: str, timeout_s: float = HANDSHAKE_TIMEOUT_S
) -> Route:
    """Authenticate an accepted connection. Raises `PeerError` if that fails; the caller closes it."""
    handshake = ServerHandshake(credentials, (purpose,))
    deadline = time.monotonic() + timeout_s
    try:
        tls = _begin(secured, credentials, deadline, is_server=True)
        while handshake.needs:
            answer = handshake.receive(secured.read_within(handshake.needs, deadline))
            if answer:
                secured.send_within([answer], deadline)
    except OSError as error:
        raise ClosedEarlyError(f"the connection broke during authentication: {error}") from error
    secured.protect(tls, handshake.seals)
    return handshake.route


def _begin(secured: SecuredSocket, credentials: Credentials, deadline: float, *, is_server: bool) -> TlsStream | None:
    if credentials.encryption is not Encryption.TLS:
        return None
    sock = secured.socket
    tls = TlsStream(credentials, is_server=is_server)
    to_send = b"" if is_server else tls.handshake()
    while True:
        if to_send:
            _send_within(sock, to_send, deadline)
        if tls.is_established:
            secured.protect(tls, None)
            return tls
        to_send = tls.handshake(_receive_record_within(sock, deadline))


def _receive_record_within(sock: socket.socket, deadline: float) -> bytes:
    """Returns one TLS record, and leaves in the socket what follows: another reader may take it from there."""
    header = _receive_within(sock, TLS_HEADER_BYTES, deadline)
    return header + _receive_within(sock, record_length(header), deadline)


def _receive_within(sock: socket.socket, count: int, deadline: float) -> bytes:
    data = b""
    while len(data) < count:
        data += _receive_some_within(sock, count - len(data), deadline)
    return data


def _receive_some_within(sock: socket.socket, count: int, deadline: float) -> bytes:
    _limit(sock, deadline)
    try:
        chunk = sock.recv(count)
    except TimeoutError:
        raise PeerError("the other end was silent for too long") from None
    if not chunk:
        raise ClosedEarlyError("the other end closed the connection early")
    return chunk


def _send_within(sock: socket.socket, data: bytes, deadline: float) -> None:
    _limit(sock, deadline)
    try:
        sock.sendall(data)
    except TimeoutError:
        raise PeerError("the other end does not read") from None


def _limit(sock: socket.socket, deadline: float) -> None:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise PeerError("the other end was silent for too long")
    sock.settimeout(left_s)
