"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from snapline.sql.expressions import number_strings


@pytest.mark.parametrize(
    ("text", "expected"), [("12", 12), ("\t-7\n", -7), ("1.9", 1), ("1.", 1), ("", None), ("+", None), ("1e3", None)]
)
def test_integers_with_fractions(text: str, expected: int | None) -> None:
    assert number_strings.integer(text, 32, truncates=True) == expected


def test_integers_without_fractions() -> None:
    assert number_strings.integer("1.0", 32, truncates=False) is None
    assert number_strings.integer(" 5 ", 32, truncates=False) == 5
    assert number_strings.integer("2147483648", 32, truncates=False) is None
    assert number_strings.integer("١", 32, truncates=False) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.", 1.0), (".5", 0.5), ("1d", 1.0), ("1e400", math.inf), ("-INF", -math.inf), ("0x1p3", 8.0), ("1_0", None)],
)
def test_doubles(text: str, expected: float | None) -> None:
    assert number_strings.double(text) == expected


def test_words_for_infinity() -> None:
    assert number_strings.java_double("-Infinity") == -math.inf
    assert number_strings.java_double("inf") is None
    assert number_strings.double("inf") == math.inf


def test_nan() -> None:
    for text in ("NaN", "nan", " NaN "):
        value = number_strings.double(text)
        assert value is not None
        assert math.isnan(value)


def test_decimals() -> None:
    assert number_strings.decimal(" 1e-2 ") == Decimal("0.01")
    assert number_strings.decimal("NaN") is None
    assert number_strings.decimal("1d") is None


def test_words() -> None:
    assert [number_strings.boolean(word) for word in (" Yes ", "0", "on", "")] == [True, False, None, None]
