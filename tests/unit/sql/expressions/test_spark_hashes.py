"""Spark's hashes. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.text_kit import answer

GIVES: Mapping[str, pa.DataType] = {
    "Murmur3Hash": pa.int32(),
    "XxHash64": pa.int64(),
}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('Murmur3Hash', (1, pa.scalar(1, pa.int64()), 'z'), {"seed": 42}, -447036458),
    ('Murmur3Hash', (1, pa.scalar(1.5, pa.float32()), 'z'), {"seed": 42}, -1365398906),
    ('Murmur3Hash', (pa.scalar(Decimal('1.25'), pa.decimal128(3, 2)),), {"seed": 42}, 1910520950),
    ('Murmur3Hash', (1, pa.scalar(Decimal('1.25'), pa.decimal128(3, 2)), 'z'), {"seed": 42}, -360741992),
    ('Murmur3Hash', (b'\x80\xff',), {"seed": 42}, 1952144757),
    ('Murmur3Hash', ('abcdefg',), {"seed": 42}, 2132013596),
    ('Murmur3Hash', (1, True, 'z'), {"seed": 42}, -1067754420),
    ('Murmur3Hash', (1, 0.0, 'z'), {"seed": 42}, -1713516937),
    ('Murmur3Hash', (1, '123456789012', 'z'), {"seed": 42}, 1261921670),
    ('Murmur3Hash', ('',), {"seed": 42}, 142593372),
    ('Murmur3Hash', (pa.scalar(1, pa.int8()),), {"seed": 42}, -559580957),
    ('Murmur3Hash', (True,), {"seed": 42}, -559580957),
    ('Murmur3Hash', ('a long text with more than thirty-two bytes in it, yes',), {"seed": 42}, 1255962734),
    ('Murmur3Hash', (1,), {"seed": 42}, -559580957),
    ('Murmur3Hash', (1, 'abcdefg', 'z'), {"seed": 42}, -43059577),
    ('Murmur3Hash', (math.nan,), {"seed": 42}, -1281358385),
    ('Murmur3Hash', (b'\xff\x00',), {"seed": 42}, 266084350),
    ('Murmur3Hash', (1, -0.0, 'z'), {"seed": 42}, -1713516937),
    ('Murmur3Hash', (1, 1, 'z'), {"seed": 42}, -1067754420),
    ('Murmur3Hash', ('é😀',), {"seed": 42}, -694179141),
    ('Murmur3Hash', (1.5,), {"seed": 42}, 1290763749),
    ('Murmur3Hash', (1, 1.5, 'z'), {"seed": 42}, 511077623),
    ('Murmur3Hash', (-0.0,), {"seed": 42}, -1670924195),
    ('Murmur3Hash', ('12345678',), {"seed": 42}, 2036199019),
    ('Murmur3Hash', (pa.scalar(1, pa.int64()),), {"seed": 42}, -1712319331),
    ('Murmur3Hash', (1, b'\x80\xff', 'z'), {"seed": 42}, -247239085),
    ('Murmur3Hash', (1, pa.scalar(None, pa.string()), 'z'), {"seed": 42}, 1768728021),
    ('Murmur3Hash', (pa.scalar(1, pa.int16()),), {"seed": 42}, -559580957),
    ('Murmur3Hash', (pa.scalar(1.5, pa.float32()),), {"seed": 42}, -221251528),
    ('Murmur3Hash', (1, pa.scalar(1, pa.int8()), 'z'), {"seed": 42}, -1067754420),
    ('XxHash64', (b'\x80\xff',), {"seed": 42}, 2208782043532569001),
    ('XxHash64', (1, 'abcdefg', 'z'), {"seed": 42}, 7562730033846802434),
    ('XxHash64', (True,), {"seed": 42}, -6698625589789238999),
    ('XxHash64', (1, pa.scalar(None, pa.string()), 'z'), {"seed": 42}, -6830958162285171219),
    ('XxHash64', (1, '123456789012', 'z'), {"seed": 42}, 518365662206215706),
    ('XxHash64', ('abc',), {"seed": 42}, 1423657621850124518),
    ('XxHash64', (1, True, 'z'), {"seed": 42}, 7680363474180493127),
    ('XxHash64', ('abcdefg',), {"seed": 42}, 3761890393722740389),
    ('XxHash64', ('12345678',), {"seed": 42}, 6863040065134489090),
    ('XxHash64', (pa.scalar(None, pa.string()),), {"seed": 42}, 42),
    ('XxHash64', (1, '12345678', 'z'), {"seed": 42}, -9197221542838626252),
    ('XxHash64', (1, pa.scalar(1, pa.int16()), 'z'), {"seed": 42}, 7680363474180493127),
    ('XxHash64', (0.0,), {"seed": 42}, -5252525462095825812),
    ('XxHash64', (pa.scalar(Decimal('1.25'), pa.decimal128(3, 2)),), {"seed": 42}, 2287599437899865974),
    ('XxHash64', (1, 0.0, 'z'), {"seed": 42}, -6573712350767510841),
    ('XxHash64', ('abcde',), {"seed": 42}, -990457398947679591),
    ('XxHash64', (1, pa.scalar(1, pa.int64()), 'z'), {"seed": 42}, -4840621316366396184),
    ('XxHash64', (1, 'abcde', 'z'), {"seed": 42}, 5487076603660839951),
    ('XxHash64', (1, math.nan, 'z'), {"seed": 42}, -1663160382722045561),
    ('XxHash64', (1, b'\x80\xff', 'z'), {"seed": 42}, -5625148313414103442),
    ('XxHash64', (pa.scalar(1, pa.int16()),), {"seed": 42}, -6698625589789238999),
    ('XxHash64', (1, pa.scalar(1, pa.int8()), 'z'), {"seed": 42}, 7680363474180493127),
    ('XxHash64', (1, 1.5, 'z'), {"seed": 42}, 8138391219199660810),
    ('XxHash64', (1.5,), {"seed": 42}, 7738255526519901366),
    ('XxHash64', (1, pa.scalar(1.5, pa.float32()), 'z'), {"seed": 42}, -3144984153501513121),
    ('XxHash64', (1, pa.scalar(Decimal('1.25'), pa.decimal128(3, 2)), 'z'), {"seed": 42}, 7756057785064316505),
    ('XxHash64', ('a long text with more than thirty-two bytes in it, yes',), {"seed": 42}, -440382486949872622),
    ('XxHash64', (math.nan,), {"seed": 42}, -3127944061524951246),
    ('XxHash64', (-0.0,), {"seed": 42}, -5252525462095825812),
    ('XxHash64', (pa.scalar(1.5, pa.float32()),), {"seed": 42}, 6163473420726370430),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, values: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *values, gives=GIVES.get(kind), **arguments) == expected


def test_decimals_with_many_digits_are_hashed_whole() -> None:
    value = pa.scalar(Decimal("99999999999999999999.999999999999999999"), pa.decimal128(38, 18))
    assert answer("Murmur3Hash", value, -(2**31), gives=pa.int32(), seed=42) == -1985578894
