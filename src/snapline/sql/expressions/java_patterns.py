"""Java's regular expressions, run by Python and, where that surely finds the same, by RE2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.java_pattern_syntax import JavaPatternParser, PatternError, is_never_empty
from snapline.sql.expressions.registry import UnsupportedError

_SAMPLE = pa.array([""])
_LARGE = re.compile("[\U00010000-\U0010ffff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Translation:
    """A pattern for Python, and for RE2 if that surely finds the same.

    `re2_test` tells only whether there is a match; `re2` also finds where and the groups.
    """

    pattern: str
    python: re.Pattern[str]
    re2: str | None
    re2_test: str | None
    is_never_empty: bool


@lru_cache(maxsize=1024)
def translated(pattern: str) -> Translation:
    """Raises `PatternError`, and `UnsupportedError` for what Python's expressions do not have."""
    parser = JavaPatternParser(pattern)
    parser.parse()
    text = "".join(parser.python)
    try:
        compiled = re.compile(text)
    except re.error as error:
        if "look-behind" in str(error):
            message = f"the regular expression {pattern!r} looks behind for parts of different lengths: use a group"
            raise UnsupportedError(message) from error
        raise PatternError(str(error)) from error
    test = "".join(parser.re2) if parser.is_portable and _is_in_re2("".join(parser.re2)) else None
    exact = test if parser.is_exact else None
    return Translation(pattern, compiled, exact, test, is_never_empty(text))


@lru_cache(maxsize=1024)
def _of_units(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The pattern for texts with halves of characters, and the one that finds nothing between two halves."""
    parser = JavaPatternParser(pattern, in_units=True)
    parser.parse()
    text = "".join(parser.python)
    try:
        return re.compile(text), re.compile(f"(?!(?<=[\ud800-\udbff])[\udc00-\udfff])(?:{text})")
    except re.error as error:
        message = f"the regular expression {pattern!r} is not supported for texts with characters beyond 16 bits"
        raise UnsupportedError(message) from error


def _is_in_re2(text: str) -> bool:
    """RE2 refuses what would need too much memory."""
    try:
        pc.match_substring_regex(_SAMPLE, text)
    except pa.ArrowInvalid:
        return False
    return True


def matches(translation: Translation, text: str) -> Iterator[re.Match[str]]:
    """All matches one after the other, as Java's `find` gives them: after an empty one it goes on one further."""
    if translation.is_never_empty:
        yield from translation.python.finditer(text)
        return
    position = 0
    has_halves = _HALF.search(text) is not None
    inside, outside = _of_units(translation.pattern) if has_halves else (translation.python, translation.python)
    while position <= len(text):
        is_between = has_halves and _PAIR.match(text, position - 1) is not None
        match = (inside.match(text, position) if is_between else None) or outside.search(text, position)
        if match is None:
            return
        yield match
        position = match.end() if match.end() > match.start() else match.end() + 1


def in_units(translation: Translation, text: str) -> str:
    """The text with characters beyond 16 bits as two, where Java sees them so: between empty matches."""
    if translation.is_never_empty or text.isascii() or not _LARGE.search(text):
        return text
    return _LARGE.sub(lambda found: "".join(map(chr, _units(found[0]))), text)


def from_units(text: str) -> str:
    """The text with halves of characters joined again; one that is alone is a question mark, as Java writes it."""
    if not _HALF.search(text):
        return text
    return _HALF.sub("?", _PAIR.sub(lambda found: found[0].encode("utf-16", "surrogatepass").decode("utf-16"), text))


def _units(char: str) -> tuple[int, int]:
    offset = ord(char) - 0x10000
    return 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF)
