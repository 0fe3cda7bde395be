"""Expressions that choose among others: a branch is computed only for the rows that choose it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Frame, Value, as_array
from snapline.sql.expressions.registry import Evaluator, SparkError, UnsupportedError, form
from snapline.sql.expressions.values import Bools
from snapline.sql.plans.trees import Expression

Compile = Callable[[Expression], Evaluator]

_CHEAP = frozenset(
    {"AttributeReference", "Literal", "Alias", "EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan"}
    | {"GreaterThanOrEqual", "IsNull", "IsNotNull", "And", "Or", "Not", "Add", "Subtract", "Multiply"}
)
"""For these, computing all rows costs less than choosing some. If one raises, the batch is computed with care."""


def _is_cheap(expression: Expression) -> bool:
    return all(part.kind in _CHEAP and not pa.types.is_decimal(part.type) for part in expression.walk())


class Merge:
    """Builds an array from values for some rows each. Rows that get none are null."""

    def __init__(self, rows: int, type: pa.DataType) -> None:
        self._type = type
        self._pieces: list[pa.Array] = []
        self._length = 0
        self._places = np.full(rows, -1, np.int64)

    def put(self, rows: np.ndarray, value: Value) -> None:
        """Set these rows, by number, to the value: a scalar, or an array with one for each of them."""
        if isinstance(value, pa.Scalar):
            self._places[rows] = self._length
            value = pa.array([value.as_py()], value.type) if pa.types.is_null(value.type) else as_array(value, 1)
        else:
            self._places[rows] = self._length + np.arange(len(rows))
        self._pieces.append(value if value.type == self._type else value.cast(self._type))
        self._length += len(value)

    def array(self) -> pa.Array:
        """The result."""
        if not self._pieces:
            return pa.nulls(len(self._places), self._type)
        joined = pa.concat_arrays(self._pieces)
        return joined.take(pa.array(self._places, mask=self._places < 0))


class _Branch:
    """A child that some rows need."""

    def __init__(self, expression: Expression, compile: Compile) -> None:
        self.evaluate = compile(expression)
        self._cheap = _is_cheap(expression)

    def at(self, rows: np.ndarray, frame: Frame) -> Value:
        """Its values for these rows."""
        if len(rows) == frame.rows:
            return self.evaluate(frame)
        numbers = pa.array(rows)
        if self._cheap and not frame.careful:
            value = self.evaluate(frame)
            return value if isinstance(value, pa.Scalar) else value.take(numbers)
        return self.evaluate(frame.take(numbers))


def _truth(value: Value, rows: int) -> Bools:
    there = pc.fill_null(as_array(value, rows), False)
    return np.asarray(there.to_numpy(zero_copy_only=False))


@form("If")
def _if(expression: Expression, compile: Compile) -> Evaluator:
    return _case(expression, compile, [expression.children[:2]], expression.children[2])


@form("CaseWhen")
def _case_when(expression: Expression, compile: Compile) -> Evaluator:
    parts = expression.children
    otherwise = parts[-1] if len(parts) % 2 else None
    pairs = [parts[at : at + 2] for at in range(0, len(parts) - 1, 2)]
    return _case(expression, compile, pairs, otherwise)


def _case(
    expression: Expression,
    compile: Compile,
    pairs: Sequence[Sequence[Expression]],
    otherwise: Expression | None,
) -> Evaluator:
    branches = [(_Branch(condition, compile), _Branch(value, compile)) for condition, value in pairs]
    last = None if otherwise is None else _Branch(otherwise, compile)
    nothing = pa.scalar(None, expression.type)
    cheap = len(pairs) == 1 and all(map(_is_cheap, expression.children)) and not pa.types.is_nested(expression.type)

    def evaluate(frame: Frame) -> Value:
        if cheap and not frame.careful:
            condition, value = branches[0]
            holds = pc.fill_null(condition.evaluate(frame), False)
            return pc.if_else(holds, value.evaluate(frame), nothing if last is None else last.evaluate(frame))
        merge = Merge(frame.rows, expression.type)
        undecided = np.arange(frame.rows)
        for condition, value in branches:
            if not len(undecided):
                break
            holds = _truth(condition.at(undecided, frame), len(undecided))
            chosen, undecided = undecided[holds], undecided[~holds]
            if len(chosen):
                merge.put(chosen, value.at(chosen, frame))
        if last is not None and len(undecided):
            merge.put(undecided, last.at(undecided, frame))
        return merge.array()

    return evaluate


@form("Coalesce")
def _coalesce(expression: Expression, compile: Compile) -> Evaluator:
    branches = [_Branch(child, compile) for child in expression.children]
    cheap = all(_is_cheap(child) for child in expression.children) and not pa.types.is_nested(expression.type)

    def evaluate(frame: Frame) -> Value:
        if cheap and not frame.careful:
            return pc.coalesce(*(branch.evaluate(frame) for branch in branches))
        return _first_not_null(branches, frame, expression.type)

    return evaluate


def _first_not_null(branches: Sequence[_Branch], frame: Frame, type: pa.DataType) -> pa.Array:
    merge = Merge(frame.rows, type)
    missing = np.arange(frame.rows)
    for branch in branches:
        if not len(missing):
            break
        values = as_array(branch.at(missing, frame), len(missing))
        there = values.is_valid().to_numpy(zero_copy_only=False)
        merge.put(missing[there], values.filter(pa.array(there)))
        missing = missing[~there]
    return merge.array()


@form("NaNvl")
def _nanvl(expression: Expression, compile: Compile) -> Evaluator:
    first = compile(expression.children[0])
    second = _Branch(expression.children[1], compile)

    def evaluate(frame: Frame) -> Value:
        values = as_array(first(frame), frame.rows)
        nan = _truth(pc.is_nan(values), frame.rows)
        if not nan.any():
            return values
        merge = Merge(frame.rows, expression.type)
        merge.put(np.arange(frame.rows), values)
        rows = np.flatnonzero(nan)
        merge.put(rows, second.at(rows, frame))
        return merge.array()

    return evaluate


@form("TryEval")
def _try(expression: Expression, compile: Compile) -> Evaluator:
    child = compile(expression.children[0])

    def evaluate(frame: Frame) -> Value:
        try:
            return child(frame)
        except SparkError:
            merge = Merge(frame.rows, expression.type)
            _try_rows(child, np.arange(frame.rows), frame, merge)
            return merge.array()

    return evaluate


def _try_rows(child: Evaluator, rows: np.ndarray, frame: Frame, merge: Merge) -> None:
    """Set the rows that can be computed, by halves: few rows fail, as a rule."""
    if not len(rows):
        return
    try:
        merge.put(rows, child(frame.take(pa.array(rows))))
    except SparkError:
        if len(rows) > 1:
            middle = len(rows) // 2
            _try_rows(child, rows[:middle], frame, merge)
            _try_rows(child, rows[middle:], frame, merge)


@form("RaiseError")
def _raise_error(expression: Expression, compile: Compile) -> Evaluator:
    condition, parameters = (compile(child) for child in expression.children[:2])

    def evaluate(frame: Frame) -> Value:
        if frame.rows:
            name = as_array(condition(frame), frame.rows)[0].as_py()
            values = as_array(parameters(frame), frame.rows)[0].as_py()
            if name is None:
                raise UnsupportedError("raise_error needs the name of an error")
            raise SparkError(str(name), ", ".join(str(value) for _, value in values or []))
        return pa.nulls(0, expression.type)

    return evaluate
