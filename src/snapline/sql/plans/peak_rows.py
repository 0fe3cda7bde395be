"""The rows with the extreme of their partition (`WHERE x = max(x) OVER (PARTITION BY k)`) as those of the first rank.

A rank keeps only the rows that are first so far, where the aggregate of a partition has to keep all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.filter_push_down import filtered
from snapline.sql.plans.time_windows import conjuncts
from snapline.sql.plans.trees import Attribute, Expression, Plan

_FIRST_ID = (1 << 61) + (1 << 60)
"""Ids of columns that this rule adds; all others are smaller."""

_ORDER: Final = {
    "Max": {"direction": "Descending", "nullOrdering": "NullsLast"},
    "Min": {"direction": "Ascending", "nullOrdering": "NullsFirst"},
}


def with_peaks_ranked(plan: Plan) -> Plan:
    """The plan with each filter for the extreme of a partition, right above its `Window`, as a filter on a rank."""
    ids = itertools.count(_FIRST_ID)
    return plan.rewritten(lambda node: _ranked(node, ids))


def _ranked(node: Plan, ids: Iterator[int]) -> Plan:
    if node.kind != "Filter" or node.children[0].kind != "Window":
        return node
    window = node.children[0]
    function = _extreme(window)
    if function is None:
        return node
    (value,) = function.children
    extreme = window.output[-1]
    conditions = conjuncts(node.expressions["condition"][0])
    wanted = {value.arguments["id"], extreme.id}
    peaks = [each for each in conditions if _is_equality_of(each, wanted)]
    if not peaks:
        return node
    rank = Attribute(next(ids), "rank", pa.int32(), False)
    below = filtered(window.children[0], [_present(value)])
    order = Expression("SortOrder", value.type, (value,), _ORDER[function.kind], value.nullable, value.text)
    expressions = {
        "windowExpressions": (_rank_column(rank),),
        "partitionSpec": window.expressions["partitionSpec"],
        "orderSpec": (order,),
    }
    output = (*window.children[0].output, rank)
    ranks = Plan("Window", output, (below,), expressions, {}, window.is_streaming, window.text)
    best = filtered(ranks, [_is_first(rank)])
    columns = (*(reference(each) for each in window.children[0].output), _named(extreme, value))
    made = Plan("Project", window.output, (best,), {"projectList": columns}, {}, node.is_streaming, node.text)
    return filtered(made, [each for each in conditions if each not in peaks])


def _extreme(window: Plan) -> Expression | None:
    """The `Max` or `Min` of a column that a `Window` computes over whole partitions, if that is all."""
    columns = window.expressions["windowExpressions"]
    if len(columns) != 1 or window.expressions.get("orderSpec") or not window.expressions.get("partitionSpec"):
        return None
    made = columns[0].children[0]
    aggregate = made.children[0] if made.kind == "WindowExpression" else made
    if aggregate.kind != "AggregateExpression" or len(aggregate.children) != 1:
        return None
    function = aggregate.children[0]
    if function.kind not in _ORDER or function.children[0].kind != "AttributeReference":
        return None
    # Zeros of both signs are equal, but not in an order.
    is_plain = not pa.types.is_floating(function.type) and not pa.types.is_nested(function.type)
    return function if is_plain else None


def _is_equality_of(condition: Expression, ids: set[int]) -> bool:
    if condition.kind != "EqualTo" or len(ids) < len(condition.children):
        return False
    return {each.arguments["id"] for each in condition.children if each.kind == "AttributeReference"} == ids


def _present(value: Expression) -> Expression:
    return Expression("IsNotNull", pa.bool_(), (value,), {}, False, f"({value.text} IS NOT NULL)")


def _is_first(rank: Attribute) -> Expression:
    one = Expression("Literal", rank.type, (), {"value": 1}, False, "1")
    return Expression("LessThanOrEqual", pa.bool_(), (reference(rank), one), {}, False, "(rank <= 1)")


def _rank_column(rank: Attribute) -> Expression:
    function = Expression("Rank", rank.type, (), {}, False, "rank()")
    over = Expression("WindowExpression", rank.type, (function,), {}, False, "rank() OVER")
    return _named(rank, over)


def _named(attribute: Attribute, value: Expression) -> Expression:
    arguments = {"id": attribute.id, "name": attribute.name, "metadata": attribute.metadata}
    return Expression("Alias", attribute.type, (value,), arguments, attribute.nullable, value.text)
