"""Reads Java's regular expressions and writes them in the syntax of Python and of RE2.

Flags are resolved on the way: what is written has none, so that both engines read it in the same way.
"""

from __future__ import annotations

import re
from re import _parser  # the parser that `re` itself uses
from typing import Final

from snapline.sql.expressions import code_points
from snapline.sql.expressions.character_classes import python_point, ranges, re2_point, units_class, word_boundary
from snapline.sql.expressions.code_points import CodePoints
from snapline.sql.expressions.registry import UnsupportedError

_ENDS: Final = r"\n\r\x85\u2028\u2029"
_END_OF_TEXT: Final = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
_LINE_START: Final = r"(?:\A|(?:(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))(?!\Z))"
_LINE_END: Final = r"(?=[\r\x85\u2028\u2029]|(?<!\r)\n|\Z)"
_LINE_BREAK: Final = r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
_RE2_END_OF_TEXT: Final = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"

_CLASSES: Final[dict[str, CodePoints]] = {
    "d": code_points.DIGITS,
    "w": code_points.WORDS,
    "s": code_points.SPACES,
    "h": code_points.HORIZONTAL,
    "v": code_points.VERTICAL,
}
_CLASSES.update({name.upper(): code_points.complement(points) for name, points in list(_CLASSES.items())})
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_REPETITION = re.compile(r"\{(\d+)(,(\d*))?\}")


class PatternError(Exception):
    """Java knows no such regular expression."""


class JavaPatternParser:
    """Reads a Java pattern and writes it for Python and RE2, part by part.

    With `in_units`, what is written for Python is for texts whose characters beyond 16 bits stand as two halves.
    """

    def __init__(self, pattern: str, *, in_units: bool = False) -> None:
        self._in_units = in_units
        self._pattern = _without_quotation(pattern)
        self._position = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = 0
        self._names: set[str] = set()
        self.python: list[str] = []
        self.re2: list[str] = []
        self.is_portable = True
        self.is_exact = True

    def parse(self) -> None:
        self._alternatives(depth=0)
        if self._position < len(self._pattern):
            raise PatternError("Unmatched closing ')'")

    # Reading.

    def _peek(self, size: int = 1) -> str:
        return self._pattern[self._position : self._position + size]

    def _take(self, size: int = 1) -> str:
        taken = self._peek(size)
        if len(taken) < size:
            raise PatternError("Unexpected end of the pattern")
        self._position += size
        return taken

    def _until(self, mark: str) -> str:
        end = self._pattern.find(mark, self._position)
        if end < 0:
            raise PatternError(f"{mark!r} is missing")
        taken = self._pattern[self._position : end]
        self._position = end + len(mark)
        return taken

    # Writing.

    def _write(self, python: str, re2: str | None = None) -> None:
        self.python.append(python)
        if re2 is None:
            self.is_portable = False
        else:
            self.re2.append(re2)

    def _write_points(self, points: CodePoints) -> None:
        if not points:
            self._write("(?!)")
            return
        python = units_class(points) if self._in_units else f"[{ranges(points, python_point)}]"
        self._write(python, f"[{ranges(points, re2_point)}]")

    def _write_char(self, char: str) -> None:
        if "i" in self._flags and "u" in self._flags:
            self._write(f"(?i:{re.escape(char)})")
        elif "i" in self._flags and char.isascii() and char.isalpha():
            self._write_points(code_points.with_other_case(code_points.characters(char)))
        elif self._in_units and ord(char) > code_points.LAST_UNIT:
            self._write_points(code_points.characters(char))
        else:
            self._write(re.escape(char), _re2_char(char))

    # Grammar.

    def _alternatives(self, depth: int) -> None:
        flags = self._flags
        while (char := self._peek()) and char != ")":
            if char == "|":
                self._take()
                self._write("|", "|")
            elif "x" in self._flags and char in " \t\n\x0b\f\r":
                self._take()
            elif "x" in self._flags and char == "#":
                while self._peek() not in ("", "\n"):
                    self._take()
            else:
                self._item(depth)
        self._flags = flags

    def _item(self, depth: int) -> None:
        written, portable = len(self.python), len(self.re2)
        groups = self._groups
        char = self._take()
        can_repeat = True
        if char == "(":
            can_repeat = self._group(depth)
        elif char == "[":
            self._write_class(self._class())
        elif char == "\\":
            self._escape()
        elif char == ".":
            self._dot()
        elif char == "^":
            self._write(_LINE_START if "m" in self._flags else r"(?:\A)", None if "m" in self._flags else r"(?:\A)")
        elif char == "$":
            self._dollar(depth)
        elif char in "*+?":
            raise PatternError(f"Dangling meta character {char!r}")
        elif char == "{":
            raise PatternError("Illegal repetition")
        else:
            self._write_char(char)
        if can_repeat:
            self._repetition(written, portable, self._groups > groups)

    def _repetition(self, written: int, portable: int, has_groups: bool) -> None:
        while "x" in self._flags and self._peek() and self._peek() in " \t\n\x0b\f\r":
            self._take()
        char = self._peek()
        if not char or char not in "*+?{":
            return
        if char == "{":
            found = _REPETITION.match(self._pattern, self._position)
            if found is None:
                raise PatternError("Illegal repetition")
            low, high = int(found[1]), int(found[3]) if found[3] else None
            if high is not None and high < low:
                raise PatternError("Illegal repetition range")
            quantifier = self._take(len(found[0]))
            if low > 1000 or (high or 0) > 1000:
                self.is_portable = False
        else:
            quantifier = self._take()
        follow = self._peek()
        mark = self._take() if follow and follow in "?+" else ""
        item, item_in_re2 = "".join(self.python[written:]), "".join(self.re2[portable:])
        del self.python[written:], self.re2[portable:]
        repeated = None if mark == "+" or not self.is_portable else f"(?:{item_in_re2}){quantifier}{mark}"
        self._write(f"(?:{item}){quantifier}{mark}", repeated)
        # What a group holds after several rounds, and where rounds without characters end, differs between engines.
        if has_groups or (quantifier != "?" and not is_never_empty(item)):
            self.is_exact = False
        if self._peek() and self._peek() in "*+?":
            raise PatternError(f"Dangling meta character {self._peek()!r}")

    def _group(self, depth: int) -> bool:
        """Reads a group after its parenthesis; false for a change of flags, which is nothing to repeat."""
        flags = self._flags
        if self._peek() != "?":
            self._groups += 1
            self._write("(", "(")
        else:
            self._take()
            if not self._special_group():
                return False
        self._alternatives(depth + 1)
        if self._peek() != ")":
            raise PatternError("Unclosed group")
        self._take()
        self._write(")", ")")
        self._flags = flags
        return True

    def _special_group(self) -> bool:
        kind = self._take()
        if kind == ":":
            self._write("(?:", "(?:")
        elif kind in "=!>":
            self._write(f"(?{kind}")
        elif kind == "<" and self._peek() in ("=", "!"):
            self._write(f"(?<{self._take()}")
        elif kind == "<":
            name = self._until(">")
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name):
                raise PatternError("capturing group name does not start with a Latin letter")
            if name in self._names:
                raise PatternError(f"Named capturing group <{name}> is already defined")
            self._names.add(name)
            self._groups += 1
            self._write(f"(?P<{name}>", "(")
        else:
            return self._flag_group(kind)
        return True

    def _flag_group(self, char: str) -> bool:
        adds = True
        flags = set(self._flags)
        while char not in (":", ")"):
            if char == "-":
                adds = False
            elif char not in "idmsuxU":
                raise PatternError("Unknown inline modifier")
            elif char == "U":
                raise UnsupportedError(f"the flag U of regular expressions is not supported: {self._pattern}")
            elif adds:
                flags.add(char)
            else:
                flags.discard(char)
            char = self._take()
        self._flags = frozenset(flags)
        if char == ":":
            self._write("(?:", "(?:")
        return char == ":"

    def _dot(self) -> None:
        if self._in_units:
            ends = "" if "s" in self._flags else "\n" if "d" in self._flags else "\n\r\x85\u2028\u2029"
            self._write_points(code_points.complement(code_points.characters(ends)))
        elif "s" in self._flags:
            self._write(r"[\s\S]", r"(?s:.)")
        elif "d" in self._flags:
            self._write(r"[^\n]", r"[^\n]")
        else:
            self._write(rf"[^{_ENDS}]", r"[^\n\r\x{85}\x{2028}\x{2029}]")

    def _dollar(self, depth: int) -> None:
        is_last = depth == 0 and self._position == len(self._pattern)
        if "m" in self._flags:
            self._write(_LINE_END)
        elif is_last and "|" not in self._pattern:
            self._write(_END_OF_TEXT, _RE2_END_OF_TEXT)
            self.is_exact = False
        else:
            self._write(_END_OF_TEXT)

    # Escapes.

    def _escape(self) -> None:
        char = self._take()
        if char in _CLASSES:
            self._write_points(_CLASSES[char])
        elif char in "pP":
            self._write_points(self._property(char))
        elif char in "123456789":
            self._back_reference(char)
        elif char in "bB":
            if self._peek() == "{":
                raise UnsupportedError(f"\\b{{g}} is not supported: {self._pattern}")
            self._write(f"(?:{word_boundary()})" if char == "b" else f"(?!{word_boundary()})")
        elif char == "A":
            self._write(r"(?:\A)", r"(?:\A)")
        elif char == "Z":
            self._write(_END_OF_TEXT)
        elif char == "z":
            self._write(r"(?:\Z)", r"(?:\z)")
        elif char == "R":
            self._write(_LINE_BREAK, r"(?:\r\n|[\n\x0b\f\r\x{85}\x{2028}\x{2029}])")
        elif char == "k":
            if self._take() != "<" or (name := self._until(">")) not in self._names:
                raise PatternError("named capturing group does not exist")
            self._write(f"(?P={name})")
        elif char in "GXN":
            raise UnsupportedError(f"\\{char} in a regular expression is not supported: {self._pattern}")
        else:
            self._write_char(self._escaped(char))

    def _back_reference(self, digits: str) -> None:
        while self._peek().isdigit() and int(digits + self._peek()) <= self._groups:
            digits += self._take()
        if int(digits) > self._groups or "i" in self._flags:
            raise UnsupportedError(f"the reference \\{digits} is not supported: {self._pattern}")
        self._write(f"(?:\\{digits})")

    def _escaped(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0":
            digits = re.compile(r"[0-3][0-7]{2}|[0-7]{1,2}").match(self._pattern, self._position)
            if digits is None:
                raise PatternError("Illegal octal escape sequence")
            return chr(int(self._take(len(digits[0])), 8))
        if char == "x":
            if self._peek() == "{":
                self._take()
                return _character(self._until("}"))
            return _character(self._take(2))
        if char == "u":
            return _character(self._take(4))
        if char == "c":
            return chr(ord(self._take()) ^ 64)
        if char.isascii() and char.isalpha():
            raise PatternError("Illegal/unsupported escape sequence")
        return char

    def _property(self, escape: str) -> CodePoints:
        name = self._take()
        if name == "{":
            name = self._until("}")
        points = code_points.named(name)
        if points is None:
            raise UnsupportedError(f"the class \\p{{{name}}} of characters is not supported: {self._pattern}")
        return points if escape == "p" else code_points.complement(points)

    # Classes of characters.

    def _write_class(self, points: CodePoints) -> None:
        if "i" in self._flags and "u" in self._flags:
            raise UnsupportedError(f"a class of characters with the flags iu is not supported: {self._pattern}")
        self._write_points(points)

    def _class(self) -> CodePoints:
        """Reads a class after its bracket."""
        is_negated = self._peek() == "^"
        if is_negated:
            self._take()
        points: list[tuple[int, int]] = []
        result: CodePoints | None = None
        is_first = True
        while (char := self._take()) != "]" or (is_first and result is None):
            if char == "[":
                points += self._class()
            elif char == "&" and self._peek() == "&":
                self._take()
                left = code_points.joined(points) if points or result is None else code_points.EVERY
                result = left if result is None else code_points.common(result, left)
                points = []
            elif "x" in self._flags and char in " \t\n\x0b\f\r":
                pass
            else:
                points += self._class_item(char)
            is_first = False
        whole = code_points.joined(points)
        if result is not None:
            whole = code_points.common(result, whole) if points else result
        return code_points.complement(whole) if is_negated else whole

    def _class_item(self, char: str) -> CodePoints:
        if char == "\\":
            escape = self._take()
            if escape in _CLASSES:
                return _CLASSES[escape]
            if escape in "pP":
                return self._property(escape)
            char = self._escaped(escape)
        if self._peek() == "-" and self._peek(2) not in ("-]", "-[", "-"):
            self._take()
            last = self._take()
            if last == "\\":
                last = self._escaped(self._take())
            if ord(last) < ord(char):
                raise PatternError("Illegal character range")
            return self._cased(((ord(char), ord(last)),))
        return self._cased(code_points.characters(char))

    def _cased(self, points: CodePoints) -> CodePoints:
        return code_points.with_other_case(points) if "i" in self._flags else points


def _without_quotation(pattern: str) -> str:
    r"""The pattern with `\Q...\E` as single characters, each escaped."""
    before, mark, rest = pattern.partition("\\Q")
    if not mark or (len(before) - len(before.rstrip("\\"))) % 2:
        return pattern
    quoted, _, after = rest.partition("\\E")
    return (
        before + "".join(c if c.isalnum() or not c.isascii() else f"\\{c}" for c in quoted) + _without_quotation(after)
    )


def _character(digits: str) -> str:
    try:
        return chr(int(digits, 16))
    except ValueError as error:
        raise PatternError("Illegal hexadecimal escape sequence") from error


def _re2_char(char: str) -> str:
    return char if char.isascii() and char.isalnum() else re2_point(ord(char))


def is_never_empty(text: str) -> bool:
    """Whether all matches have a character. Parts of expressions that cannot be parsed alone count as empty."""
    try:
        return bool(_parser.parse(text).getwidth()[0] > 0)
    except re.error:
        return False
