"""`to_number` and `to_char`: numbers read and written by templates such as `$9,999.99` or `S000`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import pyarrow as pa

from snapline.sql.expressions.code_points import BLANKS
from snapline.sql.expressions.registry import Kernel, SparkError, UnsupportedError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

_TEMPLATE = re.compile(r"(MI|S)?(\$)?([09G,]*)([.D])?([09]*)(\$)?(PR|MI|S)?")


_BLANK = re.compile(f"[{BLANKS}]")
_DIGITS = re.compile(rf"[\d,{BLANKS}]*")


class TemplateError(Exception):
    """A text or number does not fit the template."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Digits up to the next separator: exactly `size` of them, or at most."""

    size: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Template:
    """A template taken apart. Signs are "", "S", "MI", and "PR" for angle brackets around negative numbers."""

    sign_before: str
    dollar_before: bool
    groups: tuple[_Group, ...]
    has_point: bool
    decimals: int
    dollar_after: bool
    sign_after: str

    def number(self, text: str) -> Decimal:
        """Read a number. Raises `TemplateError`."""
        reader = _Reader(text)
        is_open = self.sign_after == "PR" and reader.skip("<")
        reader.sign(self.sign_before)
        if self.dollar_before:
            reader.expect("$")
        whole = reader.digits(self.groups) if self.groups else ""
        has_point = self.has_point and reader.skip(".")
        rest = ""
        if self.decimals:
            rest = reader.digits((_Group(self.decimals, False),))
        if not has_point:
            whole, rest = whole + rest, ""
        if self.dollar_after:
            reader.expect("$")
        if self.sign_after == "PR":
            if reader.skip(">") != is_open:
                raise TemplateError
            reader.is_negative ^= is_open
        else:
            reader.sign(self.sign_after)
        if not reader.is_done or not (whole or rest):
            raise TemplateError
        number = Decimal(f"{whole or '0'}.{rest.ljust(self.decimals, '0')}" if self.decimals else whole)
        return -number if reader.is_negative else number

    def text(self, number: Decimal) -> str:
        """Write a number; `#` stand for digits that have no room."""
        whole, _, rest = f"{number.copy_abs():f}".partition(".")
        whole, rest = whole.lstrip("0"), rest.rstrip("0")
        room = sum(group.size for group in self.groups)
        if len(whole) > room or len(rest) > self.decimals:
            whole, rest = "#" * room, "#" * self.decimals
        writer = _Writer(number < 0)
        if self.sign_after == "PR" and number < 0:
            writer.text += "<"
        writer.sign(self.sign_before)
        writer.text += "$" if self.dollar_before else ""
        writer.digits(self.groups, whole.rjust(room))
        if self.has_point:
            if writer.text.endswith(" "):
                writer.text = writer.text[:-1] + "0"
            writer.text += "."
        writer.text += rest.ljust(self.decimals, "0")
        writer.text += "$" if self.dollar_after else ""
        writer.sign(self.sign_after)
        writer.strip_point()
        return writer.text if writer.text not in ("", "+", "-") else "0"


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.is_negative = False

    @property
    def is_done(self) -> bool:
        return self._position >= len(self._text)

    def skip(self, char: str) -> bool:
        found = self._text[self._position : self._position + 1] == char
        self._position += found
        return found

    def expect(self, char: str) -> None:
        if not self.is_done and not self.skip(char):
            raise TemplateError

    def sign(self, kind: str) -> None:
        if kind and self.skip("-"):
            self.is_negative = not self.is_negative
        elif kind == "S":
            self.skip("+")

    def digits(self, groups: tuple[_Group, ...]) -> str:
        found = _DIGITS.match(self._text, self._position)
        assert found is not None
        self._position = found.end()
        digits = _BLANK.sub("", found[0])
        sizes = [len(part) for part in reversed(digits.split(","))]
        if len(sizes) > len(groups):
            raise TemplateError
        sizes += [0] * (len(groups) - len(sizes))
        for size, group in zip(sizes, reversed(groups), strict=True):
            if size > group.size or (group.is_exact and size < group.size):
                raise TemplateError
        return digits.replace(",", "")


class _Writer:
    def __init__(self, is_negative: bool) -> None:
        self._is_negative = is_negative
        self.text = ""

    def sign(self, kind: str) -> None:
        if kind == "S":
            self.strip_point()
            self._add("-" if self._is_negative else "+")
        elif kind in ("MI", "PR"):
            if self._is_negative or kind == "PR":
                self.strip_point()
            if self._is_negative:
                self._add("-" if kind == "MI" else ">")
            else:
                self.text += " " if kind == "MI" else "  "

    def digits(self, groups: tuple[_Group, ...], digits: str) -> None:
        position = 0
        for number, group in enumerate(groups):
            if number:
                self._separate()
            for digit in digits[position : position + group.size]:
                if digit != " ":
                    self.text += digit
                elif group.is_exact:
                    self.text += "0"
                else:
                    self._add_blank()
            position += group.size

    def strip_point(self) -> None:
        """A point without digits after it becomes a blank."""
        place = self.text.find(".")
        if place >= 0 and self.text[place + 1 : place + 2] in ("", " "):
            self.text = self.text[:place] + " " + self.text[place + 1 :]

    def _separate(self) -> None:
        if self.text and self.text[-1].isdigit():
            self.text += ","
        else:
            self._add_blank()

    def _add(self, char: str) -> None:
        """A sign, before the blanks at the end."""
        body = self.text.rstrip(" ")
        self.text = body + char + self.text[len(body) :]

    def _add_blank(self) -> None:
        """A blank, before the signs at the end."""
        body = self.text.rstrip("+-<")
        self.text = body + " " + self.text[len(body) :]


@lru_cache(maxsize=256)
def template(text: str) -> Template:
    """Read a template, which Spark has found to be valid."""
    found = _TEMPLATE.fullmatch(text.upper())
    if found is None:
        raise UnsupportedError(f"the format {text!r} of numbers is not supported")
    before, dollar, whole, point, decimals, dollar_after, after = found.groups()
    groups = tuple(_Group(len(part), part.startswith("0")) for part in re.split("[,G]", whole)) if whole else ()
    return Template(before or "", bool(dollar), groups, bool(point), len(decimals), bool(dollar_after), after or "")


def _mismatch(value: object, pattern: str) -> SparkError:
    return SparkError(
        "INVALID_FORMAT.MISMATCH_INPUT", f"The format is invalid: {pattern!r}. The value {value!r} does not match."
    )


@kernel("ToNumber")
def _to_number(expression: Expression) -> Kernel:
    def number(text: str, pattern: str) -> Decimal:
        try:
            return template(pattern).number(text)
        except TemplateError as error:
            raise _mismatch(text, pattern) from error

    return rowwise(number, expression.type)


@kernel("TryToNumber")
def _try_to_number(expression: Expression) -> Kernel:
    def number(text: str, pattern: str) -> Decimal | None:
        try:
            return template(pattern).number(text)
        except TemplateError:
            return None

    return rowwise(number, expression.type)


@kernel("ToCharacter")
def _to_character(_expression: Expression) -> Kernel:
    return rowwise(lambda number, pattern: template(pattern).text(number), pa.string())
