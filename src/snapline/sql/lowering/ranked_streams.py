"""The best rows of each partition, and the first rows: a rank with a limit, an order with a limit, a limit alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from snapline.operators.changes.best_row import BestRow, ranked_rows
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.changes.limit_rows import LimitRows
from snapline.operators.changes.local_best import LocalBest
from snapline.operators.changes.rank_order import RankKind, SortColumn
from snapline.operators.changes.ranked_changes import RankedChanges
from snapline.sql.lowering.aggregate_streams import WATERMARK
from snapline.sql.lowering.lowered_stream import Context, Lowered, kept, projected, references
from snapline.sql.lowering.over_specs import constant
from snapline.sql.operators.timed_ranks import TimedRanks
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.time_windows import conjunction, conjuncts
from snapline.sql.plans.trees import Attribute, Expression, Plan

_RANKS: Final = {"RowNumber": RankKind.ROW_NUMBER, "Rank": RankKind.RANK, "DenseRank": RankKind.DENSE_RANK}
_MIRRORED: Final = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual", "EqualTo": "EqualTo"}


def is_ranked(plan: Plan) -> bool:
    """Whether a filter keeps the best rows by a rank below it."""
    return plan.kind == "Filter" and plan.children[0].kind == "Window" and _limit(plan) is not None


def lowered_ranks(plan: Plan, context: Context) -> Lowered:
    """The stream of a filter on a rank of a `Window` node."""
    window = plan.children[0]
    found = _limit(plan)
    assert found is not None
    limit, rest = found
    (column,) = window.expressions["windowExpressions"]
    given = context.lower(window.children[0])
    kind = _RANKS[column.children[0].children[0].kind]
    made = best_rows(
        given,
        window.expressions.get("partitionSpec", ()),
        window.expressions.get("orderSpec", ()),
        limit,
        context,
        kind=kind,
        rank=window.output[-1],
    )
    return kept(made, conjunction(rest)) if rest else made


def _limit(plan: Plan) -> tuple[int, list[Expression]] | None:
    """The last rank that the filter keeps, and its other conditions."""
    window = plan.children[0]
    columns = window.expressions["windowExpressions"]
    if len(columns) != 1 or columns[0].children[0].kind != "WindowExpression":
        return None
    if columns[0].children[0].children[0].kind not in _RANKS:
        return None
    rank = columns[0].arguments["id"]
    conditions = conjuncts(plan.expressions["condition"][0])
    for condition in conditions:
        limit = _bound(condition, rank)
        if limit is not None:
            rest = [each for each in conditions if each is not condition or (each.kind == "EqualTo" and limit > 1)]
            return limit, rest
    return None


def _bound(condition: Expression, rank: int) -> int | None:
    if len(condition.children) != 2:
        return None
    left, right = map(_inner, condition.children)
    kind = condition.kind
    if left.kind == "Literal":
        left, right, kind = right, left, _MIRRORED.get(kind, "")
    if left.kind != "AttributeReference" or left.arguments["id"] != rank or right.kind != "Literal":
        return None
    limit = int(right.arguments["value"]) - (kind == "LessThan")
    return limit if kind in ("LessThan", "LessThanOrEqual", "EqualTo") and limit >= 1 else None


def _inner(expression: Expression) -> Expression:
    return expression.children[0] if expression.kind == "Cast" else expression


def lowered_limit(plan: Plan, context: Context) -> Lowered:
    """The stream of `LIMIT n`: the best rows of an order, or the first that ever came."""
    below, count = without_limit(plan)
    is_sorted = below.kind == "Sort"
    given = context.lower(below.children[0] if is_sorted else below)
    if count == 0:
        return kept(given, Expression("Literal", pa.bool_(), (), {"value": False}, False, "false"))
    if is_sorted:
        return best_rows(given, (), below.expressions["order"], count, context)
    if given.is_changing:
        raise refusal(plan, "which rows are the first changes later")
    layout = KeyLayout(given.stream.schema, [])
    schema = layout.schema(given.stream.schema)
    keyed = given.stream.apply(AddKeys(layout), schema=schema).key_by(*layout.key_columns)
    operator = LimitRows(schema, layout.key_columns, count)
    uid = context.uids.uid("limit", *given.names)
    return replace(given, stream=keyed.apply(operator, uid, schema=operator.output_schema, parallelism=1))


def without_limit(plan: Plan) -> tuple[Plan, int]:
    """What a `GlobalLimit` is of, and how many rows it lets pass."""
    below = plan.children[0]
    count = int(constant(plan.expressions["limitExpr"][0]))
    return below.children[0] if below.kind == "LocalLimit" else below, count


def best_rows(
    given: Lowered,
    partition: Sequence[Expression],
    order: Sequence[Expression],
    limit: int,
    context: Context,
    *,
    kind: RankKind = RankKind.ROW_NUMBER,
    rank: Attribute | None = None,
) -> Lowered:
    """The first rows of each partition in an order; with the rank as last column if it has an attribute.

    They are changes, or final if event time brings partitions to an end and the output mode allows for that.
    """
    keys = [context.attribute(f"partition {n}", each.type, nullable=each.nullable) for n, each in enumerate(partition)]
    values = [each.children[0] for each in order]
    sorts = [context.attribute(f"order {n}", each.type, nullable=each.nullable) for n, each in enumerate(values)]
    columns = [*references(given.attributes), *zip(keys, partition, strict=True), *zip(sorts, values, strict=True)]
    ready = projected(given, columns, "order")
    schema = ready.stream.schema
    layout = KeyLayout(schema, [key.name for key in keys])
    by = [
        SortColumn(
            column.name,
            descending=each.arguments["direction"] == "Descending",
            nulls_first=each.arguments["nullOrdering"] == "NullsFirst",
        )
        for column, each in zip(sorts, order, strict=True)
    ]
    keyed = ready.stream.apply(AddKeys(layout), schema=layout.schema(schema))
    if not given.is_changing and by:
        keyed = keyed.apply(LocalBest(layout.key_columns, by, limit, kind), schema=keyed.schema)
    name = None if rank is None else "rank of row"
    rank_type = None if rank is None else rank.type
    keyed_schema = layout.schema(schema)
    timed = _timed(partition, keys)
    is_final = timed is not None and by and not given.is_changing and context.mode not in ("update", "complete")
    operator: RankedChanges | BestRow
    if is_final and timed is not None:
        operator = TimedRanks(
            keyed_schema, layout.key_columns, by, limit, kind, time=timed, rank_column=name, rank_type=rank_type
        )
    else:
        operator = ranked_rows(keyed_schema, layout.key_columns, by, limit, kind, rank_column=name, rank_type=rank_type)
    uid = context.uids.uid("top", *(each.text for each in partition), *(each.text for each in order))
    stream = keyed.key_by(*layout.key_columns).apply(operator, uid, schema=operator.output_schema)
    made = [*ready.attributes, *([] if rank is None else [rank])]
    wanted = [*given.attributes, *([] if rank is None else [rank])]
    best = Lowered(stream, tuple(made), not is_final)
    return projected(best, [(each, reference(each)) for each in wanted], "best")


def _timed(partition: Sequence[Expression], keys: Sequence[Attribute]) -> str | None:
    """The column of a partition that event time brings to an end: one without nulls, which no time passes."""
    for expression, key in zip(partition, keys, strict=True):
        has_time = WATERMARK in expression.arguments.get("metadata", {}) and expression.kind == "AttributeReference"
        if has_time and (pa.types.is_struct(expression.type) or not expression.nullable):
            return key.name
    return None
