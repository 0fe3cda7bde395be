"""Subqueries as joins or as constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from snapline.sql.plans.filter_push_down import filtered
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.time_windows import conjunction, conjuncts
from snapline.sql.plans.trees import Expression, Plan


def without_subqueries(plan: Plan, value_of: Callable[[Plan], Any]) -> Plan:
    """The plan with `IN` and `EXISTS` as semi and anti joins, and with scalar subqueries as constants.

    `value_of` runs a subquery that does not stream and returns its one value, or None. Raises `ConfigurationError`
    for subqueries that are neither.
    """

    def change(node: Plan) -> Plan:
        constant = {
            name: tuple(each.rewritten(lambda found: _constant(found, value_of)) for each in found_all)
            for name, found_all in node.expressions.items()
        }
        node = replace(node, expressions=constant) if constant else node
        if node.kind == "Filter":
            node = _joined(node)
        for expressions in node.expressions.values():
            for each in expressions:
                _check(each)
        return node

    return plan.rewritten(change)


def _constant(expression: Expression, value_of: Callable[[Plan], Any]) -> Expression:
    if expression.kind != "ScalarSubquery":
        return expression
    plan = expression.arguments["plan"]
    if plan.is_streaming or expression.children:
        raise refusal(
            expression, "its value changes with the stream or the row", "join with the subquery, grouped by the key"
        )
    arguments = {"value": value_of(plan)}
    return Expression("Literal", expression.type, (), arguments, expression.nullable, expression.text)


def _check(expression: Expression) -> None:
    for each in expression.walk():
        if each.kind in ("InSubquery", "Exists", "ListQuery", "LateralSubquery", "OuterReference"):
            raise refusal(each, "here it is neither a join nor a constant", "write it as a join")


def _joined(node: Plan) -> Plan:
    rest: list[Expression] = []
    plan = node.children[0]
    for condition in conjuncts(node.expressions["condition"][0]):
        inner = condition.children[0] if condition.kind == "Not" else condition
        kind = "LeftAnti" if condition.kind == "Not" else "LeftSemi"
        if inner.kind == "InSubquery":
            plan = _membership(plan, inner, kind)
        elif inner.kind == "Exists":
            plan = _existence(plan, inner, kind)
        else:
            rest.append(condition)
    return filtered(plan, rest) if plan is not node.children[0] else node


def _membership(plan: Plan, expression: Expression, kind: str) -> Plan:
    *values, query = expression.children
    below: Plan = query.arguments["plan"]
    if query.children:
        raise refusal(expression, "it depends on the row around it", "write EXISTS with an equality")
    equal = [_equal(value, _column(column)) for value, column in zip(values, below.output, strict=True)]
    if kind == "LeftAnti":
        equal = [_unless_false(each) if any(side.nullable for side in each.children) else each for each in equal]
    return _join(plan, below, kind, equal)


def _unless_false(equal: Expression) -> Expression:
    """True where a condition is true or null: a null in a list might be the value, so `NOT IN` does not hold."""
    unknown = Expression("IsNull", pa.bool_(), (equal,), {}, False, f"({equal.text} IS NULL)")
    return Expression("Or", pa.bool_(), (equal, unknown), {}, True, f"({equal.text} OR {unknown.text})")


def _existence(plan: Plan, expression: Expression, kind: str) -> Plan:
    below: Plan = expression.arguments["plan"]
    while below.kind in ("Project", "SubqueryAlias"):
        below = below.children[0]
    conditions: list[Expression] = []
    if below.kind == "Filter":
        conditions = [each.rewritten(_without_mark) for each in conjuncts(below.expressions["condition"][0])]
        below = below.children[0]
    if not expression.children or _has_outer(below):
        raise refusal(expression, "it has no equality with the row around it", "write it as a join")
    return _join(plan, below, kind, conditions)


def _has_outer(plan: Plan) -> bool:
    """Whether a plan reads columns of the row around it."""
    return any(
        each.kind == "OuterReference"
        for node in plan.walk()
        for found in node.expressions.values()
        for expression in found
        for each in expression.walk()
    )


def _without_mark(expression: Expression) -> Expression:
    inner: Expression = expression.arguments["e"] if expression.kind == "OuterReference" else expression
    return inner


def _join(left: Plan, right: Plan, kind: str, conditions: list[Expression]) -> Plan:
    whole = conjunction(conditions)
    text = f"Join {kind}, {whole.text}"
    arguments = {"joinType": kind}
    return Plan("Join", left.output, (left, right), {"condition": (whole,)}, arguments, left.is_streaming, text)


def _equal(one: Expression, other: Expression) -> Expression:
    return Expression("EqualTo", pa.bool_(), (one, other), {}, True, f"({one.text} = {other.text})")


def _column(attribute: Any) -> Expression:
    arguments = {"id": attribute.id, "name": attribute.name, "metadata": attribute.metadata}
    return Expression(
        "AttributeReference", attribute.type, (), arguments, attribute.nullable, attribute.name, attribute.sql_type
    )
