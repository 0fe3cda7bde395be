"""The decimal digits of floating-point numbers as Java 17 writes them.

Before Java 19, `Double.toString` wrote more digits than needed for some numbers: whole numbers beyond 53 bits are
written in full up to the last digit that their precision covers, at least two digits are made in scientific notation,
and below a power of two the distance to the next number is taken for twice as large as it is. Spark runs on Java 17.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Parts:
    """A positive number `fraction / 2**52 * 2**exponent`, with `1 <= fraction / 2**52 < 2`; `bits` are significant."""

    fraction: int
    exponent: int
    bits: int


def double_digits(value: float) -> tuple[str, int]:
    """Digits of a positive finite double and the place of the point: `("15", 1)` is 1.5, `("1", -1)` is 0.01."""
    (raw,) = struct.unpack("<q", struct.pack("<d", value))
    return _digits(_parts(raw & ((1 << 52) - 1), raw >> 52, 52, 1023))


def float_digits(value: float) -> tuple[str, int]:
    """The same for a single-precision number."""
    (raw,) = struct.unpack("<i", struct.pack("<f", value))
    return _digits(_parts(raw & ((1 << 23) - 1), raw >> 23, 23, 127))


def _parts(fraction: int, exponent: int, width: int, bias: int) -> _Parts:
    if exponent:
        return _Parts((fraction | 1 << width) << 52 - width, exponent - bias, width + 1)
    bits = fraction.bit_length()
    shift = width + 1 - bits
    return _Parts(fraction << shift + 52 - width, 1 - shift - bias, bits)


def _digits(number: _Parts) -> tuple[str, int]:
    tail = (number.fraction & -number.fraction).bit_length() - 1
    size = 53 - tail  # bits of the fraction that matter
    below = max(0, size - number.exponent - 1)  # bits to the right of the point
    if not below and number.exponent <= 62:
        return _whole_number(number)
    return _fraction(number, size, tail, below)


def _whole_number(number: _Parts) -> tuple[str, int]:
    value = number.fraction << number.exponent >> 52
    beyond = number.exponent - number.bits - 1
    dropped = int(beyond * math.log10(2)) if beyond > 1 else 0
    if dropped:
        value = (value + 10**dropped // 2) // 10**dropped
    text = str(value)
    return text.rstrip("0"), len(text) + dropped


def _fraction(number: _Parts, size: int, tail: int, below: int) -> tuple[str, int]:
    """Digits until what is left is less than half the distance to the next number."""
    point = _estimated_exponent(number)
    fives, tens = max(0, -point), max(0, point)
    twos = fives + below + number.exponent
    margin_twos = twos - number.bits
    twos -= size - 1
    scale_twos = tens + below
    common = min(twos, scale_twos)
    # Below a power of two, numbers are half as far apart as above it.
    up = max(0, common - margin_twos + (size == 1)) - common
    twos, scale_twos, margin_twos = twos + up, scale_twos + up, margin_twos - (size == 1) + up
    rest = (number.fraction >> tail) * 5**fives << twos
    scale = 5**tens << scale_twos
    margin = 5**fives << margin_twos
    needed = max(size + twos + _bits_of_five(fives), scale_twos + 1 + _bits_of_five(tens + 1))
    return _developed(rest, scale, margin, point, 32 if needed < 32 else 64 if needed < 64 else 0)


def _developed(rest: int, scale: int, margin: int, point: int, width: int) -> tuple[str, int]:
    """Long division of `rest` by `scale`; `width` is that of the integers that Java does it with, 0 for any."""
    ten = 10 * scale
    digit, rest = divmod(rest, scale)
    rest, margin = 10 * rest, 10 * margin
    low, high = _is_near(rest, margin, ten, width)
    digits = [digit]
    if not digit and not high:
        digits = []
        point -= 1
    if not -3 <= point < 8:
        low = high = False
    while not low and not high:
        digit, rest = divmod(rest, scale)
        rest, margin = 10 * rest, 10 * margin
        low, high = _is_near(rest, margin, ten, width)
        digits.append(digit)
    written = int("".join(map(str, digits)))
    if high and (not low or 2 * rest > ten or (2 * rest == ten and digits[-1] % 2)):
        written += 1
    text = str(written).rjust(len(digits), "0")
    if len(text) > len(digits):
        return text[:-1], point + 2
    return text, point + 1


def _is_near(rest: int, margin: int, ten: int, width: int) -> tuple[bool, bool]:
    """Whether the digits so far tell the number from others, and whether those do with the last one increased.

    The sum may overflow Java's integers, and then it is not large; an overflow of the margin is noticed.
    """
    if not width:
        return rest < margin, rest + margin >= ten
    limit = 1 << width - 1
    if margin >= limit:
        return True, True
    return rest < margin, ten < rest + margin < limit


def _bits_of_five(power: int) -> int:
    if power > 26:
        return power * 3
    return (5**power).bit_length() if power else 0


def _estimated_exponent(number: _Parts) -> int:
    """The exponent of ten, or one more, from a line along the logarithm."""
    part = number.fraction / 2**52
    return math.floor((part - 1.5) * 0.289529654 + 0.176091259 + number.exponent * 0.301029995663981)
