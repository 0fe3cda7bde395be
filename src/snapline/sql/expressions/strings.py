"""Letters, lengths and single characters of strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.expressions.text_buffers import TextBuffer
from snapline.sql.plans.trees import Expression

_SIGMA: Final = "\u03a3"


@kernel("Upper")
def _upper(_expression: Expression) -> Kernel:
    return _by_script(pc.ascii_upper, str.upper)


@kernel("Lower")
def _lower(_expression: Expression) -> Kernel:
    return _by_script(pc.ascii_lower, str.lower)


@kernel("InitCap")
def _initcap(_expression: Expression) -> Kernel:
    return rowwise(title_case, pa.string())


@kernel("Length")
def _length(expression: Expression) -> Kernel:
    function = pc.utf8_length if pa.types.is_string(expression.children[0].type) else pc.binary_length
    return lambda values, _rows: function(values[0])


@kernel("OctetLength")
def _octet_length(_expression: Expression) -> Kernel:
    return lambda values, _rows: pc.binary_length(values[0])


@kernel("BitLength")
def _bit_length(_expression: Expression) -> Kernel:
    return lambda values, _rows: pc.multiply(pc.binary_length(values[0]), pa.scalar(8, pa.int32()))


@kernel("Ascii")
def _ascii(_expression: Expression) -> Kernel:
    return rowwise(lambda text: ord(text[0]) if text else 0, pa.int32())


@kernel("Chr")
def _chr(_expression: Expression) -> Kernel:
    return rowwise(lambda number: "" if number < 0 else chr(number & 0xFF), pa.string())


@kernel("SoundEx")
def _soundex(_expression: Expression) -> Kernel:
    return rowwise(soundex, pa.string())


@kernel("Empty2Null")
def _empty_to_null(_expression: Expression) -> Kernel:
    def run(values: Sequence[Value], _rows: int) -> Value:
        return pc.if_else(pc.equal(values[0], ""), pa.scalar(None, pa.string()), values[0])

    return run


@kernel("Quote")
def _quote(_expression: Expression) -> Kernel:
    return rowwise(lambda text: "'" + text.replace("'", "\\'") + "'", pa.string())


def _by_script(of_ascii: Callable[[Any], Any], of_text: Callable[[str], str]) -> Kernel:
    of_any = rowwise(of_text, pa.string())

    def run(values: Sequence[Value], rows: int) -> Value:
        value = values[0]
        if isinstance(value, pa.Array) and TextBuffer(value).is_ascii:
            return of_ascii(value)
        return of_any(values, rows)

    return run


def title_case(text: str) -> str:
    """The first letter of each word in title case, all others in lower case. Only spaces separate words."""
    words = (word[:1].title() + "".join(map(_small, word[1:])) for word in text.split(" "))
    return _with_small_sigmas(" ".join(words)) if _SIGMA in text else " ".join(words)


def _small(char: str) -> str:
    return char if char == _SIGMA else char.lower()


def _with_small_sigmas(text: str) -> str:
    return "".join(_small_sigma(text, position) if char == _SIGMA else char for position, char in enumerate(text))


def _small_sigma(text: str, position: int) -> str:
    """The sigma at a position in lower case, unless it begins a word; after the last letter it has another form."""
    if position == 0 or text[position - 1] == " ":
        return _SIGMA
    is_last = f"a{text[position:]}".lower()[1] != "\u03c3"
    return text[: position + 1].lower()[-1] if is_last else "\u03c3"


_SOUNDS: Final = {
    letter: digit
    for letters, digit in (("BFPV", "1"), ("CGJKQSXZ", "2"), ("DT", "3"), ("L", "4"), ("MN", "5"), ("R", "6"))
    for letter in letters
}


def soundex(text: str) -> str:
    """The Soundex code of a word; texts that begin with no ASCII letter stay as they are."""
    upper = "".join(chr(ord(c) - 32) if "a" <= c <= "z" else c for c in text)
    if not upper or not "A" <= upper[0] <= "Z":
        return text
    code = [upper[0]]
    last = _SOUNDS.get(upper[0], "0")
    for letter in upper[1:]:
        if not "A" <= letter <= "Z":
            last = "0"
        elif letter in _SOUNDS:
            if _SOUNDS[letter] != last:
                code.append(_SOUNDS[letter])
                if len(code) == 4:
                    break
            last = _SOUNDS[letter]
        elif letter not in "HW":
            last = "0"
    return "".join(code).ljust(4, "0")
