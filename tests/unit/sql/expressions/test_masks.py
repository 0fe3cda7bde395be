"""Masks. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.text_kit import answer

GIVES: Mapping[str, pa.DataType] = {
    "Luhncheck": pa.bool_(),
}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('Mask', ('٣', '😀', 'y', pa.scalar(None, pa.string()), pa.scalar(None, pa.string())), {}, '٣'),
    ('Mask', ('AbC-123 é😀Ä', 'Q', 'q', 'd', 'o'), {}, 'QqQodddoqoQ'),
    ('Luhncheck', ('79927398714',), {}, False),
    ('Luhncheck', ('',), {}, False),
    ('Luhncheck', ('٣',), {}, False),
    ('Luhncheck', ('4111111111111111',), {}, True),
    ('Luhncheck', ('a',), {}, False),
    ('Luhncheck', ('0',), {}, True),
    ('Luhncheck', ('79927398713',), {}, True),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, values: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *values, gives=GIVES.get(kind), **arguments) == expected
