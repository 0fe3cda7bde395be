"""Patterns of `LIKE`: literal characters, `_` and `%`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.registry import SparkError


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A pattern as its parts: texts, and `_` and `%` as None and ""."""

    parts: tuple[str | None, ...]

    def test(self, text: pa.Array) -> pa.Array:
        """For each text, whether all of it matches."""
        match self.parts:
            case ():
                return pc.equal(text, pa.scalar(""))
            case ("",):
                return pc.if_else(text.is_valid(), pa.scalar(True), pa.scalar(None, pa.bool_()))
            case (str(literal),):
                return pc.equal(text, pa.scalar(literal))
            case (str(literal), ""):
                return pc.starts_with(text, literal)
            case ("", str(literal)):
                return pc.ends_with(text, literal)
            case ("", str(literal), ""):
                return pc.match_substring(text, literal)
        return pc.match_substring_regex(text, self._expression(".*", _in_re2, r"(?s)\A", r"\z"))

    def matches(self, text: str) -> bool:
        """Whether all of the text matches."""
        return re.fullmatch(self._expression(".*", re.escape, "(?s)", ""), text) is not None

    def _expression(self, anything: str, literal: Any, before: str, after: str) -> str:
        written = ["." if part is None else (literal(part) if part else anything) for part in self.parts]
        return before + "".join(written) + after


def _in_re2(text: str) -> str:
    return "".join(char if char.isalnum() and char.isascii() else f"\\x{{{ord(char):x}}}" for char in text)


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str) -> LikePattern:
    """Read a pattern. Raises `SparkError` for an escape character that stands before no special one."""
    parts: list[str | None] = []
    literal = ""
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == escape:
            position += 1
            if position == len(pattern):
                raise SparkError(
                    "INVALID_FORMAT.ESC_AT_THE_END", f"{pattern!r}: the escape character ends the pattern."
                )
            char = pattern[position]
            if char not in ("_", "%", escape):
                message = f"{pattern!r}: the escape character is not allowed to precede {char!r}."
                raise SparkError("INVALID_FORMAT.ESC_IN_THE_MIDDLE", message)
            literal += char
        elif char in "_%":
            if literal:
                parts.append(literal)
            literal = ""
            if char == "_":
                parts.append(None)
            elif not parts or parts[-1] != "":
                parts.append("")
        else:
            literal += char
        position += 1
    return LikePattern((*parts, literal) if literal else tuple(parts))
