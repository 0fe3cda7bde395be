"""Classes of characters in the syntax of Python's and RE2's regular expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from snapline.sql.expressions import code_points
from snapline.sql.expressions.code_points import CodePoints

_NOT_LOW: Final = r"(?![\udc00-\udfff])"


def ranges(points: CodePoints, written: Callable[[int], str]) -> str:
    return "".join(written(low) if low == high else f"{written(low)}-{written(high)}" for low, high in points)


def python_point(point: int) -> str:
    return f"\\U{point:08x}"


def re2_point(point: int) -> str:
    return f"\\x{{{point:x}}}"


@cache
def word_boundary() -> str:
    """Between a letter, digit or mark on a letter, and something else."""
    points = [(ord("_"), ord("_")), *(code_points.named("LD") or ()), *(code_points.named("Mn") or ())]
    word = f"[{ranges(code_points.joined(points), python_point)}]"
    return f"(?<={word})(?!{word})|(?<!{word})(?={word})"


def units_class(points: CodePoints) -> str:
    """A class of characters where those beyond 16 bits are two halves; a half alone is a character of its own."""
    single = code_points.common(points, ((0, code_points.LAST_UNIT),))
    halves = code_points.common(single, (code_points.HIGH_HALVES,))
    rest = code_points.common(single, code_points.complement((code_points.HIGH_HALVES,)))
    parts = [f"[{ranges(each, python_point)}]{after}" for each, after in ((rest, ""), (halves, _NOT_LOW)) if each]
    for low, high in code_points.common(points, ((code_points.LAST_UNIT + 1, code_points.LAST),)):
        parts += _pairs(low - code_points.LAST_UNIT - 1, high - code_points.LAST_UNIT - 1)
    return f"(?:{'|'.join(parts)})"


def _pairs(low: int, high: int) -> list[str]:
    """The pairs of halves from one to another, counted from the first pair."""
    (first, start), (last, end) = divmod(low, 1024), divmod(high, 1024)
    if first == last:
        blocks = [(first, last, start, end)]
    else:
        blocks = [(first, first, start, 1023), (first + 1, last - 1, 0, 1023), (last, last, 0, end)]
    return [
        f"{_half_class(0xD800, high, higher)}{_half_class(0xDC00, low_start, low_end)}"
        for high, higher, low_start, low_end in blocks
        if high <= higher
    ]


def _half_class(base: int, first: int, last: int) -> str:
    return f"[{python_point(base + first)}-{python_point(base + last)}]"
