"""Sets of characters, as ranges of code points, and those that Java's regular expressions have names for."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Final, TypeAlias

CodePoints: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included, in order and apart."""

LAST: Final = 0x10FFFF
EVERY: Final[CodePoints] = ((0, LAST),)
LAST_UNIT: Final = 0xFFFF
"""Characters beyond this one are two in Java's texts."""
HIGH_HALVES: Final = (0xD800, 0xDBFF)


def joined(ranges: Iterable[tuple[int, int]]) -> CodePoints:
    """The set of all characters in these ranges."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def complement(points: CodePoints) -> CodePoints:
    """All other characters."""
    result, start = [], 0
    for low, high in points:
        if low > start:
            result.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        result.append((start, LAST))
    return tuple(result)


def common(left: CodePoints, right: CodePoints) -> CodePoints:
    """The characters in both."""
    return complement(joined((*complement(left), *complement(right))))


def characters(text: str) -> CodePoints:
    """The characters of a text."""
    return joined((ord(char), ord(char)) for char in text)


def with_other_case(points: CodePoints) -> CodePoints:
    """The set and the ASCII letters that differ from one of it only in case."""
    more = []
    for low, high in points:
        for first, last, shift in ((65, 90, 32), (97, 122, -32)):
            if low <= last and high >= first:
                more.append((max(low, first) + shift, min(high, last) + shift))
    return joined((*points, *more))


DIGITS: Final = ((48, 57),)
WORDS: Final = joined(((48, 57), (65, 90), (95, 95), (97, 122)))
SPACES: Final = characters(" \t\n\x0b\f\r")
HORIZONTAL: Final = joined((*characters(" \t\xa0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A)))
VERTICAL: Final = characters("\n\x0b\f\r\x85\u2028\u2029")
BLANKS: Final = "".join(map(chr, (*range(9, 14), *range(28, 33), 0x1680, *range(0x2000, 0x2007)))) + (
    "\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
)
"""What Java calls white space: without the blanks that do not break lines."""

_POSIX: Final[dict[str, CodePoints]] = {
    "Lower": ((97, 122),),
    "Upper": ((65, 90),),
    "ASCII": ((0, 127),),
    "Alpha": ((65, 90), (97, 122)),
    "Digit": DIGITS,
    "Alnum": ((48, 57), (65, 90), (97, 122)),
    "Punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "Graph": ((33, 126),),
    "Print": ((32, 126),),
    "Blank": characters(" \t"),
    "Cntrl": ((0, 31), (127, 127)),
    "XDigit": ((48, 57), (65, 70), (97, 102)),
    "Space": SPACES,
    "L1": ((0, 255),),
    "all": EVERY,
}


@cache
def _categories() -> dict[str, CodePoints]:
    """The characters of each general category of Unicode."""
    found: dict[str, list[tuple[int, int]]] = {}
    start, last = 0, unicodedata.category("\0")
    for point in range(1, LAST + 2):
        category = unicodedata.category(chr(point)) if point <= LAST else ""
        if category != last:
            found.setdefault(last, []).append((start, point - 1))
            start, last = point, category
    return {name: tuple(ranges) for name, ranges in found.items()}


_ALL: Final = (
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
    "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn",
)  # fmt: skip
_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in _ALL},
    **{group: tuple(name for name in _ALL if name[0] == group) for group in "LMNPSZC"},
    "LC": ("Lu", "Ll", "Lt"),
    "LD": (*(name for name in _ALL if name[0] == "L"), "Nd"),
    "Letter": tuple(name for name in _ALL if name[0] == "L"),
    "Punctuation": tuple(name for name in _ALL if name[0] == "P"),
}


def named(name: str) -> CodePoints | None:
    r"""The characters of `\p{name}`, or None if the name is not known here: scripts and blocks are not."""
    if name in _POSIX:
        return _POSIX[name]
    for prefix in ("general_category=", "gc=", "Is", ""):
        category = name.removeprefix(prefix)
        if name.startswith(prefix) and category in _GROUPS:
            return joined(r for key, ranges in _categories().items() if key in _GROUPS[category] for r in ranges)
    return None
