"""Parser of types in the text form of Spark SQL, such as `a INT, b ARRAY<STRING>`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

import pyarrow as pa

from snapline.errors import ConfigurationError

MAX_TEXT_CHARACTERS = 1 << 16
"""Longest accepted text."""

MAX_DEPTH = 32
"""How deeply types may be nested."""

_SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
_UNSUPPORTED: Final[Mapping[str, str]] = {
    "void": "void has no values; use the type the values will have",
    "variant": "a variant cannot be held in state; use string, or declare the type `object`",
    "udt": "a user-defined type cannot be held in state; use the SQL type it is made of, or declare the type `object`",
    "geometry": "a geometry cannot be held in state; use binary (WKB)",
    "geography": "a geography cannot be held in state; use binary (WKB)",
}
_TYPES: Final = (
    *_SIMPLE,
    *("string", "char", "character", "varchar", "decimal", "dec", "numeric", "timestamp", "time", "interval"),
    *("array", "map", "struct"),
)
_DAY_TIME_UNITS: Final = ("day", "hour", "minute", "second")
_YEAR_MONTH_UNITS: Final = ("year", "month")
_MAX_DECIMAL_PRECISION: Final = 38
_MAX_TIME_PRECISION: Final = 9
_EXCERPT_CHARACTERS: Final = 100
_TOKEN: Final = re.compile(
    r"""(?P<word>\w+)
      | `(?P<quoted>(?:[^`]|``)+)`
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign>[<>(),:])
      | (?P<space>\s+)""",
    re.VERBOSE | re.DOTALL,
)


def parse_type(text: str) -> pa.DataType:
    """Parse a Spark type into an Arrow type. A list of columns without `struct<>` around it is a struct too.

    `timestamp` is in microseconds of UTC, `timestamp_ntz` without a time zone. Lengths of `char` and `varchar`,
    collations and comments are ignored. Raises `ConfigurationError` that marks the position of the fault.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ConfigurationError(
            f"a type has {len(text)} characters, at most {MAX_TEXT_CHARACTERS} are allowed; give it as a pyarrow schema"
        )
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    value: str
    position: int

    @property
    def word(self) -> str:
        """The lower-case word, or the sign, for comparison; empty for other tokens."""
        return self.value.lower() if self.kind in ("word", "sign") else ""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.value)


class _Parser:
    """Recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokenize()
        self._next = 0

    def parse(self) -> pa.DataType:
        result = self._columns(0) if self._is_column_list() else self._type(0)
        if self._peek().kind != "end":
            self._fail("the end")
        return result

    def _is_column_list(self) -> bool:
        """Whether columns begin here: a type has one word, or a bracket next, or is one of the few of several words."""
        first, second = self._peek(), self._peek(1)
        if first.kind == "quoted" or second.word == ":":
            return True
        if second.kind != "word":
            return False
        match first.word:
            case "interval":
                # After a column named `interval` comes a type, and no type has the name of a unit.
                return second.word not in (*_DAY_TIME_UNITS, *_YEAR_MONTH_UNITS)
            case "string":
                return second.word != "collate"
            case "timestamp":
                return second.word not in ("with", "without")
        return True

    def _type(self, depth: int) -> pa.DataType:
        if depth > MAX_DEPTH:
            self._fail(f"at most {MAX_DEPTH} types inside each other")
        token = self._peek()
        name = token.word
        if name in _UNSUPPORTED:
            self._refuse(_UNSUPPORTED[name])
        if name not in _TYPES:
            close = difflib.get_close_matches(name, _TYPES, n=1)
            self._fail("a type" + (f" (is {close[0]!r} meant?)" if close else f" ({', '.join(sorted(_TYPES))})"))
        self._next += 1
        if name in _SIMPLE:
            return _SIMPLE[name]
        match name:
            case "string":
                if self._accept("collate"):
                    self._name("a collation")
                return pa.string()
            case "char" | "character" | "varchar":
                self._numbers(1, f"the length of {name}")
                return pa.string()
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "timestamp":
                return self._timestamp()
            case "time":
                return self._time()
            case "interval":
                return self._interval(token)
        self._expect("<")
        if name == "array":
            result = pa.list_(pa.field("element", self._type(depth + 1)))
        elif name == "map":
            key = self._type(depth + 1)
            self._expect(",")
            result = pa.map_(key, self._type(depth + 1))
        else:
            result = self._columns(depth + 1)
        self._expect(">")
        return result

    def _columns(self, depth: int) -> pa.DataType:
        fields: dict[str, pa.Field] = {}
        while True:
            token = self._peek()
            name = self._name("the name of a column")
            if name in fields:
                self._refuse(f"there are two columns {name!r}", token)
            self._accept(":")
            column_type = self._type(depth)
            fields[name] = pa.field(name, column_type, nullable=self._column_options())
            if not self._accept(","):
                return pa.struct(list(fields.values()))

    def _column_options(self) -> bool:
        """Whether the column may be null."""
        nullable = not self._accept("not")
        if not nullable:
            self._expect("null")
        if self._accept("comment"):
            if self._peek().kind != "text":
                self._fail("a comment in quotes")
            while self._peek().kind == "text":
                self._next += 1
        return nullable

    def _decimal(self) -> pa.DataType:
        token = self._peek()
        precision, scale = 10, 0
        if token.word == "(":
            precision, scale = (*self._numbers(2, "precision and scale"), 0)[:2]
        if not 1 <= precision <= _MAX_DECIMAL_PRECISION or scale > precision:
            self._refuse(
                f"a decimal has a precision of 1 to {_MAX_DECIMAL_PRECISION} and a scale of at most its precision",
                token,
            )
        return pa.decimal128(precision, scale)

    def _timestamp(self) -> pa.DataType:
        if self._accept("without"):
            self._expect("time", "zone")
            return _SIMPLE["timestamp_ntz"]
        if self._accept("with"):
            self._expect("local", "time", "zone")
        return _SIMPLE["timestamp_ltz"]

    def _time(self) -> pa.DataType:
        token = self._peek()
        if token.word == "(" and self._numbers(1, "a precision")[0] > _MAX_TIME_PRECISION:
            self._refuse(f"a time has a precision of 0 to {_MAX_TIME_PRECISION}", token)
        return pa.time64("ns")

    def _interval(self, token: _Token) -> pa.DataType:
        start = self._peek().word
        if start in _YEAR_MONTH_UNITS:
            self._refuse("an interval of years and months cannot be held in state; use int, and count months", token)
        if start not in _DAY_TIME_UNITS:
            self._refuse("an interval cannot be held in state; say `interval day to second`", token)
        self._next += 1
        if self._accept("to"):
            ends = _DAY_TIME_UNITS[_DAY_TIME_UNITS.index(start) + 1 :]
            if self._peek().word not in ends:
                self._fail(" or ".join(ends) or "no unit behind `second`")
            self._next += 1
        return pa.duration("us")

    def _numbers(self, most: int, what: str) -> list[int]:
        self._expect("(")
        numbers: list[int] = []
        while True:
            token = self._peek()
            # The length is bounded because int() raises its own error for thousands of digits.
            if not (token.word.isascii() and token.word.isdecimal() and len(token.word) < 10):
                self._fail(f"{what} as a number")
            numbers.append(int(token.word))
            self._next += 1
            if len(numbers) == most or not self._accept(","):
                self._expect(")")
                return numbers

    def _name(self, what: str) -> str:
        token = self._peek()
        if token.kind != "quoted" and (token.kind != "word" or token.value.isdecimal()):
            self._fail(what)
        self._next += 1
        return token.value.replace("``", "`")

    def _expect(self, *words: str) -> None:
        for word in words:
            if not self._accept(word):
                self._fail(f"{word.upper()!r}")

    def _accept(self, word: str) -> bool:
        """Go past a word or sign, if it is the next one."""
        is_next = self._peek().word == word
        self._next += is_next
        return is_next

    def _peek(self, ahead: int = 0) -> _Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _tokenize(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                self._raise_at(position, f"{self._text[position]!r} has no meaning here, or is not closed")
            if match.lastgroup != "space":
                tokens.append(_Token(match.lastgroup, match[match.lastgroup], position))
            position = match.end()
        return [*tokens, _Token("end", "", len(self._text))]

    def _fail(self, expected: str) -> NoReturn:
        token = self._peek()
        self._raise_at(token.position, f"expected {expected}, found {token}")

    def _refuse(self, problem: str, token: _Token | None = None) -> NoReturn:
        self._raise_at((token or self._peek()).position, problem)

    def _raise_at(self, position: int, problem: str) -> NoReturn:
        start = max(0, position - _EXCERPT_CHARACTERS // 2)
        excerpt = re.sub(r"\s", " ", self._text[start : start + _EXCERPT_CHARACTERS])
        raise ConfigurationError(
            f"cannot read a type, at character {position + 1}: {problem}\n  {excerpt}\n  {' ' * (position - start)}^"
        )
