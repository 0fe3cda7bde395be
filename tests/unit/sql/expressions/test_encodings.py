"""Encodings. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.text_kit import Raised, answer

GIVES: Mapping[str, pa.DataType] = {
    "Encode": pa.binary(),
    "UnBase64": pa.binary(),
}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('Encode', ('abc', 'windows-1252'), {}, Raised("INVALID_PARAMETER_VALUE.CHARSET")),
    ('Encode', ('é', 'ISO-8859-1'), {}, b'\xe9'),
    ('Encode', ('😀', 'UTF-16BE'), {}, b'\xd8=\xde\x00'),
    ('Encode', ('abc', 'utf-8'), {}, b'abc'),
    ('Encode', ('é', 'UTF-16'), {}, b'\xfe\xff\x00\xe9'),
    ('Encode', ('😀', 'UTF-8'), {}, b'\xf0\x9f\x98\x80'),
    ('Encode', ('😀', 'windows-1252'), {}, Raised("INVALID_PARAMETER_VALUE.CHARSET")),
    ('Encode', ('é', 'xx'), {}, Raised("INVALID_PARAMETER_VALUE.CHARSET")),
    ('Encode', ('', 'UTF-16'), {}, b''),
    ('Encode', ('', 'UTF-16BE'), {}, b''),
    ('Encode', ('abc', 'UTF-16BE'), {}, b'\x00a\x00b\x00c'),
    ('Encode', ('é', 'UTF-32'), {}, b'\x00\x00\x00\xe9'),
    ('Encode', ('é', 'UTF-16BE'), {}, b'\x00\xe9'),
    ('Encode', ('é', 'US-ASCII'), {}, Raised("MALFORMED_CHARACTER_CODING")),
    ('Encode', ('', 'utf-8'), {}, b''),
    ('Encode', ('é', 'windows-1252'), {}, Raised("INVALID_PARAMETER_VALUE.CHARSET")),
    ('Encode', ('abc', 'xx'), {}, Raised("INVALID_PARAMETER_VALUE.CHARSET")),
    ('Encode', ('😀', 'xx'), {}, Raised("INVALID_PARAMETER_VALUE.CHARSET")),
    ('Encode', ('', 'UTF-16LE'), {}, b''),
    ('Encode', ('😀', 'UTF-16LE'), {}, b'=\xd8\x00\xde'),
    ('Encode', ('abc', 'UTF-16LE'), {}, b'a\x00b\x00c\x00'),
    ('Encode', ('😀', 'ISO-8859-1'), {}, Raised("MALFORMED_CHARACTER_CODING")),
    ('Encode', ('😀', 'utf-8'), {}, b'\xf0\x9f\x98\x80'),
    ('Encode', ('abc', 'UTF-16'), {}, b'\xfe\xff\x00a\x00b\x00c'),
    ('Encode', ('abc', 'ISO-8859-1'), {}, b'abc'),
    ('Encode', ('abc', 'US-ASCII'), {}, b'abc'),
    ('Encode', ('', 'ISO-8859-1'), {}, b''),
    ('Encode', ('', 'US-ASCII'), {}, b''),
    ('Encode', ('é', 'utf-8'), {}, b'\xc3\xa9'),
    ('Encode', ('é', 'UTF-16LE'), {}, b'\xe9\x00'),
    ('Base64', (b'',), {}, ''),
    ('Base64', (b'\xc3\xa9\xf0\x9f\x98\x80',), {}, 'w6nwn5iA'),
    ('Base64', (b'\xff\x00',), {}, '/wA='),
    ('Base64', (b'abc',), {}, 'YWJj'),
    ('UnBase64', ('é',), {}, b''),
    ('UnBase64', ('YWJjYQ==',), {}, b'abca'),
    ('UnBase64', ('',), {}, b''),
    ('UnBase64', ('YWI=',), {}, b'ab'),
    ('UnBase64', ('YW?Jj',), {}, b'abc'),
    ('UnBase64', ('YWJj\r\nYWJj',), {}, b'abcabc'),
    ('UnBase64', ('YW',), {}, b'a'),
    ('UnBase64', ('Y W J j',), {}, b'abc'),
    ('UnBase64', ('YWJ',), {}, b'ab'),
    ('UnBase64', ('YWJj',), {}, b'abc'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, values: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *values, gives=GIVES.get(kind), **arguments) == expected
