"""Expressions with another value at each evaluation, which the changes of a result cannot go through.

A change that takes a row back must have the values that the row had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Expression, Plan

_CLOCKS: Final = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp", "CurrentDate", "CurrentTime"})
_WINDOWS: Final = frozenset({"TimeWindow", "SessionWindow"})


def is_volatile(expression: Expression) -> bool:
    """Whether it may have another value for the same row later; for Spark the time is a constant of a batch."""
    return any(part.kind in _CLOCKS or is_random(part) for part in expression.walk())


def is_random(part: Expression) -> bool:
    """Whether Spark takes an expression, or what is below it, for one with another value at each evaluation."""
    return not part.arguments.get("deterministic", True) or not part.arguments.get("udfDeterministic", True)


def without_volatile(plan: Plan) -> tuple[Plan, list[Plan]]:
    """The plan below the lowest volatile projection or filter of those that end it, and the nodes above, lowest first.

    A volatile column of an aggregate that reads nothing is one of a projection above it.
    """
    above: list[Plan] = []
    below, found = plan, 0
    while below.kind in ("Project", "Filter") and not _has_windows(below):
        above.append(below)
        found = len(above) if _is_volatile(below) else found
        below = below.children[0]
    if below.kind == "Aggregate" and (parts := _without_constants(below)) is not None:
        below, columns = parts
        return below, [columns, *reversed(above)]
    if not found:
        return plan, []
    return above[found - 1].children[0], above[:found][::-1]


def _is_volatile(node: Plan) -> bool:
    return any(is_volatile(each) for found in node.expressions.values() for each in found)


def _has_windows(node: Plan) -> bool:
    return any(part.kind in _WINDOWS for found in node.expressions.values() for each in found for part in each.walk())


def _without_constants(plan: Plan) -> tuple[Plan, Plan] | None:
    """An aggregate without volatile columns, and the projection above it that has them; None if that cannot be."""
    columns = list(zip(plan.output, plan.expressions["aggregateExpressions"], strict=True))
    kept = [(attribute, each) for attribute, each in columns if not is_volatile(each)]
    others = [each for _, each in columns if is_volatile(each)]
    has_aggregates = any(part.kind == "AggregateExpression" for each in others for part in each.walk())
    if not kept or not others or has_aggregates or any(each.references for each in others):
        return None
    expressions = {**plan.expressions, "aggregateExpressions": tuple(each for _, each in kept)}
    below = replace(plan, output=tuple(attribute for attribute, _ in kept), expressions=expressions)
    values = tuple(each if is_volatile(each) else reference(attribute) for attribute, each in columns)
    return below, Plan("Project", plan.output, (below,), {"projectList": values}, {}, plan.is_streaming, plan.text)
