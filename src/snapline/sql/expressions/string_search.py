"""Where a string is in another, and how alike two are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.expressions.text_buffers import TextBuffer
from snapline.sql.expressions.values import numbers, valid
from snapline.sql.plans.trees import Expression


def _has(text: Any, part: Any) -> bool:
    return part in text


def _begins(text: Any, part: Any) -> bool:
    return bool(text.startswith(part))


def _ends(text: Any, part: Any) -> bool:
    return bool(text.endswith(part))


def _predicate(of_pattern: Callable[[Any, Any], Any], of_one: Callable[[Any, Any], bool]) -> Kernel:
    by_row = rowwise(of_one, pa.bool_())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, part = values
        if isinstance(text, pa.Array) and isinstance(part, pa.Scalar) and part.is_valid:
            return of_pattern(text, part.as_py())
        return by_row(values, rows)

    return run


@kernel("Contains")
def _contains(_expression: Expression) -> Kernel:
    return _predicate(pc.match_substring, _has)


@kernel("StartsWith")
def _starts_with(_expression: Expression) -> Kernel:
    return _predicate(pc.starts_with, _begins)


@kernel("EndsWith")
def _ends_with(_expression: Expression) -> Kernel:
    return _predicate(pc.ends_with, _ends)


@kernel("BinaryPredicate", reads_all=True)
def _binary_predicate(expression: Expression) -> Kernel:
    return {
        "contains": _predicate(pc.match_substring, _has),
        "startswith": _predicate(pc.starts_with, _begins),
        "endswith": _predicate(pc.ends_with, _ends),
    }[expression.arguments["prettyName"].lower()]


@kernel("StringInstr")
def _instr(_expression: Expression) -> Kernel:
    by_row = rowwise(lambda text, part: text.find(part) + 1, pa.int32())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, part = values
        if isinstance(text, pa.Array) and isinstance(part, pa.Scalar) and part.as_py():
            return _positions(text, part.as_py())
        return by_row(values, rows)

    return run


def _positions(text: pa.Array, part: str) -> pa.Array:
    found = pc.find_substring(text, part)
    buffer = TextBuffer(text)
    if buffer.is_ascii:
        return pc.add(found, pa.scalar(1, pa.int32()))
    places = numbers(found, -1).astype(np.int64)
    counted = np.where(places < 0, 0, buffer.characters(np.maximum(places, 0)) + 1)
    return pa.array(counted.astype(np.int32), mask=~valid(text))


@kernel("StringLocate", order=(2, 0, 1))
def _locate(_expression: Expression) -> Kernel:
    by_row = rowwise(locate, pa.int32())

    def run(values: Sequence[Value], rows: int) -> Value:
        start = values[2]
        if isinstance(start, pa.Scalar):
            return by_row(values, rows) if start.is_valid else pa.scalar(0, pa.int32())
        found = as_array(by_row(values, rows), rows)
        return pc.if_else(start.is_valid(), found, pa.scalar(0, pa.int32()))

    return run


def locate(part: str, text: str, start: int) -> int:
    """The position of the first occurrence at or after `start`, from 1; 0 if there is none."""
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


@kernel("FindInSet")
def _find_in_set(_expression: Expression) -> Kernel:
    def position(word: str, words: str) -> int:
        listed = words.split(",")
        return listed.index(word) + 1 if word in listed else 0

    return rowwise(position, pa.int32())


@kernel("Levenshtein")
def _levenshtein(expression: Expression) -> Kernel:
    has_limit = len(expression.children) == 3
    return rowwise(limited_distance if has_limit else distance, pa.int32())


def distance(left: str, right: str) -> int:
    """How many characters must be inserted, deleted or replaced to make one text of the other."""
    costs = list(range(len(right) + 1))
    for row, char in enumerate(left, 1):
        diagonal, costs[0] = costs[0], row
        for column, other in enumerate(right, 1):
            cheapest = min(diagonal + (char != other), costs[column] + 1, costs[column - 1] + 1)
            diagonal, costs[column] = costs[column], cheapest
    return costs[-1]


def limited_distance(left: str, right: str, limit: int) -> int:
    """The distance, or -1 if it is above the limit."""
    if abs(len(left) - len(right)) > limit:
        return -1
    found = distance(left, right)
    return found if found <= limit else -1
