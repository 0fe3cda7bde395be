"""Aggregates over whole partitions (`max(x) OVER (PARTITION BY k)`) as a join with the aggregate of each partition."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.time_windows import conjunction
from snapline.sql.plans.trees import Attribute, Expression, Plan

_FIRST_ID = 1 << 61
"""Ids of columns that this rule adds; Catalyst's, and those that lowering adds, are smaller."""


def without_partition_windows(plan: Plan) -> Plan:
    """The plan with each `Window` of aggregates without order replaced by a join with these aggregates."""
    ids = itertools.count(_FIRST_ID)
    return plan.rewritten(lambda node: _joined(node, ids) if _is_unordered(node) else node)


def _is_unordered(node: Plan) -> bool:
    return (
        node.kind == "Window"
        and not node.expressions.get("orderSpec")
        and bool(node.expressions.get("partitionSpec"))
        and all(_is_of_all_rows(column) for column in node.expressions["windowExpressions"])
    )


def _is_of_all_rows(column: Expression) -> bool:
    """Whether a column is an aggregate whose frame is the whole partition."""
    bounds = {each.kind for each in column.children[0].children[-1].walk()}
    is_bounded = "SpecifiedWindowFrame" in bounds and not {"UnboundedPreceding", "UnboundedFollowing"} <= bounds
    return _function(column).kind == "AggregateExpression" and not is_bounded


def _function(column: Expression) -> Expression:
    """What a column `function OVER (...)` computes."""
    window = column.children[0]
    return window.children[0] if window.kind == "WindowExpression" else window


def _joined(node: Plan, ids: Iterator[int]) -> Plan:
    (child,) = node.children
    partition = node.expressions["partitionSpec"]
    names = [str(each.arguments.get("name") or each.text) for each in partition]
    keys = [
        Attribute(next(ids), name, each.type, each.nullable, each.arguments.get("metadata", {}))
        for name, each in zip(names, partition, strict=True)
    ]
    known = {attribute.id for attribute in child.output}
    results = tuple(attribute for attribute in node.output if attribute.id not in known)
    columns = [_named(key, each) for key, each in zip(keys, partition, strict=True)]
    columns += [replace(each, children=(_function(each),)) for each in node.expressions["windowExpressions"]]
    expressions = {"groupingExpressions": partition, "aggregateExpressions": tuple(columns)}
    groups = Plan("Aggregate", (*keys, *results), (child,), expressions, {}, node.is_streaming, node.text)
    equal = conjunction([_equal(each, reference(key)) for each, key in zip(partition, keys, strict=True)])
    arguments = {"joinType": "Inner"}
    output = (*child.output, *keys, *results)
    join = Plan("Join", output, (child, groups), {"condition": (equal,)}, arguments, node.is_streaming, node.text)
    kept = tuple(reference(attribute) for attribute in node.output)
    return Plan("Project", node.output, (join,), {"projectList": kept}, {}, node.is_streaming, node.text)


def _named(attribute: Attribute, value: Expression) -> Expression:
    arguments = {"id": attribute.id, "name": attribute.name, "metadata": attribute.metadata}
    return Expression("Alias", attribute.type, (value,), arguments, attribute.nullable, value.text)


def _equal(one: Expression, other: Expression) -> Expression:
    return Expression("EqualNullSafe", pa.bool_(), (one, other), {}, False, f"({one.text} <=> {other.text})")
