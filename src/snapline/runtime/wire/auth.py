"""Both ends of a new connection prove that they know the job's secret before anything else is read.

1. client: magic, version, purpose, nonce
2. server: nonce, proof
3. client: proof

A proof is an HMAC-SHA256 over the prover's role, the version, the purpose and both nonces. Message sizes are fixed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Collection

from snapline.errors import PeerError

VERSION = 1
HANDSHAKE_TIMEOUT_S = 5.0

_MAGIC = b"SNAP"
_PURPOSE_BYTES = 16
_NONCE_BYTES = 32
_PROOF_BYTES = 32
_CLIENT_HELLO_BYTES = len(_MAGIC) + 1 + _PURPOSE_BYTES + _NONCE_BYTES
_SERVER_HELLO_BYTES = _NONCE_BYTES + _PROOF_BYTES

_log = logging.getLogger(__name__)


class ClosedEarlyError(PeerError):
    """The other end hung up without an answer: it may be busy, and a retry can help."""


def _padded(purpose: str) -> bytes:
    encoded = purpose.encode("ascii")
    if not 0 < len(encoded) <= _PURPOSE_BYTES:
        raise ValueError(f"the purpose {purpose!r} does not have 1 to {_PURPOSE_BYTES} characters")
    return encoded.ljust(_PURPOSE_BYTES, b"\0")


def _proof(secret: bytes, role: bytes, purpose: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    text = b"".join((b"snapline ", role, bytes([VERSION]), purpose, client_nonce, server_nonce))
    return hmac.digest(secret, text, "sha256")


class ClientHandshake:
    """The dialling side: send `hello`, read `needs` bytes, send what `receive` returns. Then the server is trusted."""

    needs = _SERVER_HELLO_BYTES

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._secret = secret
        self._purpose = _padded(purpose)
        self._nonce = secrets.token_bytes(_NONCE_BYTES)

    @property
    def hello(self) -> bytes:
        return b"".join((_MAGIC, bytes([VERSION]), self._purpose, self._nonce))

    def receive(self, data: bytes) -> bytes:
        server_nonce, proof = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
        expected = _proof(self._secret, b"server", self._purpose, self._nonce, server_nonce)
        if not hmac.compare_digest(proof, expected):
            raise PeerError("the other end does not know the secret of this job; it belongs to another one")
        return _proof(self._secret, b"client", self._purpose, self._nonce, server_nonce)


class ServerHandshake:
    """The accepting side: read `needs` bytes, send what `receive` returns; at `needs` 0 the client is trusted."""

    def __init__(self, secret: bytes, purposes: Collection[str]) -> None:
        self._secret = secret
        self._purposes = {_padded(purpose): purpose for purpose in purposes}
        self._expected: bytes | None = None
        self.needs = _CLIENT_HELLO_BYTES
        self.purpose = ""

    def receive(self, data: bytes) -> bytes:
        if self._expected is None:
            return self._answer(data)
        if not hmac.compare_digest(data, self._expected):
            raise PeerError("the other end does not know the secret of this job; it belongs to another one")
        self.needs = 0
        return b""

    def _answer(self, data: bytes) -> bytes:
        magic, version = data[: len(_MAGIC)], data[len(_MAGIC)]
        if magic != _MAGIC:
            raise PeerError("the other end is not a Snapline process")
        if version != VERSION:
            raise PeerError(f"the other end speaks version {version}, this one {VERSION}; install the same everywhere")
        padded, client_nonce = data[len(_MAGIC) + 1 : -_NONCE_BYTES], data[-_NONCE_BYTES:]
        purpose = self._purposes.get(padded)
        if purpose is None:
            raise PeerError("unknown connection purpose")
        self.purpose = purpose
        server_nonce = secrets.token_bytes(_NONCE_BYTES)
        self._expected = _proof(self._secret, b"client", padded, client_nonce, server_nonce)
        self.needs = _PROOF_BYTES
        return server_nonce + _proof(self._secret, b"server", padded, client_nonce, server_nonce)


# Over a blocking socket.


def client_handshake(sock: socket.socket, secret: bytes, purpose: str, timeout_s: float = HANDSHAKE_TIMEOUT_S) -> None:
    """Authenticate a dialled connection. Raises `PeerError` if that fails; the caller closes it."""
    handshake = ClientHandshake(secret, purpose)
    deadline = time.monotonic() + timeout_s
    try:
        send_within(sock, handshake.hello, deadline)
        send_within(sock, handshake.receive(receive_within(sock, handshake.needs, deadline)), deadline)
        sock.settimeout(None)
    except OSError as error:
        raise ClosedEarlyError(f"the connection broke during authentication: {error}") from error


def server_handshake(sock: socket.socket, secret: bytes, purpose: str, timeout_s: float = HANDSHAKE_TIMEOUT_S) -> None:
    """Authenticate an accepted connection. Raises `PeerError` if that fails; the caller closes it."""
    handshake = ServerHandshake(secret, (purpose,))
    deadline = time.monotonic() + timeout_s
    try:
        while handshake.needs:
            answer = handshake.receive(receive_within(sock, handshake.needs, deadline))
            send_within(sock, answer, deadline)
        sock.settimeout(None)
    except OSError as error:
        raise ClosedEarlyError(f"the connection broke during authentication: {error}") from error


def receive_within(sock: socket.socket, count: int, deadline: float) -> bytes:
    """Returns exactly `count` bytes. Raises `PeerError` after `deadline`, a time of the monotonic clock."""
    data = b""
    while len(data) < count:
        _limit(sock, deadline)
        try:
            chunk = sock.recv(count - len(data))
        except TimeoutError:
            raise PeerError("the other end was silent for too long") from None
        if not chunk:
            raise ClosedEarlyError("the other end closed the connection early")
        data += chunk
    return data


def send_within(sock: socket.socket, data: bytes, deadline: float) -> None:
    """Send everything. Raises `PeerError` after `deadline`, a time of the monotonic clock."""
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


# Over asyncio streams.


async def async_client_handshake(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    secret: bytes,
    purpose: str,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> None:
    handshake = ClientHandshake(secret, purpose)
    writer.write(handshake.hello)
    answer = await _read(reader, handshake.needs, timeout_s)
    writer.write(handshake.receive(answer))


async def async_server_handshake(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    secret: bytes,
    purpose: str,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> None:
    handshake = ServerHandshake(secret, (purpose,))
    deadline = time.monotonic() + timeout_s
    while handshake.needs:
        answer = handshake.receive(await _read(reader, handshake.needs, deadline - time.monotonic()))
        if answer:
            writer.write(answer)


async def _read(reader: asyncio.StreamReader, count: int, timeout_s: float) -> bytes:
    try:
        async with asyncio.timeout(timeout_s):
            return await reader.readexactly(count)
    except TimeoutError:
        raise PeerError("the other end was silent for too long") from None
    except asyncio.IncompleteReadError:
        raise ClosedEarlyError("the other end closed the connection early") from None
    except OSError as error:
        raise ClosedEarlyError(f"the connection broke during authentication: {error}") from error


class Refusals:
    """Refused peers: each address is logged once and counted after that. Thread-safe."""

    def __init__(self, what: str, limit: int = 1024) -> None:
        self._what = what
        self._limit = limit
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()
        self.total = 0

    def refused(self, host: str, reason: str) -> None:
        """`host` is the peer's address without the port."""
        with self._lock:
            self.total += 1
            count = self._counts.pop(host, 0) + 1
            self._counts[host] = count
            if len(self._counts) > self._limit:
                self._counts.popitem(last=False)
        if count == 1:
            _log.warning("refused a connection from %s to %s: %s (logged once per address)", host, self._what, reason)

    def count(self, host: str) -> int:
        """How often this address was refused; the oldest addresses are forgotten."""
        with self._lock:
            return self._counts.get(host, 0)
