"""Checksums and cryptographic digests."""

from __future__ import annotations

import hashlib
import hmac
import zlib

import pyarrow as pa

from snapline.sql.expressions.registry import Kernel, SparkError, UnsupportedError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

_SHA2 = {0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}
_HMAC = {f"SHA-{bits}": f"sha{bits}" for bits in (1, 224, 256, 384, 512)} | {"MD5": "md5"}
_NAMES = ", ".join(sorted(_HMAC))


@kernel("Md5")
def _md5(_expression: Expression) -> Kernel:
    return rowwise(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(), pa.string())


@kernel("Sha1")
def _sha1(_expression: Expression) -> Kernel:
    return rowwise(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest(), pa.string())


@kernel("Sha2")
def _sha2(_expression: Expression) -> Kernel:
    """Null for a number of bits that there is no SHA-2 of."""
    return rowwise(lambda data, bits: _SHA2[bits](data).hexdigest() if bits in _SHA2 else None, pa.string())


@kernel("Hmac", reads_all=True)
def _hmac(expression: Expression) -> Kernel:
    def compute(key: bytes, message: bytes, algorithm: str = "SHA-256") -> bytes:
        name = _HMAC.get(algorithm.upper())
        if name is None:
            raise UnsupportedError(f"hmac with {algorithm} is not supported: {expression.text}; write one of {_NAMES}")
        if not key:
            raise SparkError("INVALID_PARAMETER_VALUE.HMAC_CRYPTO_ERROR", "The key of hmac is empty.")
        return hmac.digest(key, message, name)

    return rowwise(compute, pa.binary())


@kernel("Crc32")
def _crc32(_expression: Expression) -> Kernel:
    return rowwise(zlib.crc32, pa.int64())
