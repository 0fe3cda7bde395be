"""`format_string`: texts with values filled in, as Java's `Formatter` does it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import lru_cache
from typing import Any, Final, NoReturn

import pyarrow as pa

from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.java_patterns import from_units
from snapline.sql.expressions.number_text import decimal_text, double_text, float_text
from snapline.sql.expressions.registry import Kernel, SparkError, UnsupportedError, kernel
from snapline.sql.expressions.rowwise import python_value, python_values
from snapline.sql.plans.trees import Expression

_SPECIFIER = re.compile(r"%(?:(\d+)\$)?(<)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([tT])?([a-zA-Z%])")


class FormatError(Exception):
    """Java does not accept the format, or not for this value; `condition` is the name of its exception."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition


@dataclass(frozen=True, slots=True)
class _Specifier:
    position: int
    flags: str
    width: int
    precision: int | None
    kind: str


@kernel("FormatString", reads_all=True)
def _format_string(expression: Expression) -> Kernel:
    types = [child.type for child in expression.children[1:]]
    for type in types:
        if pa.types.is_nested(type) or pa.types.is_temporal(type):
            raise UnsupportedError(f"format_string of {type} is not supported: cast it to a string: {expression.text}")

    pattern = expression.children[0]
    if pattern.kind == "Literal" and pattern.arguments["value"] is not None:
        with suppress(FormatError):  # Spark raises this only for rows.
            _parts(pattern.arguments["value"])

    def run(values: Sequence[Value], rows: int) -> Value:
        if all(isinstance(value, pa.Scalar) for value in values):
            return pa.scalar(_text([python_value(value) for value in values], types), pa.string())
        columns = [
            [python_value(value)] * rows if isinstance(value, pa.Scalar) else python_values(value) for value in values
        ]
        return pa.array([_text(row, types) for row in zip(*columns, strict=True)], pa.string())

    return run


def _text(row: Sequence[Any], types: list[pa.DataType]) -> str | None:
    if row[0] is None:
        return None
    try:
        return formatted(row[0], row[1:], types)
    except FormatError as error:
        raise SparkError(error.condition, f"format_string: {error}") from error


def formatted(text: str, values: Sequence[Any], types: Sequence[pa.DataType]) -> str:
    """The text with the values filled in. Raises `FormatError`."""
    pieces = []
    for part in _parts(text):
        if isinstance(part, str):
            pieces.append(part)
            continue
        if part.position >= len(values):
            raise FormatError("MissingFormatArgumentException", f"Format specifier '%{part.kind}' has no argument")
        value = values[part.position]
        written = _WRITERS[part.kind.lower()](value, types[part.position], part)
        if part.kind.isupper():
            written = written.upper()
        pieces.append(written.ljust(part.width) if "-" in part.flags else written.rjust(part.width))
    return from_units("".join(pieces))


@lru_cache(maxsize=256)
def _parts(text: str) -> tuple[str | _Specifier, ...]:
    parts: list[str | _Specifier] = []
    position, following, last = 0, 0, -1
    for found in _SPECIFIER.finditer(text):
        _add_plain(parts, text[position : found.start()])
        position = found.end()
        number, again, flags, width, precision, time, kind = found.groups()
        if time or kind.lower() in "hga":
            raise UnsupportedError(f"the conversion {found[0]} of format_string is not supported")
        _check(flags, width, precision, kind)
        if kind in "n%":
            size = int(width or 0)
            parts.append("\n" if kind == "n" else "%".ljust(size) if "-" in flags else "%".rjust(size))
            continue
        if again:
            index = last
        elif number:
            index = int(number) - 1
        else:
            index, following = following, following + 1
        last = index
        if index < 0:
            raise FormatError("MissingFormatArgumentException", "Format specifier '%<' has no argument before it")
        parts.append(_Specifier(index, flags, int(width or 0), int(precision) if precision else None, kind))
    _add_plain(parts, text[position:])
    return tuple(parts)


def _check(flags: str, width: str | None, precision: str | None, kind: str) -> None:
    """Raise what Java does for a conversion with these flags, whatever the value; its checks come in this order."""
    given, lower = set(flags), kind.lower()
    if len(given) < len(flags):
        raise FormatError("DuplicateFormatFlagsException", f"Flags = {flags!r}")
    if kind not in ("n", "%") and (lower not in _WRITERS or kind in _ONLY_LOWER_CASE):
        raise FormatError("UnknownFormatConversionException", f"Conversion = {kind!r}")
    if lower in "cn%" and precision is not None:
        raise FormatError("IllegalFormatPrecisionException", f"Precision = {precision}")
    if kind == "n" and width is not None:
        raise FormatError("IllegalFormatWidthException", f"Width = {width}")
    if kind in "n%" and given - ({"-"} if kind == "%" else set()):
        raise FormatError("IllegalFormatFlagsException", f"Flags = {flags!r}")
    is_number = lower in "doxfe"
    if lower == "b" and "#" in given:
        _raise_mismatch(flags, kind)
    if lower == "c" and given - {"-"}:
        _raise_mismatch(flags, kind)
    if width is None and given & set("-0" if is_number else "-"):
        raise FormatError("MissingFormatWidthException", f"Flags = {flags!r}")
    if is_number and ({"-", "0"} <= given or {"+", " "} <= given):
        raise FormatError("IllegalFormatFlagsException", f"Flags = {flags!r}")
    if lower in "dox" and precision is not None:
        raise FormatError("IllegalFormatPrecisionException", f"Precision = {precision}")
    if given & set(_WRONG_FLAGS.get(lower, "")):
        _raise_mismatch(flags, kind)


def _raise_mismatch(flags: str, kind: str) -> NoReturn:
    raise FormatError("FormatFlagsConversionMismatchException", f"Conversion = {kind}, Flags = {flags}")


def _add_plain(parts: list[str | _Specifier], text: str) -> None:
    if "%" in text:
        raise FormatError("UnknownFormatConversionException", "Conversion = '%'")
    parts.append(text)


def _string(value: Any, type: pa.DataType, how: _Specifier) -> str:
    if "#" in how.flags:
        _raise_mismatch(how.flags, how.kind)
    text = _plain(value, type)
    return text if how.precision is None else text[: how.precision]


def _plain(value: Any, type: pa.DataType) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value) if pa.types.is_float32(type) else double_text(value)
    if isinstance(value, Decimal):
        return decimal_text(value, plain=True)
    if isinstance(value, bytes):
        raise UnsupportedError("format_string of binary is not supported: use hex or base64")
    return str(value)


def _boolean(value: Any, _type: pa.DataType, how: _Specifier) -> str:
    text = "false" if value is None or value is False else "true"
    return text if how.precision is None else text[: how.precision]


def _character(value: Any, type: pa.DataType, _how: _Specifier) -> str:
    if value is None:
        return "null"
    if not pa.types.is_integer(type) or type.bit_width > 32:
        raise FormatError("IllegalFormatConversionException", f"c != {type}")
    if value not in range(0x110000):
        raise FormatError("IllegalFormatCodePointException", f"Code point = {value:#x}")
    return chr(value)


def _integer(value: Any, type: pa.DataType, how: _Specifier) -> str:
    if value is None:
        return "null"
    if not pa.types.is_integer(type):
        raise FormatError("IllegalFormatConversionException", f"d != {type}")
    digits = f"{abs(value):,}" if "," in how.flags else str(abs(value))
    return _signed(digits, value < 0, how)


def _radix(prefix: str, code: str) -> Callable[[Any, pa.DataType, _Specifier], str]:
    def write(value: Any, type: pa.DataType, how: _Specifier) -> str:
        if value is None:
            return "null"
        if not pa.types.is_integer(type):
            raise FormatError("IllegalFormatConversionException", f"{code} != {type}")
        if set(how.flags) & set("( +"):
            _raise_mismatch(how.flags, how.kind)
        digits = format(value if value >= 0 else value + 2**type.bit_width, code)
        start = prefix if "#" in how.flags else ""
        return start + (digits.rjust(how.width - len(start), "0") if "0" in how.flags else digits)

    return write


def _number(value: Any, type: pa.DataType) -> Decimal | str:
    """The decimal that Java rounds: for doubles the shortest digits, not the exact value."""
    if not isinstance(value, float):
        raise FormatError("IllegalFormatConversionException", f"f != {type}")
    if math.isfinite(value):
        return Decimal((float_text if pa.types.is_float32(type) else double_text)(value))
    return "NaN" if math.isnan(value) else "Infinity"


def _fixed(value: Any, type: pa.DataType, how: _Specifier) -> str:
    if value is None:
        return "null"[: how.precision]
    number = _number(value, type)
    if isinstance(number, str):
        return _unusual(number, value < 0, how)
    places = 6 if how.precision is None else how.precision
    with localcontext(prec=800, rounding=ROUND_HALF_UP):
        rounded = number.copy_abs().quantize(Decimal(1).scaleb(-places))
    digits = f"{rounded:,f}" if "," in how.flags else f"{rounded:f}"
    return _signed(digits, number.is_signed(), how)


def _scientific(value: Any, type: pa.DataType, how: _Specifier) -> str:
    if value is None:
        return "null"[: how.precision]
    number = _number(value, type)
    if isinstance(number, str):
        return _unusual(number, value < 0, how)
    places = 6 if how.precision is None else how.precision
    with localcontext(prec=places + 1, rounding=ROUND_HALF_UP):
        rounded = +number.copy_abs()
    _, digits, exponent = rounded.as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).ljust(places + 1, "0")
    power = len(digits) - 1 + exponent if rounded else 0
    mantissa = f"{written[0]}.{written[1 : places + 1]}" if places else written[0]
    return _signed(f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}", number.is_signed(), how)


def _unusual(text: str, is_negative: bool, how: _Specifier) -> str:
    if text == "NaN":
        return text
    flags = how.flags.replace("0", "").replace(",", "")
    return _signed(text, is_negative, _Specifier(how.position, flags, how.width, how.precision, how.kind))


def _signed(digits: str, is_negative: bool, how: _Specifier) -> str:
    before, after = "", ""
    if is_negative:
        before, after = ("(", ")") if "(" in how.flags else ("-", "")
    elif "+" in how.flags:
        before = "+"
    elif " " in how.flags:
        before = " "
    if "0" in how.flags:
        digits = digits.rjust(how.width - len(before) - len(after), "0")
    return f"{before}{digits}{after}"


_WRITERS: Final[dict[str, Callable[[Any, pa.DataType, _Specifier], str]]] = {
    "s": _string,
    "b": _boolean,
    "c": _character,
    "d": _integer,
    "x": _radix("0x", "x"),
    "o": _radix("0", "o"),
    "f": _fixed,
    "e": _scientific,
}
_ONLY_LOWER_CASE: Final = frozenset("DOF")
_WRONG_FLAGS: Final = {"s": "+ 0,(", "b": "+ 0,(", "d": "#", "o": ",", "x": ",", "e": ","}
