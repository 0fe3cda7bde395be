"""Numbers and bytes in other bases: hexadecimal, binary, any."""

from __future__ import annotations

import string
from functools import partial

import pyarrow as pa

from snapline.sql.expressions.arithmetic import eval_mode
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.values import each, of_arrays
from snapline.sql.plans.trees import Expression

_DIGITS = string.digits + string.ascii_uppercase
_HIGHEST = 2**64 - 1


@kernel("Hex")
def _hex(expression: Expression) -> Kernel:
    source = expression.children[0].type
    if pa.types.is_integer(source):
        return of_arrays(lambda array: each(array, lambda value: f"{value % 2**64:X}", pa.string()))
    if pa.types.is_string(source):
        return of_arrays(lambda array: each(array.view(pa.binary()), lambda value: value.hex().upper(), pa.string()))
    return of_arrays(lambda array: each(array, lambda value: value.hex().upper(), pa.string()))


@kernel("Unhex")
def _unhex(expression: Expression) -> Kernel:
    raises = bool(expression.arguments.get("failOnError"))
    return of_arrays(lambda array: each(array.view(pa.binary()), partial(_bytes, raises=raises), pa.binary()))


def _bytes(text: bytes, raises: bool) -> bytes | None:
    padded = b"0" + text if len(text) % 2 else text
    if all(byte in b"0123456789abcdefABCDEF" for byte in padded):
        return bytes.fromhex(padded.decode())
    if raises:
        raise SparkError("CONVERSION_INVALID_INPUT", "The text is not hexadecimal.")
    return None


@kernel("Bin")
def _binary(_expression: Expression) -> Kernel:
    return of_arrays(lambda array: each(array, lambda value: f"{value % 2**64:b}", pa.string()))


@kernel("Conv")
def _conversion(expression: Expression) -> Kernel:
    raises = eval_mode(expression) == "ANSI" or bool(expression.arguments.get("ansiEnabled"))

    def compute(texts: pa.Array, sources: pa.Array, targets: pa.Array) -> pa.Array:
        rows = zip(texts.to_pylist(), sources.to_pylist(), targets.to_pylist(), strict=True)
        return pa.array(
            [None if None in row else _converted(row[0], row[1], row[2], raises) for row in rows], pa.string()
        )

    return of_arrays(compute)


def _converted(text: str, source: int, target: int, raises: bool) -> str | None:
    """The number at the beginning of a text, from one base to another; a negative target base makes it signed."""
    if not 2 <= source <= 36 or not 2 <= abs(target) <= 36:
        return None
    text = text.strip(" ")
    if not text:
        return None
    negative = text.startswith("-")
    number = 0
    for character in text[negative:].upper():
        digit = _DIGITS.find(character)
        if not 0 <= digit < source:
            break
        number = number * source + digit
    if number > _HIGHEST:
        if raises:
            raise SparkError("ARITHMETIC_OVERFLOW", "Overflow in function conv().")
        number = _HIGHEST
    minus = ""
    if negative and target > 0:
        number = 2**64 - number if number < 2**63 else _HIGHEST
        number %= 2**64
    elif target < 0:
        # The 64 bits are read as a signed number.
        signed = number - 2**64 if number >= 2**63 else number
        minus, number = ("-" if negative or signed < 0 else ""), abs(signed)
    return minus + _written(number, abs(target))


def _written(number: int, base: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = _DIGITS[digit] + digits
    return digits or "0"
