"""Digests. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, condition, values
from tests.text_kit import answer

GIVES: Mapping[str, pa.DataType] = {
    "Crc32": pa.int64(),
}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('Md5', (b'\xff\x00',), {}, 'e0e8bfafbb0689563b2fba789c97b3cc'),
    ('Md5', (b'a long text with more than thirty-two bytes in it, yes',), {}, '9bae46c5195446fec28155ab9e8412ba'),
    ('Md5', (b'\xc3\xa9\xf0\x9f\x98\x80',), {}, '62b3afe3b01f6f80152b567d9b216cde'),
    ('Md5', (b'abc',), {}, '900150983cd24fb0d6963f7d28e17f72'),
    ('Md5', (b'',), {}, 'd41d8cd98f00b204e9800998ecf8427e'),
    ('Sha1', (b'\xc3\xa9\xf0\x9f\x98\x80',), {}, '9c286deb5d7549eafd1dcb2b58e0b573bc1b4a97'),
    ('Sha1', (b'abc',), {}, 'a9993e364706816aba3e25717850c26c9cd0d89d'),
    ('Sha1', (b'',), {}, 'da39a3ee5e6b4b0d3255bfef95601890afd80709'),
    ('Sha1', (b'\xff\x00',), {}, 'da33e41954997c24ad31f6c1845e18510b384f67'),
    ('Sha2', (b'\xff\x00', 1), {}, None),
    ('Sha2', (b'', 256), {}, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'),
    ('Sha2', (b'a long text with more than thirty-two bytes in it, yes', 1), {}, None),
    ('Sha2', (b'abc', 224), {}, '23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7'),
    ('Sha2', (b'\xff\x00', 256), {}, 'ea5dbf9596d187e9500f23e9a680109475341cf4e81f7e043f7d97152c10772f'),
    ('Sha2', (b'abc', 1), {}, None),
    ('Crc32', (b'abc',), {}, 891568578),
    ('Crc32', (b'',), {}, 0),
    ('Crc32', (b'a long text with more than thirty-two bytes in it, yes',), {}, 2313026231),
    ('Crc32', (b'\xff\x00',), {}, 3539857293),
    ('Crc32', (b'\xc3\xa9\xf0\x9f\x98\x80',), {}, 2139118086),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, values: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *values, gives=GIVES.get(kind), **arguments) == expected


def test_codes_with_a_key() -> None:
    keys, messages = pa.array([b"key", None]), pa.array([b"message", b"message"])
    code = applied("Hmac", pa.binary(), keys, messages)
    assert [value and value.hex()[:16] for value in values(code, keys, messages)] == ["6e9ef29b75fffc5b", None]
    empty = pa.array([b"", b"x"])
    assert condition(applied("Hmac", pa.binary(), empty, messages), empty, messages).endswith("HMAC_CRYPTO_ERROR")
