"""Templates. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.text_kit import Raised, answer

GIVES: Mapping[str, pa.DataType] = {}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), 'MI99'), {}, '-##'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '999'), {}, '###'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '99S'), {}, '##-'),
    ('ToCharacter', (pa.scalar(Decimal('12.5'), pa.decimal128(3, 1)), '999'), {}, '###'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '99'), {}, '##'),
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), '00.00'), {}, '12.55'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '9G999'), {}, '# ###'),
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), '99'), {}, '##'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), 'S99'), {}, '+##'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '99'), {}, '##'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '9,999.99'), {}, '1,234.56'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '00.00'), {}, '00.50'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '999PR'), {}, '###  '),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '$99.9'), {}, '$ 0.5'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '999.9'), {}, '  0.5'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '00.00'), {}, '##.##'),
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), '9,999'), {}, '# ###'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '9,999.99'), {}, '    0.50'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '9,999'), {}, '# ###'),
    ('ToCharacter', (pa.scalar(Decimal('12.5'), pa.decimal128(3, 1)), '999PR'), {}, '###  '),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), 'S99'), {}, '+##'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '99MI'), {}, '## '),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '999D99'), {}, '  0.50'),
    ('ToCharacter', (pa.scalar(Decimal('12.5'), pa.decimal128(3, 1)), '99MI'), {}, '## '),
    ('ToCharacter', (pa.scalar(Decimal('12.5'), pa.decimal128(3, 1)), '9G999'), {}, '# ###'),
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), '999PR'), {}, '<###>'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '999D99'), {}, '###.##'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '$99.9'), {}, '$##.#'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '9G999'), {}, '# ###'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), 'MI99'), {}, ' ##'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), '999.9'), {}, '###.#'),
    ('ToCharacter', (pa.scalar(Decimal('1234.56'), pa.decimal128(6, 2)), 'S$999.9'), {}, '+$###.#'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '99MI'), {}, '## '),
    ('ToCharacter', (pa.scalar(Decimal('12.5'), pa.decimal128(3, 1)), 'S99'), {}, '+##'),
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), '99S'), {}, '##-'),
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), '9G999'), {}, '# ###'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '0000'), {}, '####'),
    ('ToCharacter', (pa.scalar(Decimal('12.5'), pa.decimal128(3, 1)), '999D99'), {}, ' 12.50'),
    ('ToCharacter', (pa.scalar(Decimal('-12.55'), pa.decimal128(4, 2)), '$99.9'), {}, '$##.#'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '0000'), {}, '####'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), 'MI99'), {}, ' ##'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '$99.9'), {}, '$ 0.5'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '99'), {}, '##'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), '999PR'), {}, '<###>'),
    ('ToCharacter', (pa.scalar(Decimal('12.5'), pa.decimal128(3, 1)), '9,999'), {}, '# ###'),
    ('ToCharacter', (pa.scalar(Decimal('0.5'), pa.decimal128(1, 1)), '999.9'), {}, '  0.5'),
    ('ToCharacter', (pa.scalar(Decimal('-0.5'), pa.decimal128(1, 1)), 'S$999.9'), {}, '-$  0.5'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, values: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *values, gives=GIVES.get(kind), **arguments) == expected


def test_blanks_are_those_of_java() -> None:
    type = pa.decimal128(3, 0)
    assert answer("ToNumber", " 5", "999", gives=type) == Decimal(5)
    assert answer("ToNumber", "\u00a05", "999", gives=type) == Raised("INVALID_FORMAT.MISMATCH_INPUT")
    assert answer("TryToNumber", "\u00a05", "999", gives=type) is None
