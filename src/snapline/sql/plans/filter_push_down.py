"""Filters go down to where rows are fewest to carry, but never past a watermark, which counts the rows they drop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from snapline.sql.plans.time_windows import conjunction, conjuncts
from snapline.sql.plans.trees import Expression, Plan

_SIDES: Final[Mapping[str, tuple[bool, bool]]] = {
    "Inner": (True, True),
    "Cross": (True, True),
    "LeftOuter": (True, False),
    "RightOuter": (False, True),
    "LeftSemi": (True, False),
    "LeftAnti": (True, False),
}
"""For each type of join, whether a condition on one side only may be checked before it: left, right."""


def with_filters_down(plan: Plan) -> Plan:
    """The plan with filters as low as they may go: below projections, unions and joins."""
    while True:
        changed = plan.rewritten(_one_step)
        if changed is plan:
            return plan
        plan = changed


def _one_step(plan: Plan) -> Plan:
    if plan.kind != "Filter":
        return plan
    conditions = conjuncts(plan.expressions["condition"][0])
    if not all(is_deterministic(condition) for condition in conditions):
        return plan
    below = plan.children[0]
    if below.kind == "Filter" and all(map(is_deterministic, conjuncts(below.expressions["condition"][0]))):
        return filtered(below.children[0], [*conjuncts(below.expressions["condition"][0]), *conditions])
    if below.kind == "Project":
        return _below_projection(plan, conditions, below)
    if below.kind == "Join":
        return _below_join(plan, conditions, below)
    return plan


def _below_projection(plan: Plan, conditions: list[Expression], below: Plan) -> Plan:
    """Conditions on columns that the projection only copies or renames; computing others twice would cost more."""
    copied = {
        column.arguments["id"]: column if column.kind == "AttributeReference" else column.children[0]
        for column in below.expressions["projectList"]
        if column.kind == "AttributeReference"
        or (column.kind == "Alias" and column.children[0].kind == "AttributeReference")
    }
    moved = [condition for condition in conditions if condition.references and condition.references <= copied.keys()]
    if not moved:
        return plan
    rest = [condition for condition in conditions if condition not in moved]
    lower = [condition.rewritten(lambda each: _source(each, copied)) for condition in moved]
    return filtered(replace(below, children=(filtered(below.children[0], lower),)), rest)


def _source(expression: Expression, copied: Mapping[int, Expression]) -> Expression:
    return copied[expression.arguments["id"]] if expression.kind == "AttributeReference" else expression


def _below_join(plan: Plan, conditions: list[Expression], below: Plan) -> Plan:
    sides = _SIDES.get(below.arguments["joinType"], (False, False))
    children = list(below.children)
    rest = list(conditions)
    for number, allowed in enumerate(sides):
        known = {attribute.id for attribute in below.children[number].output}
        is_open = allowed and below.children[number].is_streaming
        moved = [each for each in rest if is_open and each.references and each.references <= known]
        if moved:
            children[number] = filtered(children[number], moved)
            rest = [each for each in rest if each not in moved]
    if len(rest) == len(conditions):
        return plan
    return filtered(replace(below, children=tuple(children)), rest)


def filtered(plan: Plan, conditions: Iterable[Expression]) -> Plan:
    """A filter with these conditions above a plan; the plan itself if there are none."""
    found = list(conditions)
    if not found:
        return plan
    whole = conjunction(found)
    return Plan("Filter", plan.output, (plan,), {"condition": (whole,)}, {}, plan.is_streaming, f"Filter {whole.text}")


def is_deterministic(expression: Expression) -> bool:
    """Whether it has the same value for the same row each time, and runs no code of the user."""
    return all(each.arguments.get("deterministic", True) and each.kind != "PythonUDF" for each in expression.walk())
