"""Comparisons, membership, the greatest and the least."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions import value_order
from snapline.sql.expressions.frame import Frame, Value, as_array, spread
from snapline.sql.expressions.registry import Evaluator, Kernel, form, kernel
from snapline.sql.plans.trees import Expression


@kernel("EqualTo")
def _equal(_expression: Expression) -> Kernel:
    return lambda values, rows: value_order.equal(values[0], values[1], rows)


@kernel("EqualNullSafe", reads_all=True)
def _equal_null_safe(_expression: Expression) -> Kernel:
    def compute(values: Sequence[Value], rows: int) -> Value:
        left, right = values
        same = pc.fill_null(value_order.equal(left, right, rows), False)
        return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))

    return compute


@kernel("LessThan")
def _less(_expression: Expression) -> Kernel:
    return lambda values, rows: value_order.less(values[0], values[1], rows)


@kernel("GreaterThan")
def _greater(_expression: Expression) -> Kernel:
    return lambda values, rows: value_order.less(values[1], values[0], rows)


@kernel("LessThanOrEqual")
def _less_or_equal(_expression: Expression) -> Kernel:
    return lambda values, rows: pc.invert(value_order.less(values[1], values[0], rows))


@kernel("GreaterThanOrEqual")
def _greater_or_equal(_expression: Expression) -> Kernel:
    return lambda values, rows: pc.invert(value_order.less(values[0], values[1], rows))


@kernel("Greatest", reads_all=True)
def _greatest(expression: Expression) -> Kernel:
    return _extreme(value_order.less, expression.type)


@kernel("Least", reads_all=True)
def _least(expression: Expression) -> Kernel:
    return _extreme(lambda best, other, rows: value_order.less(other, best, rows), expression.type)


def _extreme(better: Callable[[Value, Value, int], Value], type: pa.DataType) -> Kernel:
    """The best of the values that are not null; the first of equal ones."""

    def compute(values: Sequence[Value], rows: int) -> Value:
        # Elements that cannot be null make another type.
        values = [value if value.type == type else value.cast(type) for value in values]
        best = values[0]
        for other in values[1:]:
            wins = pc.or_(pc.is_null(best), pc.fill_null(better(best, other, rows), False))
            best = pc.if_else(wins, other, best)
        return best

    return compute


@form("In")
def _membership(expression: Expression, compile: Callable[[Expression], Evaluator]) -> Evaluator:
    value, *items = (compile(child) for child in expression.children)
    type = expression.children[0].type
    literals = all(child.kind == "Literal" for child in expression.children[1:])
    if literals and items and not pa.types.is_nested(type) and not pa.types.is_floating(type):
        constants = [child.arguments["value"] for child in expression.children[1:]]
        return _lookup(value, constants, type)

    def evaluate(frame: Frame) -> Value:
        wanted = value(frame)
        if frame.careful:
            return _item_by_item(as_array(wanted, frame.rows), items, frame)
        result: Value = pc.and_kleene(pc.is_null(wanted), pa.scalar(None, pa.bool_()))
        for item in items:
            result = pc.or_kleene(result, value_order.equal(wanted, item(frame), frame.rows))
        return result

    return evaluate


def _lookup(value: Evaluator, constants: Sequence[object], type: pa.DataType) -> Evaluator:
    known = pa.array([constant for constant in constants if constant is not None], type)
    missing = pa.scalar(None if len(known) < len(constants) else False, pa.bool_())

    def evaluate(frame: Frame) -> Value:
        wanted = value(frame)
        found = pc.is_in(wanted, value_set=known)
        result = pc.if_else(found, True, missing)
        return pc.if_else(pc.is_valid(wanted), result, pa.scalar(None, pa.bool_()))

    return evaluate


def _item_by_item(wanted: pa.Array, items: Sequence[Evaluator], frame: Frame) -> pa.Array:
    """Each item is computed only for the rows that none before it has decided."""
    result = pc.if_else(wanted.is_valid(), False, pa.scalar(None, pa.bool_()))
    open_rows = wanted.is_valid()
    for item in items:
        rows = pc.indices_nonzero(open_rows)
        found = spread(item(frame.take(rows)), rows, frame.rows)
        same = pc.if_else(open_rows, value_order.equal(wanted, found, frame.rows), False)
        result = pc.or_kleene(result, same)
        open_rows = pc.and_(open_rows, pc.invert(pc.fill_null(same, False)))
    return result
