"""Texts that Spark reads as numbers or truth values."""

from __future__ import annotations

import math
import re
from decimal import Decimal

SPACES = "".join(map(chr, range(33))) + "\x7f"
"""What Spark strips from texts: blanks and control characters."""

_JAVA_SPACES = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?[0-9]+")
_TRUNCATED = re.compile(r"([+-]?)([0-9]*)(?:\.[0-9]*)?")
_DOUBLE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SPECIAL = {"inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf, "nan": math.nan}
_SPECIAL |= {"-inf": -math.inf, "-infinity": -math.inf}
_JAVA_SPECIAL = {"NaN": math.nan, "+NaN": math.nan, "-NaN": math.nan}
_JAVA_SPECIAL |= {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})


def integer(text: str, bits: int, *, truncates: bool) -> int | None:
    """The integer, or None if it is none or does not fit into `bits`. `truncates` allows a fraction and drops it."""
    text = text.strip(SPACES)
    if truncates:
        match = _TRUNCATED.fullmatch(text)
        if match is None or text in ("", "+", "-"):
            return None
        number = int(match[1] + (match[2] or "0"))
    elif _INTEGER.fullmatch(text):
        number = int(text)
    else:
        return None
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


def double(text: str) -> float | None:
    """The number as Spark's cast reads it: as Java does, or a word such as `inf` in any case. None if it is none."""
    number = java_double(text)
    return _SPECIAL.get(text.strip(_JAVA_SPACES).lower()) if number is None else number


def java_double(text: str) -> float | None:
    """The number as Java reads it, with suffixes and hexadecimal digits, or None."""
    stripped = text.strip(_JAVA_SPACES)
    if match := _DOUBLE.fullmatch(stripped):
        return float(match[1])
    if match := _HEXADECIMAL.fullmatch(stripped):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return -math.inf if stripped.startswith("-") else math.inf
    return _JAVA_SPECIAL.get(stripped)


def decimal(text: str) -> Decimal | None:
    """The decimal, with all its digits, or None."""
    return java_decimal(text.strip(_JAVA_SPACES))


def java_decimal(text: str) -> Decimal | None:
    """The decimal as Java reads it, without blanks around, or None."""
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def boolean(text: str) -> bool | None:
    """The truth value that the word stands for, or None."""
    word = text.strip(SPACES).lower()
    return True if word in _TRUE else False if word in _FALSE else None
