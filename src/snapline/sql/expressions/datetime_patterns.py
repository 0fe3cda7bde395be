"""Patterns of dates and times, taken apart into fields and text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from snapline.sql.expressions.registry import SparkError, UnsupportedError

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ERAS: Final = {"AD": "Anno Domini", "BC": "Before Christ"}

_LETTERS_OF_SPARK_2: Final = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
_NARROW: Final = frozenset("GMLEQqy")
"""Letters with a narrow form, which Spark has not."""
_WEEK_BASED: Final = frozenset("YWwuec")
_REFUSED: Final = frozenset("ABnNp")
_REFUSED_IN_PARSING: Final = frozenset("EFqQ")
_LONGEST: Final = {
    "G": 4, "M": 4, "L": 4, "E": 4, "Q": 4, "q": 4, "y": 6, "a": 1, "S": 9, "z": 4, "X": 5, "x": 5, "Z": 5, "d": 2,
    "h": 2, "H": 2, "k": 2, "K": 2, "m": 2, "s": 2, "F": 1, "D": 3,
}  # fmt: skip
_EXACT: Final = {"V": (2,), "O": (1, 4)}


@dataclass(frozen=True, slots=True)
class Field:
    """A letter, repeated: `yyyy` is `Field("y", 4)`."""

    letter: str
    count: int


@dataclass(frozen=True, slots=True)
class Text:
    """What stands there as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part in brackets, which may be missing where text is parsed."""

    items: tuple[Item, ...]


Item: TypeAlias = Field | Text | Section


def has_era(items: Iterable[Item]) -> bool:
    """Whether years are counted from 1 in each era; if not, before the year 1 come 0 and -1."""
    return any(
        has_era(item.items) if isinstance(item, Section) else isinstance(item, Field) and item.letter == "G"
        for item in items
    )


_PART = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>(?:[^']|'')*)'|(?P<other>.)", re.DOTALL)


def pattern_items(pattern: str, *, parsing: bool) -> tuple[Item, ...]:
    """The items of a pattern. Raises `SparkError` for one that Spark refuses."""
    stack: list[list[Item]] = [[]]
    for match in _PART.finditer(pattern):
        if match["letters"]:
            stack[-1].append(_field(pattern, match["letters"], parsing))
        elif match["quoted"] is not None:
            stack[-1].append(Text(match["quoted"].replace("''", "'") or "'"))
        elif match["other"] == "[":
            stack.append([])
        elif match["other"] == "]" and len(stack) > 1:
            section = Section(tuple(stack.pop()))
            stack[-1].append(section)
        elif match["other"] in "]{}#'":
            _refuse(pattern, parsing)
        else:
            stack[-1].append(Text(match["other"]))
    while len(stack) > 1:
        section = Section(tuple(stack.pop()))
        stack[-1].append(section)
    return tuple(stack[0])


def _field(pattern: str, letters: str, parsing: bool) -> Field:
    letter, count = letters[0], len(letters)
    if letter in "vg":
        raise UnsupportedError(f"the pattern letter {letter} is not supported: {pattern}")
    refused = parsing and letter in _REFUSED_IN_PARSING
    fits = count in _EXACT[letter] if letter in _EXACT else count <= _LONGEST.get(letter, 0)
    if refused or not fits:
        _refuse(pattern, parsing)
    return Field(letter, count)


def _refuse(pattern: str, parsing: bool) -> NoReturn:
    """Raise what Spark does for a pattern: which error depends on whether Spark 2 took it."""
    name = "INVALID_DATETIME_PATTERN.WITH_SUGGESTION"
    runs = [match["letters"] for match in _PART.finditer(pattern) if match["letters"]]
    letters = {run[0] for run in runs}
    if _taken_by_spark_2(pattern, runs):
        name = "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION"
    elif letters & _WEEK_BASED:
        name = "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN"
    elif letters & _REFUSED or (parsing and letters & _REFUSED_IN_PARSING):
        name = "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER"
    elif any(len(run) > _LONGEST[run[0]] for run in runs if run[0] in _NARROW):
        name = "INVALID_DATETIME_PATTERN.LENGTH"
    raise SparkError(name, f"The pattern {pattern!r} for dates and times is invalid.")


def _taken_by_spark_2(pattern: str, runs: list[str]) -> bool:
    unclosed = any(match["other"] == "'" for match in _PART.finditer(pattern))
    return not unclosed and all(run[0] in _LETTERS_OF_SPARK_2 and (run[0] != "X" or len(run) < 4) for run in runs)
