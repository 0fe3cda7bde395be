"""Three-valued logic, and tests for null and NaN."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.frame import Frame, Value, as_array, spread
from snapline.sql.expressions.registry import Evaluator, Kernel, form, kernel
from snapline.sql.plans.trees import Expression


@form("And")
def _conjunction(expression: Expression, compile: Callable[[Expression], Evaluator]) -> Evaluator:
    return _short_circuit(expression, compile, pc.and_kleene, decided_by=False)


@form("Or")
def _disjunction(expression: Expression, compile: Callable[[Expression], Evaluator]) -> Evaluator:
    return _short_circuit(expression, compile, pc.or_kleene, decided_by=True)


def _short_circuit(
    expression: Expression,
    compile: Callable[[Expression], Evaluator],
    combine: Callable[[Value, Value], Value],
    *,
    decided_by: bool,
) -> Evaluator:
    left, right = (compile(child) for child in expression.children)

    def evaluate(frame: Frame) -> Value:
        first = left(frame)
        if not frame.careful:
            return combine(first, right(frame))
        first = as_array(first, frame.rows)
        rows = pc.indices_nonzero(pc.fill_null(pc.not_equal(first, decided_by), True))
        return combine(first, spread(right(frame.take(rows)), rows, frame.rows))

    return evaluate


@kernel("Not")
def _negation(_expression: Expression) -> Kernel:
    return lambda values, _rows: pc.invert(values[0])


@kernel("IsNull", reads_all=True)
def _is_null(_expression: Expression) -> Kernel:
    return lambda values, _rows: pc.is_null(values[0])


@kernel("IsNotNull", reads_all=True)
def _is_not_null(_expression: Expression) -> Kernel:
    return lambda values, _rows: pc.is_valid(values[0])


@kernel("IsNaN", reads_all=True)
def _is_nan(_expression: Expression) -> Kernel:
    return lambda values, _rows: pc.fill_null(pc.is_nan(values[0]), False)


@kernel("AtLeastNNonNulls", reads_all=True)
def _enough_values(expression: Expression) -> Kernel:
    needed = int(expression.arguments["n"])

    def present(value: Value) -> Value:
        there = pc.is_valid(value)
        if pa.types.is_floating(value.type):
            there = pc.and_(there, pc.invert(pc.fill_null(pc.is_nan(value), False)))
        return there.cast(pa.int32())

    def compute(values: list[Value], rows: int) -> Value:
        count: Value = pa.repeat(pa.scalar(0, pa.int32()), rows)
        for value in values:
            count = pc.add(count, present(value))
        return pc.greater_equal(count, needed)

    return compute  # type: ignore[return-value]
