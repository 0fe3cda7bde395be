"""Nodes that mean nothing when a query runs are taken out of its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from snapline.sql.plans.common_tables import renamed
from snapline.sql.plans.trees import Expression, Plan

_NAMES_ONLY: Final = frozenset({"SubqueryAlias", "View", "ResolvedHint", "UnresolvedHint", "PipeOperator"})
_PARTITIONS: Final = frozenset(
    {"Repartition", "RepartitionByExpression", "RebalancePartitions", "ShuffleHashJoinHint", "LogicalQueryStage"}
)


def with_static_leaves(plan: Plan) -> Plan:
    """The plan with each part that does not stream as one leaf, `Static`: Spark runs it."""
    if "dataframe" in plan.arguments and not plan.is_streaming:
        arguments = {"dataframe": plan.arguments["dataframe"]}
        return Plan("Static", plan.output, (), {}, arguments, False, plan.text)
    return replace(plan, children=tuple(map(with_static_leaves, plan.children)))


def cleaned(plan: Plan) -> Plan:
    """The plan without aliases, views, hints, partitioning, and projections that change nothing."""
    return plan.rewritten(_cleaned)


def _cleaned(plan: Plan) -> Plan:
    if plan.kind in _NAMES_ONLY or plan.kind in _PARTITIONS:
        below = plan.children[0]
        return renamed(below, plan.output) if plan.kind in _NAMES_ONLY else below
    if plan.kind == "Project" and _is_identity(plan):
        return plan.children[0]
    return plan


def _is_identity(plan: Plan) -> bool:
    columns = plan.expressions["projectList"]
    return [_read(column) for column in columns] == [attribute.id for attribute in plan.children[0].output]


def _read(column: Expression) -> int | None:
    """The id of the column that this is, unchanged and under its own name."""
    return column.arguments["id"] if column.kind == "AttributeReference" else None
