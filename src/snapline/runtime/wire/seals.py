"""Codes that show whether the parts of a connection arrive unchanged, complete and in order.

Each part of a message, its header and its body, is followed by a tag: a MAC over the part and its number in its
direction. The directions have different keys, so a part cannot be changed, repeated, moved, left out or sent back
without being noticed. The header has a tag of its own because nobody may act on a length that was changed.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

from snapline.errors import PeerError

TAG_BYTES = 16

Buffer: TypeAlias = bytes | bytearray | memoryview


class Mac(IntEnum):
    """Algorithms, the slowest first; the values are bits of the offer in a handshake."""

    HMAC_SHA256 = 1
    """In every Python."""

    AES_GMAC = 2
    """Three times as fast; needs the package cryptography."""


try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    KNOWN = int(Mac.HMAC_SHA256)
else:
    KNOWN = Mac.HMAC_SHA256 | Mac.AES_GMAC
"""The algorithms this process can use, as bits."""


def best(offered: int, known: int = KNOWN) -> Mac:
    """The fastest algorithm both ends can use. Raises `PeerError` if there is none."""
    for mac in reversed(Mac):
        if offered & known & mac:
            return mac
    raise PeerError("the other end offers no algorithm for message codes that this one knows")


class Seals:
    """The tags of both directions of one connection. One thread at a time may send, and one receive."""

    def __init__(self, mac: Mac, sending_key: bytes, receiving_key: bytes) -> None:
        self._sent = _tagger(mac, sending_key)
        self._received = _tagger(mac, receiving_key)

    def tag(self, part: Buffer) -> bytes:
        """The tag to send after the next part."""
        return self._sent(part)

    def check(self, part: Buffer, tag: Buffer) -> None:
        """Raises `PeerError` unless `part` is what the other end sent next."""
        if not hmac.compare_digest(self._received(part), tag):
            raise PeerError(
                "a message was changed, repeated or left out on its way; the network between the processes of the job "
                "damages data, or somebody interferes"
            )


def _tagger(mac: Mac, key: bytes) -> Callable[[Buffer], bytes]:
    """A function that returns the tag of the next part."""
    number = 0
    if mac is Mac.AES_GMAC:
        encrypt = AESGCM(key).encrypt

        def gmac(part: Buffer) -> bytes:
            nonlocal number
            number += 1
            return encrypt(number.to_bytes(12, "big"), b"", part)

        return gmac
    start = hmac.new(key, digestmod="sha256")

    def hmac_sha256(part: Buffer) -> bytes:
        nonlocal number
        number += 1
        code = start.copy()
        code.update(number.to_bytes(12, "big"))
        code.update(part)
        return code.digest()[:TAG_BYTES]

    return hmac_sha256
