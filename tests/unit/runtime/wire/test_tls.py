"""TLS without sockets."""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path

import pytest

from snapline.config import Encryption
from snapline.errors import PeerError
from snapline.runtime.wire.credentials import new_credentials
from snapline.runtime.wire.tls import TLS_HEADER_BYTES, TlsStream, record_length, tls_context

CREDENTIALS = new_credentials(Encryption.TLS)


def connected() -> tuple[TlsStream, TlsStream]:
    client, server = TlsStream(CREDENTIALS, is_server=False), TlsStream(CREDENTIALS, is_server=True)
    to_client = b""
    while not (client.is_established and server.is_established):
        to_client = server.handshake(client.handshake(to_client))
    return client, server


def read(stream: TlsStream, count: int) -> bytes:
    data = bytearray(count)
    view = memoryview(data)
    while view and (got := stream.read_into(view)) > 0:
        view = view[got:]
    return bytes(data[: count - len(view)])


def test_parts_of_any_size_arrive_in_both_directions() -> None:
    client, server = connected()
    parts = [b"header", bytes(range(256)) * 1000, b"a", b"b" * 5000, b"c" * 16384]
    for sender, receiver in ((client, server), (server, client)):
        pieces = sender.encrypt(parts)
        assert b"header" not in b"".join(pieces)
        for piece in pieces:
            receiver.feed(piece)
        whole = b"".join(parts)
        assert read(receiver, len(whole)) == whole
        assert receiver.read_into(memoryview(bytearray(1))) == 0


def test_small_parts_share_a_record() -> None:
    client, _ = connected()
    assert len(client.encrypt([b"x" * 22, b"y" * 8] * 50)) == 1


def test_a_changed_byte_is_noticed() -> None:
    client, server = connected()
    data = bytearray(b"".join(client.encrypt([b"x" * 100])))
    data[50] ^= 1
    server.feed(data)
    with pytest.raises(PeerError, match="broken or changed on its way"):
        read(server, 100)


@pytest.mark.parametrize("is_stranger_server", [False, True])
def test_another_generation_is_not_trusted(is_stranger_server: bool) -> None:
    strange = new_credentials(Encryption.TLS)
    client = TlsStream(CREDENTIALS if is_stranger_server else strange, is_server=False)
    server = TlsStream(strange if is_stranger_server else CREDENTIALS, is_server=True)
    to_client = b""
    with pytest.raises(PeerError, match="does not have the certificate of this job"):  # noqa: PT012
        for _ in range(3):
            to_client = server.handshake(client.handshake(to_client))


def test_a_client_without_a_certificate_is_not_trusted() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = context.wrap_bio(incoming, outgoing), TlsStream(CREDENTIALS, is_server=True)
    with pytest.raises(PeerError, match="certificate"):  # noqa: PT012
        for _ in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
            incoming.write(server.handshake(outgoing.read()))


def test_keys_are_on_no_disk_and_no_descriptor_is_left() -> None:
    before = set(os.listdir("/proc/self/fd"))
    fresh = new_credentials(Encryption.TLS)
    for is_server in (False, True):
        context = tls_context(fresh, is_server=is_server)
        assert context is tls_context(fresh, is_server=is_server), "made once"
    assert set(os.listdir("/proc/self/fd")) == before
    assert not any(Path("/tmp").glob("*snapline*.pem"))


@pytest.mark.parametrize("header", [b"GET /", b"\x16\x03\x01\xff\xff"])
def test_something_else_than_tls_is_refused_by_its_first_bytes(header: bytes) -> None:
    assert len(header) == TLS_HEADER_BYTES
    with pytest.raises(PeerError, match="does not speak TLS"):
        record_length(header)
