"""Columns that nothing above needs are dropped before rows are sent to other machines or kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Expression, Plan

_SAME_COLUMNS: Final = frozenset({"Filter", "EventTimeWatermark"})


def pruned(plan: Plan) -> Plan:
    """The plan with narrow projections, and with projections below joins."""
    return _pruned(plan, {attribute.id for attribute in plan.output})


def _pruned(plan: Plan, needed: set[int]) -> Plan:
    """The plan with the columns `needed`, and perhaps others."""
    if plan.kind == "Project":
        columns = plan.expressions["projectList"]
        kept = [column for column in columns if column.arguments["id"] in needed] or list(columns[:1])
        return _projected(plan, kept, _pruned(plan.children[0], _references(kept)))
    if plan.kind in _SAME_COLUMNS:
        return _over(plan, _pruned(plan.children[0], needed | _own_references(plan)))
    if plan.kind == "Join":
        children = tuple(_narrow(child, needed | _own_references(plan)) for child in plan.children)
        return _with_children(plan, children)
    return replace(
        plan, children=tuple(_pruned(child, {column.id for column in child.output}) for child in plan.children)
    )


def _narrow(plan: Plan, needed: set[int]) -> Plan:
    """The plan with exactly the columns `needed` that it has, at least one."""
    if not plan.is_streaming:
        return plan
    kept = [attribute for attribute in plan.output if attribute.id in needed] or list(plan.output[:1])
    below = _pruned(plan, {attribute.id for attribute in kept})
    if [column.id for column in below.output] == [column.id for column in kept]:
        return below
    columns = tuple(reference(attribute) for attribute in kept)
    names = ", ".join(column.text for column in columns)
    return Plan("Project", tuple(kept), (below,), {"projectList": columns}, {}, plan.is_streaming, f"Project [{names}]")


def _projected(plan: Plan, kept: list[Expression], below: Plan) -> Plan:
    ids = {column.arguments["id"] for column in kept}
    output = tuple(attribute for attribute in plan.output if attribute.id in ids)
    return replace(plan, output=output, children=(below,), expressions={"projectList": tuple(kept)})


def _over(plan: Plan, below: Plan) -> Plan:
    """A node that gives the columns of its child, above another child."""
    known = {attribute.id: attribute for attribute in plan.output}
    return replace(plan, output=tuple(known[attribute.id] for attribute in below.output), children=(below,))


def _with_children(plan: Plan, children: tuple[Plan, ...]) -> Plan:
    there = {attribute.id for child in children for attribute in child.output}
    output = tuple(attribute for attribute in plan.output if attribute.id in there)
    return replace(plan, output=output, children=children)


def _own_references(plan: Plan) -> set[int]:
    return _references(each for found in plan.expressions.values() for each in found)


def _references(expressions: Iterable[Expression]) -> set[int]:
    return {number for expression in expressions for number in expression.references}
