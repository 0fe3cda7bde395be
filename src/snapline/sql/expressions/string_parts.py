"""Parts of strings: substrings, trimming, padding, splitting at a delimiter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.expressions.text_buffers import TextBuffer
from snapline.sql.expressions.values import numbers, valid
from snapline.sql.plans.trees import Expression

_T = TypeVar("_T", str, bytes)

_MOST: Final = 2**31 - 1
_LEAST: Final = -(2**31)
_UNLIMITED: Final = 2**40
_MOST_IN_RE2: Final = 100


@kernel("Substring")
def _substring(expression: Expression) -> Kernel:
    slices = pc.utf8_slice_codeunits if pa.types.is_string(expression.type) else pc.binary_slice
    by_row = rowwise(substring, expression.type)

    def run(values: Sequence[Value], rows: int) -> Value:
        text, position, length = values
        if all(isinstance(value, pa.Scalar) for value in (position, length)):
            if not (position.is_valid and length.is_valid):
                return pa.scalar(None, expression.type)
            start, stop = _bounds(position.as_py(), length.as_py())
            return slices(text, start, stop) if stop is None or stop > start else slices(text, 0, 0)
        if isinstance(text, pa.Scalar):
            return by_row(values, rows)
        return _cut(text, as_array(position, rows), as_array(length, rows))

    return run


def _bounds(position: int, length: int) -> tuple[int, int | None]:
    """Where a substring begins and ends, as Python's slices count."""
    if length <= 0:
        return 0, 0
    if position >= 0:
        start = max(position - 1, 0)
        return start, min(start + length, _MOST)
    stop = position + length
    return position, stop if stop < 0 else None


def _cut(text: pa.Array, position: pa.Array, length: pa.Array) -> pa.Array:
    buffer = TextBuffer(text)
    first, size = (numbers(array).astype(np.int64) for array in (position, length))
    starts = np.where(first > 0, first - 1, np.where(first < 0, buffer.lengths + first, 0))
    stops = np.clip(starts + size, _LEAST, _MOST)
    cut = buffer.slices(starts, stops)
    there = valid(position, length)
    return cut if there.all() else pc.if_else(pa.array(there), cut, pa.scalar(None, text.type))


def substring(text: _T, position: int, length: int = _MOST) -> _T:
    """Spark's substring: positions begin at 1, 0 means 1, negative ones count from the end."""
    start = position - 1 if position > 0 else (len(text) + position if position < 0 else 0)
    stop = min(start + length, _MOST)
    return text[max(start, 0) : max(stop, 0)] if stop > start else text[:0]


@kernel("SubstringIndex")
def _substring_index(_expression: Expression) -> Kernel:
    by_row = rowwise(substring_index, pa.string())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, delimiter, count = values
        if isinstance(text, pa.Array) and isinstance(delimiter, pa.Scalar) and isinstance(count, pa.Scalar):
            mark, number = delimiter.as_py(), count.as_py()
            if mark is not None and len(mark) == 1 and number and abs(number) <= _MOST_IN_RE2:
                return pc.struct_field(pc.extract_regex(text, _part_expression(mark, number)), [0])
        return by_row(values, rows)

    return run


def _part_expression(delimiter: str, count: int) -> str:
    """What stands before the `count`-th delimiter, or after it from the end; all where there are not so many."""
    mark = f"\\x{{{ord(delimiter):x}}}"
    part = f"(?P<part>(?:[^{mark}]*{mark}){{0,{abs(count) - 1}}}[^{mark}]*)"
    return rf"\A{part}" if count > 0 else rf"{part}\z"


def substring_index(text: str, delimiter: str, count: int) -> str:
    """What stands before the `count`-th delimiter, or after it, counted from the end, if `count` is negative.

    Delimiters may overlap.
    """
    if not delimiter or not count:
        return ""
    position = -1 if count > 0 else len(text) - len(delimiter) + 1
    for _ in range(abs(count)):
        if count > 0:
            position = text.find(delimiter, position + 1)
        else:
            position = text.rfind(delimiter, 0, max(position - 1 + len(delimiter), 0)) if position > 0 else -1
        if position < 0:
            return text
    return text[:position] if count > 0 else text[position + len(delimiter) :]


def _trim(name: str, method: Callable[[str, str], str]) -> Callable[[Expression], Kernel]:
    trimmed = getattr(pc, name)

    def maker(_expression: Expression) -> Kernel:
        by_row = rowwise(method, pa.string())

        def run(values: Sequence[Value], rows: int) -> Value:
            characters = values[1] if len(values) > 1 else pa.scalar(" ")
            if not isinstance(characters, pa.Scalar):
                return by_row(values, rows)
            if not characters.is_valid:
                return pa.scalar(None, pa.string())
            return trimmed(values[0], characters=characters.as_py()) if characters.as_py() else values[0]

        return run

    return maker


kernel("StringTrim")(_trim("utf8_trim", str.strip))
kernel("StringTrimLeft")(_trim("utf8_ltrim", str.lstrip))
kernel("StringTrimRight")(_trim("utf8_rtrim", str.rstrip))


@kernel("StringLPad")
def _lpad(_expression: Expression) -> Kernel:
    return _pad(pc.utf8_lpad, left_padded)


@kernel("StringRPad")
def _rpad(_expression: Expression) -> Kernel:
    return _pad(pc.utf8_rpad, right_padded)


@kernel("BinaryPad", reads_all=True)
def _binary_pad(expression: Expression) -> Kernel:
    is_left = expression.arguments["funcName"] == "lpad"
    return rowwise(left_padded if is_left else right_padded, pa.binary())


def _pad(padded: Callable[..., Any], of_one: Callable[[str, int, str], str]) -> Kernel:
    by_row = rowwise(of_one, pa.string())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, length, pad = values
        if isinstance(text, pa.Array) and isinstance(length, pa.Scalar) and isinstance(pad, pa.Scalar):
            width, filler = length.as_py(), pad.as_py()
            if width is not None and filler is not None and width > 0 and len(filler) == 1:
                return pc.utf8_slice_codeunits(padded(text, width, padding=filler), 0, width)
        return by_row(values, rows)

    return run


def _filling(size: int, pad: _T) -> _T:
    return (pad * (size // len(pad) + 1))[:size]


def left_padded(text: _T, length: int, pad: _T) -> _T:
    """Exactly `length` characters: cut, or filled from the left by repeating `pad`."""
    missing = length - len(text)
    return text[: max(length, 0)] if missing <= 0 or not pad else _filling(missing, pad) + text


def right_padded(text: _T, length: int, pad: _T) -> _T:
    """Exactly `length` characters: cut, or filled from the right by repeating `pad`."""
    missing = length - len(text)
    return text[: max(length, 0)] if missing <= 0 or not pad else text + _filling(missing, pad)


@kernel("Overlay")
def _overlay(expression: Expression) -> Kernel:
    return rowwise(overlay, expression.type)


def overlay(text: _T, replacement: _T, position: int, length: int) -> _T:
    """The text with `length` characters from `position` replaced; negative: as many as the replacement has."""
    after = position + (length if length >= 0 else len(replacement))
    return substring(text, 1, position - 1) + replacement + substring(text, after, _UNLIMITED)


@kernel("StringSplitSQL")
def _split_sql(expression: Expression) -> Kernel:
    by_row = rowwise(lambda text, delimiter: text.split(delimiter) if delimiter else [text], expression.type)

    def run(values: Sequence[Value], rows: int) -> Value:
        text, delimiter = values
        if isinstance(text, pa.Array) and isinstance(delimiter, pa.Scalar) and delimiter.as_py():
            return pc.split_pattern(text, delimiter.as_py()).cast(expression.type)
        return by_row(values, rows)

    return run


@kernel("Reverse")
def _reverse(expression: Expression) -> Kernel:
    if pa.types.is_string(expression.type):
        return lambda values, _rows: pc.utf8_reverse(values[0])
    return _reversed_lists


def _reversed_lists(values: Sequence[Value], _rows: int) -> Value:
    if isinstance(values[0], pa.Scalar):
        return _reversed_lists([as_array(values[0], 1)], 1)[0]
    lists = values[0]
    offsets = lists.offsets.to_numpy().astype(np.int64)
    sizes = np.where(valid(lists), np.diff(offsets), 0)
    ends = offsets[:-1] + sizes
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    places = np.repeat(ends - 1 + begins[:-1], sizes) - np.arange(begins[-1])
    elements = lists.values.take(pa.array(places))
    mask = pa.array(~valid(lists)) if lists.null_count else None
    return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), elements, lists.type, mask=mask)
