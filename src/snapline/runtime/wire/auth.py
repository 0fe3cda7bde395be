"""Both ends of a new connection prove that they know the job's secret before anything else is read.

1. client: magic, version, protection, algorithms it knows, route, nonce
2. server: chosen algorithm, nonce, proof
3. client: proof

A proof is an HMAC-SHA256 over the prover's role and everything that was sent before it except proofs: nobody in between
can change what the connection is for, between whom, or how it is protected. The keys of what protects the messages that
follow come from the same bytes. Message sizes are fixed.

With TLS all of this is sent through TLS. If both ends can, a connection for data then leaves TLS and encrypts whole
messages with AES-GCM: the records of TLS, of at most 16 KB, cost too much in Python.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import struct
import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.seals import KNOWN, Mac, Seals, best

VERSION = 3
HANDSHAKE_TIMEOUT_S = 5.0

CONTROL = "control"
DATA = "data"
PROBE = "probe"
"""Purposes: a slot speaks to the driver; a slot exchanges data with another; the driver checks a data port."""

DRIVER = 0xFFFF_FFFF
"""The driver's number in a route."""

_MAGIC = b"SNAP"
_START = struct.Struct("!4sBBB")
_ROUTE = struct.Struct("!16sQIII")
_PROTECTIONS = {encryption: number for number, encryption in enumerate(Encryption)}
_NONCE_BYTES = 32
_PROOF_BYTES = 32
_CLIENT_HELLO_BYTES = _START.size + _ROUTE.size + _NONCE_BYTES
_SERVER_HELLO_BYTES = 1 + _NONCE_BYTES

_log = logging.getLogger(__name__)


class ClosedEarlyError(PeerError):
    """The other end hung up without an answer: it may be busy, and a retry can help."""


class Route(NamedTuple):
    """What a connection is for and between whom. `number` is the attempt, or the generation on a control connection.

    `region` is the part of the job whose data it carries.
    """

    purpose: str
    number: int
    from_slot: int
    to_slot: int
    region: int = 0

    def encoded(self) -> bytes:
        purpose = self.purpose.encode("ascii")
        if not 0 < len(purpose) <= 16:
            raise ValueError(f"the purpose {self.purpose!r} does not have 1 to 16 characters")
        return _ROUTE.pack(purpose, *self[1:])


class _Proofs:
    """What follows from the secret and from what both ends have sent."""

    def __init__(self, secret: bytes, sent: bytes) -> None:
        self._secret = secret
        self._sent = sent

    def proof(self, role: bytes) -> bytes:
        return hmac.digest(self._secret, b"snapline proof " + role + self._sent, "sha256")

    def key(self, role: bytes) -> bytes:
        """The key of messages that this role sends."""
        return hmac.digest(self._secret, b"snapline key " + role + self._sent, "sha256")


def _seals(encryption: Encryption, purpose: str, mac: Mac, sending_key: bytes, receiving_key: bytes) -> Seals | None:
    if encryption is Encryption.MAC:
        return Seals(mac, sending_key, receiving_key)
    if encryption is Encryption.TLS and purpose == DATA and mac is Mac.AES_GMAC:
        # The nonces, and so the keys, are known only to the two ends of the TLS that leads here.
        return Seals(mac, sending_key, receiving_key, is_secret=True)
    return None


class ClientHandshake:
    """The dialling side: send `hello`, read `needs` bytes, send what `receive` returns. Then the server is trusted."""

    needs = _SERVER_HELLO_BYTES + _PROOF_BYTES

    def __init__(self, credentials: Credentials, route: Route) -> None:
        self._credentials = credentials
        protection = _PROTECTIONS[credentials.encryption]
        start = _START.pack(_MAGIC, VERSION, protection, KNOWN)
        self._purpose = route.purpose
        self.hello = start + route.encoded() + secrets.token_bytes(_NONCE_BYTES)
        self.seals: Seals | None = None
        """Once the server is trusted: what protects the messages that follow, if seals do."""

    def receive(self, data: bytes) -> bytes:
        answer, proof = data[:_SERVER_HELLO_BYTES], data[_SERVER_HELLO_BYTES:]
        proofs = _Proofs(self._credentials.secret, self.hello + answer)
        if not hmac.compare_digest(proof, proofs.proof(b"server")):
            raise PeerError("the other end does not know the secret of this job; it belongs to another one")
        encryption = self._credentials.encryption
        self.seals = _seals(encryption, self._purpose, Mac(answer[0]), proofs.key(b"client"), proofs.key(b"server"))
        return proofs.proof(b"client")


class ServerHandshake:
    """The accepting side: read `needs` bytes, send what `receive` returns; at `needs` 0 the client is trusted."""

    def __init__(self, credentials: Credentials, purposes: Collection[str]) -> None:
        self._credentials = credentials
        self._purposes = {purpose.encode("ascii"): purpose for purpose in purposes}
        self._expected: bytes | None = None
        self.needs = _CLIENT_HELLO_BYTES
        self.route = Route("", 0, 0, 0)
        self.seals: Seals | None = None
        """What protects the messages that follow the handshake, if seals do."""

    def receive(self, data: bytes) -> bytes:
        if self._expected is None:
            return self._answer(data)
        if not hmac.compare_digest(data, self._expected):
            raise PeerError("the other end does not know the secret of this job; it belongs to another one")
        self.needs = 0
        return b""

    def _answer(self, data: bytes) -> bytes:
        magic, version, protection, algorithms = _START.unpack_from(data)
        if magic != _MAGIC:
            raise PeerError("the other end is not a Snapline process")
        if version != VERSION:
            raise PeerError(f"the other end speaks version {version}, this one {VERSION}; install the same everywhere")
        encryption = self._credentials.encryption
        if protection != _PROTECTIONS[encryption]:
            raise PeerError(f"the other end does not protect its messages as this job does, with {encryption.value!r}")
        padded, *numbers = _ROUTE.unpack_from(data, _START.size)
        purpose = self._purposes.get(padded.rstrip(b"\0"))
        if purpose is None:
            raise PeerError("unknown connection purpose")
        self.route = Route(purpose, *numbers)
        mac = best(algorithms)
        answer = bytes([mac]) + secrets.token_bytes(_NONCE_BYTES)
        proofs = _Proofs(self._credentials.secret, data + answer)
        self.seals = _seals(encryption, purpose, mac, proofs.key(b"server"), proofs.key(b"client"))
        self._expected = proofs.proof(b"client")
        self.needs = _PROOF_BYTES
        return answer + proofs.proof(b"server")


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
