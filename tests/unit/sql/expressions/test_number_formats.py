"""Number formats. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.text_kit import answer

from snapline.sql.expressions.number_formats import NumberFormat

GIVES: Mapping[str, pa.DataType] = {}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('FormatNumber', (0.5, '$#,##0.0'), {}, '$0.5'),
    ('FormatNumber', (1e+20, '#,##0.00'), {}, '100,000,000,000,000,000,000.00'),
    ('FormatNumber', (1, '0.0'), {}, '1.0'),
    ('FormatNumber', (0.125, '#.##'), {}, '0.12'),
    ('FormatNumber', (math.nan, '#,##0.00'), {}, 'NaN'),
    ('FormatNumber', (pa.scalar(1.100000023841858, pa.float32()), 1), {}, '1.1'),
    ('FormatNumber', (1.5, '0.0'), {}, '1.5'),
    ('FormatNumber', (1234567.891, ''), {}, '1,234,568'),
    ('FormatNumber', (-1234567, 10), {}, '-1,234,567.0000000000'),
    ('FormatNumber', (1e+20, '#.##'), {}, '100000000000000000000'),
    ('FormatNumber', (-math.inf, 0), {}, '-∞'),
    ('FormatNumber', (1234567.891, '$#,##0.0'), {}, '$1,234,567.9'),
    ('FormatNumber', (-1234567, '$#,##0.0'), {}, '-$1,234,567.0'),
    ('FormatNumber', (pa.scalar(9223372036854775807, pa.int64()), '$#,##0.0'), {}, '$9,223,372,036,854,775,807.0'),
    ('FormatNumber', (1e+20, '#,###'), {}, '100,000,000,000,000,000,000'),
    ('FormatNumber', (math.nan, -1), {}, None),
    ('FormatNumber', (1.005, '#,###'), {}, '1'),
    ('FormatNumber', (1.005, '0.0'), {}, '1.0'),
    ('FormatNumber', (1234567.891, '#,###'), {}, '1,234,568'),
    ('FormatNumber', (-0.001, '$#,##0.0'), {}, '-$0.0'),
    ('FormatNumber', (2.5, '000'), {}, '002'),
    ('FormatNumber', (1.5, ''), {}, '2'),
    ('FormatNumber', (0.125, 10), {}, '0.1250000000'),
    ('FormatNumber', (-1234567, '#,##0.00'), {}, '-1,234,567.00'),
    ('FormatNumber', (2.5, -1), {}, None),
    ('FormatNumber', (pa.scalar(Decimal('12345.6789'), pa.decimal128(9, 4)), '#,###'), {}, '12,346'),
    ('FormatNumber', (math.nan, '#,###'), {}, 'NaN'),
    ('FormatNumber', (pa.scalar(Decimal('12345.6789'), pa.decimal128(9, 4)), '#.##'), {}, '12345.68'),
    ('FormatNumber', (-0.001, 10), {}, '-0.0010000000'),
    ('FormatNumber', (-0.001, -1), {}, None),
    ('FormatNumber', (1234567.891, 0), {}, '1,234,568'),
    ('FormatNumber', (0, '#.##'), {}, '0'),
    ('FormatNumber', (-1234567, '#.##'), {}, '-1234567'),
    ('FormatNumber', (0, 1), {}, '0.0'),
    ('FormatNumber', (1.005, ''), {}, '1'),
    ('FormatNumber', (0.5, -1), {}, None),
    ('FormatNumber', (-0.0, '0.0'), {}, '-0.0'),
    ('FormatNumber', (pa.scalar(1.100000023841858, pa.float32()), '#,##0.00'), {}, '1.10'),
    ('FormatNumber', (1234567.891, 4), {}, '1,234,567.8910'),
    ('FormatNumber', (0.5, 4), {}, '0.5000'),
    ('FormatNumber', (1.005, 10), {}, '1.0050000000'),
    ('FormatNumber', (-0.0, 1), {}, '-0.0'),
    ('FormatNumber', (pa.scalar(9223372036854775807, pa.int64()), 1), {}, '9,223,372,036,854,775,807.0'),
    ('FormatNumber', (pa.scalar(Decimal('12345.6789'), pa.decimal128(9, 4)), ''), {}, '12,346'),
    ('FormatNumber', (1.5, '$#,##0.0'), {}, '$1.5'),
    ('FormatNumber', (1.5, 2), {}, '1.50'),
    ('FormatNumber', (1, 2), {}, '1.00'),
    ('FormatNumber', (1e+20, ''), {}, '100,000,000,000,000,000,000'),
    ('FormatNumber', (pa.scalar(Decimal('12345.6789'), pa.decimal128(9, 4)), '$#,##0.0'), {}, '$12,345.7'),
    ('FormatNumber', (-0.0, 2), {}, '-0.00'),
    ('FormatNumber', (math.nan, '#.##'), {}, 'NaN'),
    ('FormatNumber', (-0.0, '#,###'), {}, '-0'),
    ('FormatNumber', (1234567.891, '0.0'), {}, '1234567.9'),
    ('FormatNumber', (-1234567, 0), {}, '-1,234,567'),
    ('FormatNumber', (pa.scalar(1.100000023841858, pa.float32()), 2), {}, '1.10'),
    ('FormatNumber', (pa.scalar(Decimal('12345.6789'), pa.decimal128(9, 4)), 1), {}, '12,345.7'),
    ('FormatNumber', (-0.001, 2), {}, '-0.00'),
    ('FormatNumber', (-1234567, '000'), {}, '-1234567'),
    ('FormatNumber', (1.005, 1), {}, '1.0'),
    ('FormatNumber', (-0.001, '#,###'), {}, '-0'),
    ('FormatNumber', (pa.scalar(1.100000023841858, pa.float32()), '#.##'), {}, '1.1'),
    ('FormatNumber', (1.005, -1), {}, None),
    ('FormatNumber', (1.005, 0), {}, '1'),
    ('FormatNumber', (-0.001, 0), {}, '-0'),
    ('FormatNumber', (-0.001, '#,##0.00'), {}, '-0.00'),
    ('FormatNumber', (pa.scalar(9223372036854775807, pa.int64()), '#.##'), {}, '9223372036854775807'),
    ('FormatNumber', (pa.scalar(9223372036854775807, pa.int64()), '#,##0.00'), {}, '9,223,372,036,854,775,807.00'),
    ('FormatNumber', (1, ''), {}, '1'),
    ('FormatNumber', (1234567.891, '000'), {}, '1234568'),
    ('FormatNumber', (pa.scalar(1.100000023841858, pa.float32()), ''), {}, '1'),
    ('FormatNumber', (-0.001, ''), {}, '-0'),
    ('FormatNumber', (1.5, '#.##'), {}, '1.5'),
    ('FormatNumber', (1, '$#,##0.0'), {}, '$1.0'),
    ('FormatNumber', (-math.inf, 10), {}, '-∞'),
    ('FormatNumber', (-0.001, 4), {}, '-0.0010'),
    ('FormatNumber', (0, 4), {}, '0.0000'),
    ('FormatNumber', (-math.inf, '000'), {}, '-∞'),
    ('FormatNumber', (1e+20, 2), {}, '100,000,000,000,000,000,000.00'),
    ('FormatNumber', (0, '#,##0.00'), {}, '0.00'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, values: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *values, gives=GIVES.get(kind), **arguments) == expected


def test_usual_numbers_are_rounded_as_all_others_are() -> None:
    for number in (0.005, 1234.5, 0.125, 2.675, 999999.995, -0.0049, 1.005, 8.5, 9999999.5):
        for places in (0, 2, 3):
            exact = NumberFormat(1, places, places, 3, before="|").text(number).replace("|", "")
            assert NumberFormat(1, places, places, 3).text(number) == exact
