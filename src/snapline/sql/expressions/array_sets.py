"""Arrays searched for values and treated as sets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.lists import Lists, list_array, lists, relabelled
from snapline.sql.expressions.ranks import codes, matches, normalised
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.expressions.values import Bools, of_arrays, valid, with_nulls
from snapline.sql.plans.trees import Expression


def _any_by_row(parts: Lists, elements: Bools) -> Bools:
    """For each row, whether one of its elements is marked."""
    return np.bincount(parts.rows[elements], minlength=len(parts.lengths)) > 0


@kernel("ArrayContains")
def _contains(_expression: Expression) -> Kernel:
    def compute(array: pa.Array, values: pa.Array) -> pa.Array:
        parts = lists(array)
        found = _any_by_row(parts, matches(parts, values))
        there = valid(array, values) & (found | ~_any_by_row(parts, ~valid(parts.elements)))
        return with_nulls(found, there, pa.bool_())

    return of_arrays(compute)


@kernel("ArrayPosition")
def _position(_expression: Expression) -> Kernel:
    def compute(array: pa.Array, values: pa.Array) -> pa.Array:
        parts = lists(array)
        found = np.flatnonzero(matches(parts, values))[::-1]
        position = np.zeros(len(array), np.int64)
        position[parts.rows[found]] = parts.positions[found] + 1
        return with_nulls(position, valid(array, values), pa.int64())

    return of_arrays(compute)


@kernel("ArrayRemove")
def _without(expression: Expression) -> Kernel:
    def compute(array: pa.Array, values: pa.Array) -> pa.Array:
        parts = lists(array)
        kept = parts.chosen(~matches(parts, values) & valid(values)[parts.rows])
        return list_array(kept.elements, kept.lengths, valid(array, values), expression.type)

    return of_arrays(compute)


def _pairs(parts: Lists, numbers: Integers) -> Integers:
    """One number for row and value of each element."""
    return parts.rows * (int(numbers.max(initial=0)) + 2) + numbers + 1


def _firsts(pairs: Integers) -> Bools:
    """Which elements are the first ones of their value in their row."""
    result = np.zeros(len(pairs), np.bool_)
    result[np.unique(pairs, return_index=True)[1]] = True
    return result


@kernel("ArrayDistinct")
def _distinct(expression: Expression) -> Kernel:
    def compute(array: pa.Array) -> pa.Array:
        parts = _normalised(lists(array))
        return parts.chosen(_firsts(_pairs(parts, codes(parts.elements)[0]))).array(expression.type)

    return of_arrays(compute)


def _normalised(parts: Lists) -> Lists:
    return Lists(normalised(parts.elements), parts.lengths, parts.there)


def _with_common_nulls(array: pa.Array, there: Bools) -> Lists:
    """The lists of the rows that are `there`; the others count as null."""
    parts = _normalised(lists(array))
    if (there == parts.there).all():
        return parts
    kept = parts.chosen(there[parts.rows])
    return Lists(kept.elements, kept.lengths, there)


def joined(first: Lists, second: Lists) -> Lists:
    """The elements of both for each row, those of the first before those of the second."""
    order = np.argsort(np.concatenate([first.rows, second.rows]), kind="stable")
    elements = pa.concat_arrays([first.elements, relabelled(second.elements, first.elements.type)])
    return Lists(elements.take(pa.array(order)), first.lengths + second.lengths, first.there)


@kernel("ArrayUnion", "ArrayIntersect", "ArrayExcept")
def _set_operation(expression: Expression) -> Kernel:
    kind, type = expression.kind, expression.type

    def compute(left: pa.Array, right: pa.Array) -> pa.Array:
        there = valid(left, right)
        first, second = _with_common_nulls(left, there), _with_common_nulls(right, there)
        if kind == "ArrayUnion":
            both = joined(first, second)
            return both.chosen(_firsts(_pairs(both, codes(both.elements)[0]))).array(type)
        numbers, others = codes(first.elements, second.elements)
        width = int(max(numbers.max(initial=0), others.max(initial=0))) + 2
        pairs = first.rows * width + numbers + 1
        shared = np.isin(pairs, second.rows * width + others + 1)
        return first.chosen(_firsts(pairs) & (shared if kind == "ArrayIntersect" else ~shared)).array(type)

    return of_arrays(compute)


@kernel("ArraysOverlap")
def _overlap(_expression: Expression) -> Kernel:
    def compute(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = lists(left), lists(right)
        numbers, others = codes(first.elements, second.elements)
        width = int(max(numbers.max(initial=0), others.max(initial=0))) + 1
        shared = np.isin(first.rows * width + numbers, (second.rows * width + others)[others >= 0]) & (numbers >= 0)
        found = _any_by_row(first, shared)
        unknown = _any_by_row(first, numbers < 0) | _any_by_row(second, others < 0)
        unknown &= (first.lengths > 0) & (second.lengths > 0)
        return with_nulls(found, valid(left, right) & (found | ~unknown), pa.bool_())

    return of_arrays(compute)
