"""Functions that take a function of elements: the body runs once on the elements of all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.array_functions import aligned, sorted_lists
from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.frame import Frame, Value, as_array, spread
from snapline.sql.expressions.lists import Lists, list_array, lists, relabelled
from snapline.sql.expressions.ranks import ranks
from snapline.sql.expressions.registry import Evaluator, SparkError, form
from snapline.sql.expressions.values import Bools, valid, with_nulls
from snapline.sql.plans.trees import Expression

Compile: TypeAlias = Callable[[Expression], Evaluator]

MAX_PAIRS = 2**20
"""How many pairs of elements a comparison of `array_sort` is computed for at once."""


class Body:
    """The function of a lambda expression; `variables` are the ids of its arguments."""

    def __init__(self, function: Expression, compiled: Compile) -> None:
        self._evaluate = compiled(function.children[0])
        self.type = function.children[0].type
        self.variables = [argument.arguments["id"] for argument in function.children[1:]]
        self.types = [argument.type for argument in function.children[1:]]

    def of(self, frame: Frame, rows: Integers, *arguments: pa.Array) -> pa.Array:
        """The results for arguments that belong to these rows of the frame."""
        given = {
            variable: relabelled(argument, type)
            for variable, argument, type in zip(self.variables, arguments, self.types, strict=False)
        }
        inner = frame.take(pa.array(rows)).with_variables(given)
        return as_array(self._evaluate(inner), len(rows))


@form("NamedLambdaVariable")
def _variable(expression: Expression, _compiled: Compile) -> Evaluator:
    number = expression.arguments["id"]
    return lambda frame: frame.variables[number]


def _elements_and_positions(parts: Lists) -> tuple[pa.Array, pa.Array]:
    return parts.elements, pa.array(parts.positions, pa.int32())


@form("ArrayTransform")
def _transform(expression: Expression, compiled: Compile) -> Evaluator:
    given, body = compiled(expression.children[0]), Body(expression.children[1], compiled)

    def evaluate(frame: Frame) -> Value:
        parts = lists(as_array(given(frame), frame.rows))
        results = body.of(frame, parts.rows, *_elements_and_positions(parts))
        return list_array(results, parts.lengths, parts.there, expression.type)

    return evaluate


def is_true(results: pa.Array) -> Bools:
    """Where it is true; neither false nor null."""
    return np.asarray(results.fill_null(False).to_numpy(zero_copy_only=False))


@form("ArrayFilter")
def _filter(expression: Expression, compiled: Compile) -> Evaluator:
    given, body = compiled(expression.children[0]), Body(expression.children[1], compiled)

    def evaluate(frame: Frame) -> Value:
        parts = lists(as_array(given(frame), frame.rows))
        results = body.of(frame, parts.rows, *_elements_and_positions(parts))
        return parts.chosen(is_true(results)).array(expression.type)

    return evaluate


@form("ArrayExists", "ArrayForAll")
def _test(expression: Expression, compiled: Compile) -> Evaluator:
    given, body = compiled(expression.children[0]), Body(expression.children[1], compiled)
    wanted = expression.kind == "ArrayExists"
    knows_null = bool(expression.arguments.get("followThreeValuedLogic", True))

    def evaluate(frame: Frame) -> Value:
        parts = lists(as_array(given(frame), frame.rows))
        results = _one_by_one(frame, parts) if frame.careful else body.of(frame, parts.rows, parts.elements)
        known = valid(results)
        decisive = known & (is_true(results) == wanted)
        found = _rows_with(parts, decisive)
        unknown = _rows_with(parts, ~known) & ~found & np.bool_(knows_null)
        return with_nulls(found == wanted, parts.there & ~unknown, pa.bool_())

    def _one_by_one(frame: Frame, parts: Lists) -> pa.Array:
        """The results up to the one that decides; the others count as undecided."""
        results = np.full(len(parts.elements), not wanted)
        known = np.ones(len(parts.elements), np.bool_)
        open_rows = parts.there.copy()
        for position in range(int(parts.lengths.max(initial=0))):
            rows = np.flatnonzero(open_rows & (parts.lengths > position))
            places = parts.starts[rows] + position
            answers = body.of(frame, rows, parts.elements.take(pa.array(places)))
            known[places] = valid(answers)
            results[places] = is_true(answers)
            open_rows[rows[known[places] & (results[places] == wanted)]] = False
        return with_nulls(results, known, pa.bool_())

    return evaluate


def _rows_with(parts: Lists, elements: Bools) -> Bools:
    return np.bincount(parts.rows[elements], minlength=len(parts.lengths)) > 0


@form("ArrayAggregate")
def _aggregate(expression: Expression, compiled: Compile) -> Evaluator:
    given, zero = compiled(expression.children[0]), compiled(expression.children[1])
    merge, finish = Body(expression.children[2], compiled), Body(expression.children[3], compiled)

    def evaluate(frame: Frame) -> Value:
        parts = lists(as_array(given(frame), frame.rows))
        rows = np.flatnonzero(parts.there)
        inner = frame if len(rows) == frame.rows else frame.take(pa.array(rows))
        total = relabelled(as_array(zero(inner), len(rows)), merge.types[0])
        lengths, starts = parts.lengths[rows], parts.starts[rows]
        for position in range(int(lengths.max(initial=0))):
            active = np.flatnonzero(lengths > position)
            elements = parts.elements.take(pa.array(starts[active] + position))
            merged = merge.of(inner, active, total.take(pa.array(active)), elements)
            total = _replaced(total, active, relabelled(merged, total.type))
        return spread(finish.of(inner, np.arange(len(rows)), total), pa.array(rows), frame.rows)

    return evaluate


def _replaced(array: pa.Array, places: Integers, values: pa.Array) -> pa.Array:
    """The array with other values at some places."""
    if len(places) == len(array):
        return values
    sources = np.arange(len(array))
    sources[places] = len(array) + np.arange(len(places))
    return pa.concat_arrays([array, values]).take(pa.array(sources))


def both(left: Evaluator, right: Evaluator, frame: Frame) -> list[pa.Array]:
    """The values of both; where the left one is null, the right one may be left out."""
    first = as_array(left(frame), frame.rows)
    if not frame.careful or not first.null_count:
        return [first, as_array(right(frame), frame.rows)]
    rows = pc.indices_nonzero(first.is_valid())
    return [first, spread(right(frame.take(rows)), rows, frame.rows)]


@form("ZipWith")
def _zip_with(expression: Expression, compiled: Compile) -> Evaluator:
    left, right = (compiled(child) for child in expression.children[:2])
    body = Body(expression.children[2], compiled)

    def evaluate(frame: Frame) -> Value:
        arrays = both(left, right, frame)
        there = valid(*arrays)
        columns, lengths = aligned([lists(array) for array in arrays], there)
        results = body.of(frame, np.repeat(np.arange(frame.rows), lengths), *columns)
        return list_array(results, lengths, there, expression.type)

    return evaluate


@form("ArraySort")
def _sort(expression: Expression, compiled: Compile) -> Evaluator:
    given, function = compiled(expression.children[0]), expression.children[1]
    if is_default_order(function):
        return lambda frame: _in_default_order(as_array(given(frame), frame.rows), expression.type)
    body = Body(function, compiled)
    # Where the setting is on, no answer counts as equal.
    accepts_null = bool(expression.arguments.get("allowNullComparisonResult"))

    def evaluate(frame: Frame) -> Value:
        parts = lists(as_array(given(frame), frame.rows))
        order = np.arange(len(parts.elements))
        for rows in _groups(parts):
            _sort_rows(frame, parts, rows, order)
        return parts.arranged(order).array(expression.type)

    def _sort_rows(frame: Frame, parts: Lists, rows: Integers, order: Integers) -> None:
        sizes, starts = parts.lengths[rows], parts.starts[rows]
        pairs = [np.indices((size, size)).reshape(2, -1) + start for size, start in zip(sizes, starts, strict=True)]
        first, second = np.concatenate(pairs, axis=1)
        answers = body.of(
            frame, np.repeat(rows, sizes**2), *(parts.elements.take(pa.array(each)) for each in (first, second))
        )
        unknown = (first != second) & ~valid(answers)
        if not accepts_null and unknown.any():
            _raise_unknown_order(valid(parts.elements), first[unknown], second[unknown])
        signs = np.asarray(answers.fill_null(0))
        end = 0
        for size, start in zip(sizes, starts, strict=True):
            table = signs[end : end + size * size].reshape(size, size).tolist()
            end += size * size
            compare = cmp_to_key(lambda one, other, table=table: table[one][other])  # type: ignore[misc]
            order[start : start + size] = start + np.array(sorted(range(size), key=compare), np.int64)

    return evaluate


def _raise_unknown_order(there: Bools, first: Integers, second: Integers) -> NoReturn:
    """Raise what Spark does for elements that the function does not order; it stumbles over elements that are null."""
    name = "COMPARATOR_RETURNS_NULL" if (there[first] & there[second]).all() else "NullPointerException"
    raise SparkError(name, "The comparator has returned a NULL for a comparison of elements.")


def _groups(parts: Lists) -> list[Integers]:
    """Rows with something to sort, in groups that are not too large."""
    rows = np.flatnonzero(parts.lengths > 1)
    if not len(rows):
        return []
    groups = np.cumsum(parts.lengths[rows] ** 2) // MAX_PAIRS
    return np.split(rows, np.flatnonzero(np.diff(groups)) + 1)


def is_default_order(function: Expression) -> bool:
    """Whether a function of two elements is the one that Spark takes if none is given: ascending, nulls last."""
    left, right = (argument.arguments["id"] for argument in function.children[1:])
    return bool(_shape(function.children[0], {left: "left", right: "right"}) == _DEFAULT_ORDER)


def _shape(expression: Expression, names: Mapping[int, str]) -> Any:
    if expression.kind == "NamedLambdaVariable":
        return names.get(expression.arguments["id"])
    if expression.kind == "Literal":
        return expression.arguments["value"]
    return (expression.kind, *(_shape(child, names) for child in expression.children))


_DEFAULT_ORDER = (
    "If",
    ("And", ("IsNull", "left"), ("IsNull", "right")),
    0,
    (
        "If",
        ("IsNull", "left"),
        1,
        (
            "If",
            ("IsNull", "right"),
            -1,
            ("If", ("LessThan", "left", "right"), -1, ("If", ("GreaterThan", "left", "right"), 1, 0)),
        ),
    ),
)


def _in_default_order(array: pa.Array, type: pa.DataType) -> pa.Array:
    parts = lists(array)
    numbers = ranks(parts.elements)
    return sorted_lists(parts, np.where(numbers < 0, numbers.max(initial=0) + 1, numbers)).array(type)
