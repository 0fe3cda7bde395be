"""What protects the parts of a connection: they arrive unchanged, complete and in order, and unread if asked for.

Each part of a message, its header and its body, is followed by a tag: a MAC over the part and its number in its
direction. The directions have different keys, so a part cannot be changed, repeated, moved, left out or sent back
without being noticed. The header has a tag of its own because nobody may act on a length that was changed.
"""

from __future__ import annotations

import hmac
import itertools
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
    """Three times as fast, and can encrypt as well; needs the package cryptography."""


try:
    from cryptography.exceptions import InvalidTag
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
    """Protects both directions of one connection. One thread at a time may send, and one receive.

    With `is_secret` the parts are encrypted too, with AES-GCM.
    """

    def __init__(self, mac: Mac, sending_key: bytes, receiving_key: bytes, *, is_secret: bool = False) -> None:
        assert mac is Mac.AES_GMAC or not is_secret
        self._sender = _Cipher(sending_key) if is_secret else _Tagger(mac, sending_key)
        self._receiver = _Cipher(receiving_key) if is_secret else _Tagger(mac, receiving_key)

    def seal(self, part: Buffer) -> list[Buffer]:
        """What to send for the next part: `TAG_BYTES` more than it has."""
        return self._sender.seal(part)

    def open(self, sealed: memoryview) -> Buffer:
        """Returns the part that was sealed. Raises `PeerError` unless it is what the other end sent next."""
        part = self._receiver.open(sealed)
        if part is None:
            raise PeerError(
                "a message was changed, repeated or left out on its way; the network between the processes of the job "
                "damages data, or somebody interferes"
            )
        return part


class _Cipher:
    """Encrypts or decrypts one part after the other."""

    def __init__(self, key: bytes) -> None:
        self._aes = AESGCM(key)
        self._numbers = itertools.count(1)

    def _nonce(self) -> bytes:
        return next(self._numbers).to_bytes(12, "big")

    def seal(self, part: Buffer) -> list[Buffer]:
        return [self._aes.encrypt(self._nonce(), part, None)]

    def open(self, sealed: memoryview) -> Buffer | None:
        try:
            return self._aes.decrypt(self._nonce(), sealed, None)
        except InvalidTag:
            return None


class _Tagger:
    """Makes or checks the tags of one part after the other."""

    def __init__(self, mac: Mac, key: bytes) -> None:
        self._tag = _gmac(key) if mac is Mac.AES_GMAC else _hmac_sha256(key)

    def seal(self, part: Buffer) -> list[Buffer]:
        return [part, self._tag(part)]

    def open(self, sealed: memoryview) -> Buffer | None:
        part = sealed[:-TAG_BYTES]
        return part if hmac.compare_digest(self._tag(part), sealed[-TAG_BYTES:]) else None


def _gmac(key: bytes) -> Callable[[Buffer], bytes]:
    """A function that returns the tag of the next part."""
    encrypt, numbers = AESGCM(key).encrypt, itertools.count(1)
    return lambda part: encrypt(next(numbers).to_bytes(12, "big"), b"", part)


def _hmac_sha256(key: bytes) -> Callable[[Buffer], bytes]:
    """A function that returns the tag of the next part."""
    start, numbers = hmac.new(key, digestmod="sha256"), itertools.count(1)

    def tag(part: Buffer) -> bytes:
        code = start.copy()
        code.update(next(numbers).to_bytes(12, "big"))
        code.update(part)
        return code.digest()[:TAG_BYTES]

    return tag
