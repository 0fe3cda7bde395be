"""Strings made of others: concatenation, repetition, replacement of parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Frame, Value, as_array, spread
from snapline.sql.expressions.registry import Evaluator, Kernel, SparkError, UnsupportedError, form, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.expressions.values import first, numbers, valid
from snapline.sql.plans.trees import Expression


@form("Concat")
def _concat(expression: Expression, compile: Callable[[Expression], Evaluator]) -> Evaluator:
    """Spark computes all texts, but no array after one that is null."""
    compute = _concat_kernel(expression)
    children = [compile(child) for child in expression.children]
    stops = pa.types.is_list(expression.type)

    def evaluate(frame: Frame) -> Value:
        values: list[Value] = []
        rows: pa.Array | None = None
        for child in children:
            value = child(frame) if rows is None else spread(child(frame.take(rows)), rows, frame.rows)
            values.append(value)
            if stops and frame.careful:
                rows = pc.indices_nonzero(as_array(value, frame.rows).is_valid())
        return compute(values, frame.rows)

    return evaluate


def _concat_kernel(expression: Expression) -> Kernel:
    if not expression.children:
        return lambda _values, _rows: pa.scalar("")
    if pa.types.is_list(expression.type):
        return lambda values, rows: _concatenated_lists(values, rows, expression.type)
    if not (pa.types.is_string(expression.type) or pa.types.is_binary(expression.type)):
        raise UnsupportedError(f"concat of {expression.type} is not supported: {expression.text}")
    empty = pa.scalar("", expression.type)
    return lambda values, _rows: pc.binary_join_element_wise(*values, empty) if len(values) > 1 else values[0]


def _concatenated_lists(values: Sequence[Value], rows: int, type: pa.DataType) -> Value:
    if all(isinstance(value, pa.Scalar) for value in values):
        return _concatenated_lists([as_array(value, 1) for value in values], 1, type)[0]
    arrays = [as_array(value, rows) for value in values]
    lists = [array if array.type == type else array.cast(type) for array in arrays]
    there = valid(*lists)
    starts = [array.offsets.to_numpy().astype(np.int64)[:-1] for array in lists]
    sizes = [np.where(there, np.diff(array.offsets.to_numpy()), 0).astype(np.int64) for array in lists]
    bases = np.cumsum([0, *(len(array.values) for array in lists)])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.sum(sizes, axis=0))])
    places = np.zeros(offsets[-1], np.int64)
    begins = offsets[:-1]
    for start, size, base in zip(starts, sizes, bases, strict=False):
        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        places[np.repeat(begins, size) + within] = np.repeat(start + base, size) + within
        begins = begins + size
    elements = pa.chunked_array([array.values for array in lists]).combine_chunks().take(pa.array(places))
    mask = None if there.all() else pa.array(~there)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type, mask=mask)


@kernel("ConcatWs", reads_all=True)
def _concat_ws(_expression: Expression) -> Kernel:
    def run(values: Sequence[Value], rows: int) -> Value:
        separator, *parts = values
        if all(isinstance(value, pa.Scalar) for value in values):
            return _joined([as_array(value, 1) for value in parts], as_array(separator, 1))[0]
        return _joined([as_array(value, rows) for value in parts], as_array(separator, rows))

    return run


def _joined(parts: list[pa.Array], separator: pa.Array) -> pa.Array:
    if not parts:
        return pc.if_else(separator.is_valid(), pa.scalar(""), pa.scalar(None, pa.string()))
    texts = [
        _joined_lists(part, separator) if pa.types.is_list(part.type) else part.cast(pa.string()) for part in parts
    ]
    # Arrow leaves a row out where everything is null.
    nothing = pa.array(~np.any([valid(text) for text in texts], axis=0))
    texts[0] = pc.if_else(nothing, pa.scalar(""), texts[0])
    return pc.binary_join_element_wise(*texts, separator, null_handling="skip")


def _joined_lists(lists: pa.Array, separator: pa.Array) -> pa.Array:
    """The elements of each list, joined; null where there are none, so that no separator stands for them."""
    elements = lists.values
    kept = valid(elements)
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    bounds = counts[lists.offsets.to_numpy()]
    present = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), elements.filter(pa.array(kept)))
    joined = pc.binary_join(present, separator)
    some = pa.array((np.diff(bounds) > 0) & valid(lists))
    return pc.if_else(some, joined, pa.scalar(None, pa.string()))


@kernel("StringRepeat")
def _repeat(_expression: Expression) -> Kernel:
    def run(values: Sequence[Value], _rows: int) -> Value:
        return pc.binary_repeat(values[0], pc.max_element_wise(values[1], pa.scalar(0, pa.int32()), skip_nulls=False))

    return run


@kernel("StringSpace")
def _space(_expression: Expression) -> Kernel:
    def run(values: Sequence[Value], _rows: int) -> Value:
        return pc.binary_repeat(" ", pc.max_element_wise(values[0], pa.scalar(0, pa.int32()), skip_nulls=False))

    return run


@kernel("StringReplace")
def _replace(_expression: Expression) -> Kernel:
    by_row = rowwise(lambda text, old, new: text.replace(old, new) if old else text, pa.string())

    def run(values: Sequence[Value], rows: int) -> Value:
        text, old, new = values
        is_constant = isinstance(old, pa.Scalar) and isinstance(new, pa.Scalar) and new.is_valid
        if isinstance(text, pa.Array) and is_constant and old.as_py():
            return pc.replace_substring(text, old.as_py(), new.as_py())
        return by_row(values, rows)

    return run


@kernel("StringTranslate")
def _translate(_expression: Expression) -> Kernel:
    return rowwise(translate, pa.string())


def translate(text: str, matching: str, replacement: str) -> str:
    """Each character of `matching` replaced by the one at its place in the replacement, or left out without one."""
    table: dict[int, str] = {}
    for place, char in enumerate(matching):
        new = replacement[place] if place < len(replacement) else ""
        table.setdefault(ord(char), "" if new == "\0" else new)
    return text.translate(table)


@kernel("Elt", reads_all=True)
def _elt(expression: Expression) -> Kernel:
    fails = bool(expression.arguments.get("failOnError"))
    count = len(expression.children) - 1

    def run(values: Sequence[Value], rows: int) -> Value:
        length = 1 if all(isinstance(value, pa.Scalar) for value in values) else rows
        index = as_array(values[0], length)
        places = numbers(index)
        wrong = valid(index) & ((places < 1) | (places > count))
        if fails and wrong.any():
            found = places[first(wrong)]
            raise SparkError(
                "INVALID_ARRAY_INDEX",
                f"The index {found} is out of bounds. The array has {count} elements. Use the SQL function `get()` to "
                "tolerate accessing element at invalid index and return NULL instead.",
            )
        choice = pa.array(np.clip(places - 1, 0, count - 1), mask=wrong | ~valid(index))
        chosen = pc.choose(choice, *(as_array(value, length) for value in values[1:]))
        return chosen[0] if length == 1 and rows != 1 else chosen

    return run
