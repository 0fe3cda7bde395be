"""Expected values are what `Double.toString` and `Float.toString` of Java 17 give."""

from __future__ import annotations

import random
import struct

import pytest

from snapline.sql.expressions.java_digits import double_digits, float_digits


@pytest.mark.parametrize(
    ("value", "digits", "point"),
    [
        (1.5, "15", 1),
        (100.0, "1", 3),
        (0.01, "1", -1),
        (2e23, "19999999999999998", 24),
        (1e23, "9999999999999999", 23),
        (5e-324, "49", -323),
        (2.2250738585072014e-308, "22250738585072014", -307),
        (1.3580246791358026e17, "135802467913580256", 18),
        (2.8800000000000003e25, "28800000000000002", 26),
        (5.8506920081679085e25, "58506920081679085", 26),
        (9007199254740993.0, "9007199254740992", 16),
    ],
)
def test_doubles(value: float, digits: str, point: int) -> None:
    assert double_digits(value) == (digits, point)


@pytest.mark.parametrize(
    ("value", "digits", "point"),
    [
        (1.1754943508222875e-38, "117549435", -37),
        (32999999488.0, "329999995", 11),
        (6.496818286069405e25, "64968182", 26),
        (-0.0 + 2.0**31, "214748365", 10),
        (1.401298464324817e-45, "14", -44),
    ],
)
def test_floats(value: float, digits: str, point: int) -> None:
    assert float_digits(value) == (digits, point)


def test_digits_tell_a_double_from_all_others() -> None:
    generator = random.Random(3)
    for _ in range(2000):
        (value,) = struct.unpack(
            "<d", struct.pack("<Q", generator.getrandbits(52) | generator.randrange(1, 2046) << 52)
        )
        digits, point = double_digits(value)
        assert float(f"0.{digits}e{point}") == value
