from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import applied, values

NUMBERS = pa.array([1, 123, 32768, 32769, 0, -1, -32769, -(2**63), None])


def test_positions() -> None:
    expected = [0, 122, 32767, 0, 0, 1, 1, 0, None]
    assert values(applied("BitmapBitPosition", pa.int64(), NUMBERS), NUMBERS) == expected


def test_buckets() -> None:
    expected = [1, 1, 1, 2, 0, 0, -1, -(2**48), None]
    assert values(applied("BitmapBucketNumber", pa.int64(), NUMBERS), NUMBERS) == expected


def test_bits_that_are_set() -> None:
    bitmaps = pa.array([b"\x10\x10", b"", b"\xff" * 40, None])
    assert values(applied("BitmapCount", pa.int64(), bitmaps), bitmaps) == [2, 0, 320, None]
