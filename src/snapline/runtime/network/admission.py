"""Accepts and authenticates the connections of a data port, all in one thread, however slow the peers are."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.wire.auth import DATA, HANDSHAKE_TIMEOUT_S, PROBE, Refusals, Route, ServerHandshake
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.secured_socket import SecuredSocket
from snapline.runtime.wire.tls import TlsStream

WELCOME = b"\x01"
REFUSED = b"\x00"
"""The answer to the dialling side: the connection is in use, or was turned away."""

STRANGERS = 64
"""Connections that may authenticate at the same time, beside one for each slot. With more, the oldest goes."""

_RECEIVE_BYTES = 16 * 1024
_PAUSE_S = 0.05

_log = logging.getLogger(__name__)


def entering_limit(slots: int) -> int:
    """How many connections may authenticate at the same time on the data port of a job with this number of slots."""
    return STRANGERS + slots


class _Entering:
    """A connection that has not authenticated yet. Without TLS it never reads beyond the message that is due."""

    def __init__(self, sock: socket.socket, host: str, credentials: Credentials, deadline: float) -> None:
        self.sock = sock
        self.host = host
        self.deadline = deadline
        self.handshake = ServerHandshake(credentials, (DATA, PROBE))
        self._tls = TlsStream(credentials, is_server=True) if credentials.encryption is Encryption.TLS else None
        self._data = b""

    def advance(self) -> SecuredSocket | None:
        """Read what has arrived. Returns the connection once it has authenticated; raises `PeerError` on failure."""
        due = self.handshake.needs - len(self._data)
        try:
            chunk = self.sock.recv(due if self._tls is None else _RECEIVE_BYTES)
        except BlockingIOError:
            return None
        if not chunk:
            raise PeerError("the other end closed the connection early")
        if self._tls is None:
            self._take(chunk)
        else:
            self._decrypt(chunk, self._tls)
        if self.handshake.needs:
            return None
        secured = SecuredSocket(self.sock)
        secured.protect(self._tls, self.handshake.seals)
        return secured

    def _decrypt(self, chunk: bytes, tls: TlsStream) -> None:
        if not tls.is_established:
            self._send(tls.handshake(chunk))
        else:
            tls.feed(chunk)
        while tls.is_established and (needs := self.handshake.needs - len(self._data)) > 0:
            view = memoryview(bytearray(needs))
            count = tls.read_into(view)
            if count < 0:
                raise PeerError("the other end closed the connection early")
            if not count:
                return
            self._take(bytes(view[:count]))

    def _take(self, chunk: bytes) -> None:
        self._data += chunk
        if len(self._data) == self.handshake.needs:
            data, self._data = self._data, b""
            answer = self.handshake.receive(data)
            if answer:
                self._send(answer if self._tls is None else b"".join(self._tls.encrypt([answer])))

    def _send(self, data: bytes) -> None:
        # A few hundred bytes, the first on this connection: they fit the socket buffer.
        if self.sock.send(data) < len(data):
            raise PeerError("the other end does not read")


class Admission:
    """Listens until closed. Its thread calls `arrived` with every authenticated connection; it must be quick."""

    def __init__(
        self,
        listener: socket.socket,
        credentials: Credentials,
        refusals: Refusals,
        arrived: Callable[[SecuredSocket, str, Route], None],
        tick: Callable[[float], None],
        limit: int,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._credentials = credentials
        self._refusals = refusals
        self._arrived = arrived
        self._tick = tick
        self._limit = limit
        self._entering: dict[socket.socket, _Entering] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exchange-admission", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and drop connections that have not authenticated."""
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        self._wake_writer.send(b"x")
        self._thread.join()
        for entering in list(self._entering.values()):
            self._drop(entering)
        self._selector.close()
        for sock in (self._listener, self._wake_reader, self._wake_writer):
            sock.close()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            for key, _ in self._selector.select(1.0 if not self._entering else _PAUSE_S):
                if key.fileobj is self._listener:
                    self._accept()
                elif (entering := key.data) is not None and entering.sock in self._entering:
                    self._advance(entering)
            now = time.monotonic()
            # Ordered by deadline.
            while self._entering and (oldest := next(iter(self._entering.values()))).deadline <= now:
                self._refuse(oldest, "it did not authenticate in time")
            self._tick(now)

    def _accept(self) -> None:
        try:
            sock, address = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of file descriptors, most likely: give one back instead of spinning.
            self._refusals.refused("anywhere", f"cannot accept: {error}")
            if self._entering:
                self._refuse(next(iter(self._entering.values())), "no file descriptor was left for it")
            self._is_closed.wait(_PAUSE_S)
            return
        sock.setblocking(False)
        if len(self._entering) >= self._limit:
            self._refuse(next(iter(self._entering.values())), "too many connections at once")
        entering = _Entering(sock, str(address[0]), self._credentials, time.monotonic() + HANDSHAKE_TIMEOUT_S)
        self._entering[sock] = entering
        self._selector.register(sock, selectors.EVENT_READ, entering)

    def _advance(self, entering: _Entering) -> None:
        try:
            secured = entering.advance()
        except (PeerError, OSError) as error:
            self._refuse(entering, str(error))
            return
        if secured is None:
            return
        self._forget(entering)
        entering.sock.setblocking(True)
        try:
            self._arrived(secured, entering.host, entering.handshake.route)
        except Exception:
            # One bad connection must not stop the listener.
            _log.exception("cannot adopt a connection from %s", entering.host)
            entering.sock.close()

    def _refuse(self, entering: _Entering, reason: str) -> None:
        self._refusals.refused(entering.host, reason)
        self._drop(entering)

    def _drop(self, entering: _Entering) -> None:
        self._forget(entering)
        entering.sock.close()

    def _forget(self, entering: _Entering) -> None:
        del self._entering[entering.sock]
        with contextlib.suppress(KeyError):
            self._selector.unregister(entering.sock)
