"""A query's result as its output mode wants it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from snapline.api.stream import Stream
from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import without_change
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.changes.rank_order import SortColumn
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context, Lowered, kept, projected, references
from snapline.sql.lowering.ranked_streams import without_limit
from snapline.sql.operators.complete_table import CompleteTable, LatestRows
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Expression, Plan
from snapline.sql.plans.volatile_columns import without_volatile

_AGGREGATES: Final = frozenset({"Aggregate", "Distinct"})
"""Nodes with a result that Spark keeps as a whole: distinct rows are groups without aggregates."""


def output_stream(plan: Plan, context: Context) -> Stream:
    """The rows that a sink gets: all of them once, those that are new or changed, or the whole result each time.

    Random numbers and the like at the end of the query are computed for these rows.
    """
    below, above = without_volatile(plan)
    made = Lowered(_output(below, context), below.output)
    for node in above:
        if node.kind == "Filter":
            made = kept(made, node.expressions["condition"][0])
        else:
            made = projected(made, list(zip(node.output, node.expressions["projectList"], strict=True)))
    return made.stream


def _output(plan: Plan, context: Context) -> Stream:
    if context.mode == "complete":
        return _complete(plan, context)
    made = lowered(plan, context)
    if not made.is_changing:
        return made.stream
    if context.mode == "append":
        raise refusal(
            plan,
            "in append mode a row is never changed later, and rows of this query are",
            "use outputMode('update') or 'complete', or make results final with a watermark",
        )
    schema = without_change(made.stream.schema)
    return made.stream.apply(LatestRows(), schema=schema)


def _complete(plan: Plan, context: Context) -> Stream:
    below, order, limit = _without_order(plan)
    if not any(node.kind in _AGGREGATES for node in below.walk()):
        raise ConfigurationError(
            f"outputMode('complete') needs an aggregate, as in Spark; without one the result would grow for ever. The "
            f"query is: {plan.text}"
        )
    made = lowered(below, context)
    values = [each.children[0] for each in order]
    sorts = [context.attribute(f"order {n}", each.type, nullable=each.nullable) for n, each in enumerate(values)]
    if sorts:
        made = projected(made, [*references(made.attributes), *zip(sorts, values, strict=True)], "order")
    return _table(made, order, [column.name for column in sorts], limit, context)


def _table(made: Lowered, order: list[Expression], sorts: list[str], limit: int | None, context: Context) -> Stream:
    schema = made.stream.schema
    layout = KeyLayout(schema, [])
    keyed = made.stream.apply(AddKeys(layout), schema=layout.schema(schema)).key_by(*layout.key_columns)
    by = [
        SortColumn(
            name,
            descending=each.arguments["direction"] == "Descending",
            nulls_first=each.arguments["nullOrdering"] == "NullsFirst",
        )
        for name, each in zip(sorts, order, strict=True)
    ]
    operator = CompleteTable(layout.schema(schema), layout.key_columns, by, sorts, limit)
    uid = context.uids.uid("complete")
    return keyed.apply(operator, uid, schema=operator.output_schema, parallelism=1)


def _without_order(plan: Plan) -> tuple[Plan, list[Expression], int | None]:
    """The query without the order and limit at its end."""
    limit = None
    if plan.kind == "GlobalLimit":
        plan, limit = without_limit(plan)
    if plan.kind == "Project" and plan.children[0].kind == "Sort" and _is_plain(plan):
        sort = plan.children[0]
        return replace(plan, children=sort.children), list(sort.expressions["order"]), limit
    if plan.kind == "Sort":
        return plan.children[0], list(plan.expressions["order"]), limit
    return plan, [], limit


def _is_plain(plan: Plan) -> bool:
    """Whether a projection above an order keeps the columns that the order is by."""
    needed = {number for each in plan.children[0].expressions["order"] for number in each.references}
    return needed <= {attribute.id for attribute in plan.output}
