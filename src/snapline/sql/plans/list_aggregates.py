"""`listagg` (`string_agg`) as a list of the values that is sorted and joined when the result is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from snapline.sql.plans.time_windows import conjunction
from snapline.sql.plans.trees import Expression, Plan


def with_lists_joined(plan: Plan) -> Plan:
    """The plan with each `ListAgg` as a `JoinedList` of a `CollectList`."""
    return plan.rewritten(_rewritten)


def _rewritten(node: Plan) -> Plan:
    columns = node.expressions.get("aggregateExpressions", ())
    if not any(each.kind == "ListAgg" for column in columns for each in column.walk()):
        return node
    changed = tuple(column.rewritten(_joined) for column in columns)
    return replace(node, expressions={**node.expressions, "aggregateExpressions": changed})


def _joined(expression: Expression) -> Expression:
    if expression.kind != "AggregateExpression" or expression.children[0].kind != "ListAgg":
        return expression
    function, *filters = expression.children
    value, delimiter, *order = function.children
    # Spark allows no other order with DISTINCT, where the values alone must be compared.
    is_keyed = bool(order) and [each.children[0] for each in order] != [value]
    element = _struct([value, *(each.children[0] for each in order)]) if is_keyed else value
    condition = conjunction([*filters, _is_not_null(value)])
    collected = Expression("CollectList", pa.list_(element.type), (element,), {}, False, function.text)
    values = replace(expression, type=collected.type, children=(collected, *([] if condition is None else [condition])))
    arguments = {
        "is_keyed": is_keyed,
        "descending": tuple(each.arguments["direction"] == "Descending" for each in order),
        "nulls_first": tuple(each.arguments["nullOrdering"] == "NullsFirst" for each in order),
    }
    return Expression("JoinedList", function.type, (values, delimiter), arguments, True, function.text)


def _is_not_null(value: Expression) -> Expression:
    return Expression("IsNotNull", pa.bool_(), (value,), {}, False, f"({value.text} IS NOT NULL)")


def _struct(values: Sequence[Expression]) -> Expression:
    names = [f"_{number}" for number in range(len(values))]
    children = [
        each
        for name, value in zip(names, values, strict=True)
        for each in (Expression("Literal", pa.string(), (), {"value": name}, False, repr(name)), value)
    ]
    kind = pa.struct([pa.field(name, value.type) for name, value in zip(names, values, strict=True)])
    return Expression("CreateNamedStruct", kind, tuple(children), {}, False, "struct")
