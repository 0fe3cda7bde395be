"""JSON texts as Python values, read as leniently as Jackson does for Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TypeAlias

Json: TypeAlias = Any
"""None, booleans, `str`, `Number`, and lists and dicts of them."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()

    @property
    def is_integer(self) -> bool:
        """Whether it has neither fraction nor exponent."""
        return self.lstrip("-").isdigit()


class Repetitive(dict[str, Json]):
    """An object with several members of the same name; as a dict, it has the last of them."""

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class JsonError(Exception):
    """The text is no JSON."""


def members(value: dict[str, Json]) -> Iterable[tuple[str, Json]]:
    """All members of an object, in their order."""
    return value.pairs if isinstance(value, Repetitive) else value.items()


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repetitive(pairs)


def _refuse(word: str) -> NoReturn:
    raise JsonError(f"{word} is no number")


_FOR_VALUES: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=Number
)
_FOR_PATHS: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=_refuse, strict=False
)
_BLANKS: Final = " \t\r\n"
_PLAIN: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ANY: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.+-])")
_NOT_NUMERIC = re.compile(r"NaN|[+-]?INF(?:inity)?|[+-]?Infinity")
_ESCAPES: Final = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_MOST_LEVELS: Final = 200


def parsed(text: str) -> Json:
    """The first value in a text, as `from_json` reads it; what comes after is disregarded. Raises `JsonError`."""
    return _parsed(text, _FOR_VALUES, _Reader(text, _PLAIN, allows_nan=True))


def parsed_for_path(text: str) -> Json:
    """The first value in a text, as `get_json_object` reads it: control characters may stand in strings, but no NaN."""
    return _parsed(text, _FOR_PATHS, _Reader(text, _ANY, allows_nan=False))


def _parsed(text: str, decoder: json.JSONDecoder, reader: _Reader) -> Json:
    stripped = text.lstrip(_BLANKS)
    if stripped[:1] not in ("{", "[", '"'):
        return reader.value(0)
    try:
        return decoder.raw_decode(stripped)[0]
    except (ValueError, RecursionError):
        return reader.value(0)  # Jackson takes more than this decoder: quotes of either kind, for one.


_IDENTIFIER: Final = re.compile(r"[\w$]")


class _Reader:
    def __init__(self, text: str, plain: dict[str, re.Pattern[str]], *, allows_nan: bool) -> None:
        self._text = text
        self._plain = plain
        self._numbers = (_NUMBER, _NOT_NUMERIC) if allows_nan else (_NUMBER,)
        self._position = 0

    def value(self, level: int) -> Json:
        self._blanks()
        start = self._position
        char = self._text[start : start + 1]
        if level > _MOST_LEVELS:
            raise JsonError("too many levels")
        if char == "{":
            return self._members(level)
        if char == "[":
            return self._elements(level)
        if char in self._plain:
            return self._string(char)
        for word, meaning in (("true", True), ("false", False), ("null", None)):
            if self._text.startswith(word, start) and not _IDENTIFIER.match(self._text, start + len(word)):
                self._position += len(word)
                return meaning
        for expression in self._numbers:
            if found := expression.match(self._text, start):
                self._position = found.end()
                if not level and self._text[found.end() : found.end() + 1] not in ("", *_BLANKS):
                    raise JsonError("text after a number")
                return Number(found[0])
        raise JsonError(f"unexpected text at {start}")

    def _blanks(self) -> None:
        found = _SPACE.match(self._text, self._position)
        assert found is not None
        self._position = found.end()

    def _next(self) -> str:
        self._blanks()
        self._position += 1
        return self._text[self._position - 1 : self._position]

    def _members(self, level: int) -> dict[str, Json]:
        pairs: list[tuple[str, Json]] = []
        self._position += 1
        mark = self._next()
        while mark != "}" or pairs:
            if mark not in self._plain:
                raise JsonError("a name is missing")
            self._position -= 1
            name = self._string(mark)
            if self._next() != ":":
                raise JsonError("a colon is missing")
            pairs.append((name, self.value(level + 1)))
            mark = self._next()
            if mark == "}":
                break
            if mark != ",":
                raise JsonError("a comma is missing")
            mark = self._next()
        return _object(pairs)

    def _elements(self, level: int) -> list[Json]:
        result: list[Json] = []
        self._position += 1
        mark = self._next()
        while mark != "]" or result:
            self._position -= 1
            result.append(self.value(level + 1))
            mark = self._next()
            if mark == "]":
                break
            if mark != ",":
                raise JsonError("a comma is missing")
            self._next()
        return result

    def _string(self, quote: str) -> str:
        self._position += 1
        pieces = []
        while True:
            found = self._plain[quote].match(self._text, self._position)
            assert found is not None
            pieces.append(found[0])
            self._position = found.end()
            char = self._text[self._position : self._position + 1]
            self._position += 1
            if char == quote:
                return _with_pairs("".join(pieces))
            if char != "\\":
                raise JsonError("a string does not end or has control characters")
            pieces.append(self._escape())

    def _escape(self) -> str:
        char = self._text[self._position : self._position + 1]
        self._position += 1
        if char in _ESCAPES:
            return _ESCAPES[char]
        digits = self._text[self._position : self._position + 4]
        if char != "u" or not re.fullmatch("[0-9a-fA-F]{4}", digits):
            raise JsonError("unknown escape")
        self._position += 4
        return chr(int(digits, 16))


def _with_pairs(text: str) -> str:
    """The text with surrogates joined to the characters that two of them stand for."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
