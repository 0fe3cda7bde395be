"""Texts whose characters are hidden or checked by their kind."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pyarrow as pa

from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.rowwise import python_value, rowwise
from snapline.sql.plans.trees import Expression


@kernel("Mask", reads_all=True)
def _mask(_expression: Expression) -> Kernel:
    def run(values: Sequence[Value], rows: int) -> Value:
        kinds = ("Lu", "Ll", "Nd", None)
        given = [
            python_value(value) if isinstance(value, pa.Scalar) else python_value(value[0]) for value in values[1:]
        ]
        replacements = dict(zip(kinds, given, strict=True))
        return rowwise(lambda text: masked(text, replacements), pa.string())(values[:1], rows)

    return run


def masked(text: str, replacements: dict[str | None, str | None]) -> str:
    """Each character replaced by what stands for its category, or under None for all others; None keeps it."""
    other = replacements[None]
    return "".join(replacements.get(unicodedata.category(char), other) or char for char in text)


@kernel("Luhncheck")
def _luhn_check(_expression: Expression) -> Kernel:
    return rowwise(passes_luhn, pa.bool_())


def passes_luhn(text: str) -> bool:
    """Whether it is a number whose last digit fits the others by Luhn's rule."""
    if not text or any(unicodedata.category(char) != "Nd" for char in text):
        return False
    digits = [unicodedata.digit(char) for char in reversed(text)]
    doubled = [digit * 2 for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(number % 10 + number // 10 for number in doubled)) % 10 == 0
