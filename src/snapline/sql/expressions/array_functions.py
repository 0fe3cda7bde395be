"""Arrays made, joined, cut, sorted and changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.array_access import raise_index_of_zero
from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.integers import integers
from snapline.sql.expressions.lists import Lists, list_array, lists, ranges, relabelled
from snapline.sql.expressions.ranks import ranks
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.values import Bools, of_arrays, valid
from snapline.sql.plans.trees import Expression

MAX_LENGTH = 2**31 - 16
"""How many elements Spark allows in an array."""


@kernel("CreateArray", reads_all=True)
def _array(expression: Expression) -> Kernel:
    type = expression.type
    return lambda values, rows: interleaved(values, rows, type)


def interleaved(values: Sequence[Value], rows: int, type: pa.DataType) -> pa.Array:
    """For each row, the list of its values."""
    everywhere = np.ones(rows, np.bool_)
    lengths = np.full(rows, len(values))
    if not values:
        return list_array(pa.nulls(0, type.value_type), lengths, everywhere, type)
    columns = pa.concat_arrays([relabelled(as_array(value, rows), type.value_type) for value in values])
    order = np.arange(len(values) * rows).reshape(len(values), rows).T.reshape(-1)
    return list_array(columns.take(pa.array(order)), lengths, everywhere, type)


@kernel("KnownNotContainsNull")
def _same(expression: Expression) -> Kernel:
    return of_arrays(lambda array: relabelled(array, expression.type))


@kernel("ArrayMax", "ArrayMin")
def _extreme(expression: Expression) -> Kernel:
    greatest = expression.kind == "ArrayMax"

    def compute(array: pa.Array) -> pa.Array:
        parts = lists(array)
        numbers = ranks(parts.elements)
        known = np.flatnonzero(numbers >= 0)
        rows, numbers = parts.rows[known], numbers[known]
        # The first one of each row in this order is the wanted one, and the first of equals.
        order = order_in_rows(-numbers if greatest else numbers, rows)
        found, places = np.unique(rows[order], return_index=True)
        indices = np.zeros(len(array), np.int64)
        absent = np.ones(len(array), np.bool_)
        indices[found] = known[order[places]]
        absent[found] = False
        return parts.elements.take(pa.array(indices, mask=absent))

    return of_arrays(compute)


@kernel("SortArray")
def _sorted(expression: Expression) -> Kernel:
    def compute(array: pa.Array, ascending: pa.Array) -> pa.Array:
        parts = lists(array)
        sign = np.where(np.asarray(ascending.fill_null(True).cast(pa.int8())) != 0, 1, -1)
        return sorted_lists(parts, ranks(parts.elements) * sign[parts.rows]).array(expression.type)

    return of_arrays(compute)


def sorted_lists(parts: Lists, numbers: Integers) -> Lists:
    """The elements of each row in the order of their numbers."""
    return parts.arranged(order_in_rows(numbers, parts.rows))


def order_in_rows(numbers: Integers, rows: Integers) -> Integers:
    """The order of the elements by row, and in each row by their numbers; equal ones stay as they are."""
    if not len(numbers):
        return np.zeros(0, np.int64)
    least, width = int(numbers.min()), int(numbers.max()) - int(numbers.min()) + 1
    if width > 2**62 // (int(rows[-1]) + 1):
        return np.lexsort((numbers, rows))
    return np.argsort(rows * width + (numbers - least), kind="stable")


@kernel("Slice")
def _slice(expression: Expression) -> Kernel:
    def compute(array: pa.Array, starts: pa.Array, lengths: pa.Array) -> pa.Array:
        parts, start, length = lists(array), integers(starts), integers(lengths)
        there = valid(array, starts, lengths)
        if (there & ((start == 0) | (length < 0))).any():
            _raise_bad_slice(there, start, length)
        begin = np.where(start > 0, start - 1, parts.lengths + start)
        count = np.where((begin < 0) | ~there, 0, np.clip(np.minimum(length, parts.lengths - begin), 0, None))
        elements = parts.elements.take(pa.array(ranges(parts.starts + begin, count)))
        return list_array(elements, count, there, expression.type)

    return of_arrays(compute)


def _raise_bad_slice(there: Bools, start: Integers, length: Integers) -> None:
    row = int(np.argmax(there & ((start == 0) | (length < 0))))
    if start[row] == 0:
        raise SparkError("INVALID_PARAMETER_VALUE.START", "Expects a positive or a negative value for `start`.")
    raise SparkError("INVALID_PARAMETER_VALUE.LENGTH", "Expects `length` greater than or equal to 0.")


@kernel("Flatten")
def _flattened(expression: Expression) -> Kernel:
    def compute(array: pa.Array) -> pa.Array:
        outer = lists(array)
        inner = lists(outer.elements)
        there = outer.there & (np.bincount(outer.rows[~inner.there], minlength=len(array)) == 0)
        kept = inner.chosen(np.repeat(there[outer.rows], inner.lengths))
        lengths = np.bincount(np.repeat(outer.rows, kept.lengths), minlength=len(array))
        return list_array(kept.elements, lengths, there, expression.type)

    return of_arrays(compute)


@kernel("ArrayRepeat", order=(1, 0))
def _repeated(expression: Expression) -> Kernel:
    def compute(values: pa.Array, counts: pa.Array) -> pa.Array:
        count = np.clip(integers(counts), 0, None)
        if count.max(initial=0) > MAX_LENGTH:
            raise_too_long()
        indices = np.repeat(np.arange(len(values)), count)
        return list_array(values.take(pa.array(indices)), count, valid(counts), expression.type)

    return of_arrays(compute)


def raise_too_long() -> None:
    """Raise what Spark does for an array with too many elements."""
    raise SparkError("COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER", "Cannot create array: too many elements.")


@kernel("ArrayJoin")
def _text(expression: Expression) -> Kernel:
    def compute(array: pa.Array, delimiters: pa.Array, replacements: pa.Array | None = None) -> pa.Array:
        parts = lists(array)
        there = valid(array, delimiters, *([] if replacements is None else [replacements]))
        if replacements is None:
            parts = parts.chosen(valid(parts.elements))
        elif parts.elements.null_count:
            filled = pc.coalesce(parts.elements, replacements.take(pa.array(parts.rows)))
            parts = Lists(filled.fill_null(""), parts.lengths, parts.there)
        joined = pc.binary_join(parts.array(pa.list_(pa.string())), delimiters)
        return pc.if_else(pa.array(there), joined, pa.scalar(None, expression.type))

    return of_arrays(compute)


@kernel("ArrayInsert")
def _inserted(expression: Expression) -> Kernel:
    legacy = bool(expression.arguments.get("legacyNegativeIndex"))

    def compute(array: pa.Array, positions: pa.Array, items: pa.Array) -> pa.Array:
        parts, position = lists(array), integers(positions)
        there = valid(array, positions)
        if (there & (position == 0)).any():
            raise_index_of_zero()
        parts = Lists(*_of_rows(parts, there), there)
        from_end = np.where(legacy, 1, 0) - position
        size = parts.lengths
        total = np.where(there, np.maximum(size + 1, np.where(position > 0, position, from_end)), 0)
        if total.max(initial=0) > MAX_LENGTH:
            raise_too_long()
        place = np.where(position > 0, position - 1, total - from_end)
        return list_array(_with_items(parts, total, place, position < 0, items), total, there, expression.type)

    return of_arrays(compute)


def _of_rows(parts: Lists, there: Bools) -> tuple[pa.Array, Integers]:
    kept = parts.chosen(there[parts.rows])
    return kept.elements, kept.lengths


def _with_items(parts: Lists, total: Integers, place: Integers, is_from_end: Bools, items: pa.Array) -> pa.Array:
    """The elements of longer lists: the old ones, the new item of each row at its place, nulls between."""
    rows, position = parts.rows, parts.positions
    begin = np.cumsum(total) - total
    # Before the new item an element keeps its place; after it, it counts from the end if the index did.
    moved = np.where(is_from_end[rows], position + (total - parts.lengths)[rows], position + 1)
    stays = np.where(is_from_end[rows], moved <= place[rows], position < place[rows])
    source = np.full(int(total.sum()), -1)
    source[begin[rows] + np.where(stays, position, moved)] = np.arange(len(rows))
    new = np.flatnonzero(parts.there)
    source[begin[new] + place[new]] = len(rows) + new
    joined = pa.concat_arrays([parts.elements, relabelled(items, parts.elements.type)])
    return joined.take(pa.array(np.maximum(source, 0), mask=source < 0))


@kernel("ArraysZip", reads_all=True)
def _zipped(expression: Expression) -> Kernel:
    type = expression.type
    fields = list(type.value_type)

    def compute(values: Sequence[Value], rows: int) -> Value:
        if not values:
            return pa.scalar([], type)
        return of_arrays(zipped)(values, rows)

    def zipped(*arrays: pa.Array) -> pa.Array:
        there = valid(*arrays)
        columns, lengths = aligned([lists(array) for array in arrays], there)
        children = [relabelled(column, field.type) for column, field in zip(columns, fields, strict=True)]
        return list_array(pa.StructArray.from_arrays(children, fields=fields), lengths, there, type)

    return compute


def aligned(parts: Sequence[Lists], there: Bools) -> tuple[list[pa.Array], Integers]:
    """The elements of several lists side by side, the shorter ones filled with nulls, and the lengths in common."""
    longest = np.where(there, np.max([part.lengths for part in parts], axis=0), 0)
    rows = np.repeat(np.arange(len(longest)), longest)
    position = ranges(np.zeros(len(longest), np.int64), longest)
    columns = []
    for part in parts:
        inside = position < part.lengths[rows]
        columns.append(part.elements.take(pa.array(np.where(inside, part.starts[rows] + position, 0), mask=~inside)))
    return columns, longest


@kernel("Shuffle")
def _shuffled(expression: Expression) -> Kernel:
    seed = expression.arguments.get("randomSeed")
    generator = np.random.default_rng(None if seed is None else seed % 2**64)

    def compute(array: pa.Array) -> pa.Array:
        parts = lists(array)
        return sorted_lists(parts, generator.permutation(len(parts.elements))).array(expression.type)

    return of_arrays(compute)
