"""TLS 1.3 between the processes of a generation: each end shows the generation's certificate and accepts no other."""

from __future__ import annotations

import functools
import os
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from snapline.errors import PeerError
from snapline.runtime.wire.credentials import Credentials
from snapline.runtime.wire.seals import Buffer

_PIECE_BYTES = 64 * 1024
"""What is encrypted in one go stays in the processor's cache."""
_SMALL_BYTES = 4 * 1024
"""Parts below this size share a record."""

TLS_HEADER_BYTES = 5
MAX_RECORD_BYTES = (1 << 14) + 256


def record_length(header: bytes) -> int:
    """How many bytes follow the header of a TLS record. Raises `PeerError` if it cannot be one."""
    length = int.from_bytes(header[3:], "big")
    if header[1] != 3 or length > MAX_RECORD_BYTES:
        raise PeerError("the other end does not speak TLS")
    return length


def tls_context(credentials: Credentials, *, is_server: bool) -> ssl.SSLContext:
    return _context(credentials.certificate, credentials.private_key, is_server)


@functools.lru_cache(maxsize=4)
def _context(certificate: bytes, private_key: bytes, is_server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # there is one certificate for all hosts, and no other is trusted
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode("ascii"))
    if is_server:
        context.num_tickets = 0  # nobody resumes
    with _in_memory(certificate) as certificate_path, _in_memory(private_key) as key_path:
        context.load_cert_chain(certificate_path, key_path)
    return context


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path at which `data` can be read once: a pipe, because a private key must never be on a disk."""
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as pipe:
            pipe.write(data)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


class TlsStream:
    """One end of a TLS connection, without its socket. One thread may send while another receives."""

    def __init__(self, credentials: Credentials, *, is_server: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = tls_context(credentials, is_server=is_server)
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._lock = threading.Lock()
        self.is_established = False

    def handshake(self, received: Buffer = b"") -> bytes:
        """Take bytes of the other end. Returns bytes for it. Done once `is_established`. Raises `PeerError`."""
        self._incoming.write(received)
        try:
            self._ssl.do_handshake()
            self.is_established = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise PeerError(f"the other end does not have the certificate of this job: {_reason(error)}") from error
        return self._outgoing.read()

    def feed(self, received: Buffer) -> None:
        """Take bytes of the other end, for `read_into`."""
        with self._lock:
            self._incoming.write(received)

    def read_into(self, view: memoryview) -> int:
        """Decrypt into `view`. Returns the number of bytes, 0 if more must be fed first, -1 at the end. `PeerError`."""
        with self._lock:
            try:
                return self._ssl.read(len(view), view)  # type: ignore[return-value]
            except ssl.SSLWantReadError:
                return 0
            except ssl.SSLZeroReturnError:
                return -1
            except ssl.SSLError as error:
                raise PeerError(
                    f"an encrypted connection was broken or changed on its way: {_reason(error)}"
                ) from error

    def encrypt(self, parts: Sequence[Buffer]) -> list[memoryview]:
        """What to send for these bytes."""
        with self._lock:
            pieces: list[memoryview] = []
            small = b""
            for part in parts:
                if len(small) + len(part) <= _SMALL_BYTES:
                    small += part
                    continue
                if small:
                    pieces.append(self._encrypted(memoryview(small)))
                    small = b""
                view = memoryview(part)
                for start in range(0, len(view), _PIECE_BYTES):
                    pieces.append(self._encrypted(view[start : start + _PIECE_BYTES]))
            if small:
                pieces.append(self._encrypted(memoryview(small)))
            return pieces

    def _encrypted(self, view: memoryview) -> memoryview:
        while view:
            view = view[self._ssl.write(view) :]
        return memoryview(self._outgoing.read())


def _reason(error: ssl.SSLError) -> str:
    return str(error.reason or error).lower().replace("_", " ")
