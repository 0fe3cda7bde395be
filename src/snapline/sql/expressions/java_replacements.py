"""Replacement texts of Java's regular expressions: `$1`, `${name}`, and backslashes before plain characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

Replacement: TypeAlias = tuple[str | int, ...]
"""Texts, and the numbers of groups."""


class ReplacementError(Exception):
    """Java does not accept this text."""


@lru_cache(maxsize=1024)
def replacement_parts(text: str, pattern: re.Pattern[str]) -> Callable[[], Replacement]:
    """Gives the parts of a replacement, or raises `ReplacementError` when it is called: only a match raises in Java."""
    try:
        parts = _parts(text, pattern)
    except ReplacementError as error:
        problem = str(error)

        def fail() -> Replacement:
            raise ReplacementError(problem)

        return fail
    return lambda: parts


def _parts(text: str, pattern: re.Pattern[str]) -> Replacement:
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            if position + 1 == len(text):
                raise ReplacementError("character to be escaped is missing")
            _add(parts, text[position + 1])
            position += 2
        elif char == "$":
            group, position = _group(text, position + 1, pattern)
            parts.append(group)
        else:
            _add(parts, char)
            position += 1
    return tuple(parts)


def _add(parts: list[str | int], char: str) -> None:
    if parts and isinstance(parts[-1], str):
        parts[-1] += char
    else:
        parts.append(char)


def in_re2(parts: Replacement) -> str | None:
    """The replacement as RE2 writes it, or None if it has a group that RE2 cannot name."""
    if any(isinstance(part, int) and part > 9 for part in parts):
        return None
    return "".join(f"\\{part}" if isinstance(part, int) else part.replace("\\", "\\\\") for part in parts)


def _group(text: str, position: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """The group that is named from this position on, and where its name ends."""
    if text[position : position + 1] == "{":
        end = text.find("}", position)
        name = text[position + 1 : end]
        if end < 0 or name not in pattern.groupindex:
            raise ReplacementError(f"No group with name {{{name}}}")
        return pattern.groupindex[name], end + 1
    digits = re.compile("[0-9]+").match(text, position)
    if digits is None:
        raise ReplacementError("Illegal group reference")
    number = int(digits[0][0])
    if number > pattern.groups:
        raise ReplacementError(f"No group {number}")
    used = 1
    while used < len(digits[0]) and number * 10 + int(digits[0][used]) <= pattern.groups:
        number = number * 10 + int(digits[0][used])
        used += 1
    return number, position + used
