"""Aggregates: of groups that change for ever, of groups that event time ends, and of sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.operators.changes.aggregate_specs import Aggregate
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.changes.retracting_aggregate import RetractingAggregate
from snapline.sql.lowering.aggregate_functions import aggregate_inputs, aggregate_spec, aggregate_texts
from snapline.sql.lowering.lowered_stream import Context, Lowered, projected
from snapline.sql.lowering.session_streams import lowered_sessions
from snapline.sql.lowering.sliced_streams import lowered_slices
from snapline.sql.operators.timed_groups import TimedGroups
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import column_names, expression_text
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Expression, Plan

WATERMARK: Final = "spark.watermarkDelayMs"
"""Spark's mark of columns with event time."""


@dataclass(frozen=True, slots=True)
class AggregateParts:
    """An aggregate of SQL, ready for operators: columns to compute before, aggregates by name, and columns after."""

    groups: tuple[Attribute, ...]
    before: tuple[tuple[Attribute, Expression], ...]
    aggregates: Mapping[str, Aggregate]
    results: tuple[Attribute, ...]
    after: tuple[tuple[Attribute, Expression], ...]


def lowered_aggregate(plan: Plan, context: Context) -> Lowered:
    """The stream of an `Aggregate` node."""
    parts = aggregate_parts(plan, context)
    slices = lowered_slices(plan, parts, context)
    if slices is not None:
        return projected(_grouped(plan, slices[1], slices[0], context), parts.after, "results")
    given = context.lower(plan.children[0])
    sessions = [n for n, each in enumerate(plan.expressions["groupingExpressions"]) if _id(each) in given.sessions]
    if sessions:
        return lowered_sessions(plan, parts, sessions[0], given, context)
    if given.sessions.keys() & {number for _, each in parts.before for number in each.references}:
        raise refusal(plan, "a session window is used other than as a group", "group by the session window itself")
    ready = projected(given, parts.before, "inputs")
    made = _grouped(plan, parts, ready, context)
    return projected(made, parts.after, "results")


def aggregate_parts(plan: Plan, context: Context) -> AggregateParts:
    """What an `Aggregate` node computes, and from what."""
    grouping = plan.expressions.get("groupingExpressions", ())
    before: list[tuple[Attribute, Expression]] = []
    known: dict[str, Attribute] = {}

    def column(expression: Expression, name: str) -> Attribute:
        text = expression_text(expression, _ids(expression))
        if text not in known:
            made = context.attribute(name, expression.type, nullable=expression.nullable)
            known[text] = made
            before.append((made, expression))
        return known[text]

    groups: list[Attribute] = []
    meanings: dict[str, Attribute] = {}
    for expression in grouping:
        made = column(expression, str(expression.arguments.get("name") or expression.text))
        if made not in groups:
            groups.append(made)
        meanings[expression_text(expression, _ids(expression))] = made
    aggregates: dict[str, Aggregate] = {}
    results: list[Attribute] = []
    found: dict[str, Attribute] = {}

    def result(expression: Expression) -> Attribute:
        text = expression_text(expression, _ids(expression))
        if text not in found:
            found[text] = context.attribute(f"result {len(found) + 1}", expression.type)
            results.append(found[text])
            pending.append((found[text].name, expression))
        return found[text]

    pending: list[tuple[str, Expression]] = []
    after = tuple(
        (attribute, _replaced(expression, meanings, result))
        for attribute, expression in zip(plan.output, plan.expressions["aggregateExpressions"], strict=True)
    )
    wanted = [(name, expression, aggregate_inputs(expression)) for name, expression in pending]
    names: list[tuple[str, Expression, Attribute | None, Attribute | None]] = []
    for name, expression, (value, where) in wanted:
        names.append(
            (
                name,
                expression,
                None if value is None else column(value, "value"),
                None if where is None else column(where, "condition"),
            )
        )
    if not before:
        before.append((context.attribute("row", pa.bool_()), _true()))
    stream_names = dict(zip((made.id for made, _ in before), column_names([made for made, _ in before]), strict=True))
    for name, expression, value_column, condition in names:
        aggregates[name] = aggregate_spec(
            expression,
            None if value_column is None else stream_names[value_column.id],
            None if condition is None else stream_names[condition.id],
        )
    return AggregateParts(tuple(groups), tuple(before), aggregates, tuple(results), after)


def _true() -> Expression:
    return Expression("Literal", pa.bool_(), (), {"value": True}, False, "true")


def _ids(expression: Expression) -> dict[int, str]:
    return {number: f"id {number}" for number in expression.references}


def _id(expression: Expression) -> int | None:
    return expression.arguments["id"] if expression.kind == "AttributeReference" else None


def _replaced(
    expression: Expression, meanings: Mapping[str, Attribute], result: Callable[[Expression], Attribute]
) -> Expression:
    """The expression over groups and results instead of rows."""
    if expression.kind == "AggregateExpression":
        return reference(result(expression))
    group = meanings.get(expression_text(expression, _ids(expression)))
    if group is not None:
        return reference(group)
    if expression.kind == "Alias":
        return _replaced(expression.children[0], meanings, result)
    children = tuple(_replaced(child, meanings, result) for child in expression.children)
    return Expression(
        expression.kind, expression.type, children, expression.arguments, expression.nullable, expression.text
    )


def _grouped(plan: Plan, parts: AggregateParts, ready: Lowered, context: Context) -> Lowered:
    names = dict(zip((attribute.id for attribute in ready.attributes), ready.names, strict=True))
    groups = [names[group.id] for group in parts.groups]
    timed = _timed(plan, parts)
    mode = context.mode
    if mode == "append" and timed is None:
        raise refusal(
            plan,
            "in append mode a row is never changed, and these groups never end",
            "group by a window of a column with withWatermark, or use outputMode('update') or 'complete'",
        )
    schema = ready.stream.schema
    is_global = not groups
    layout = KeyLayout(schema, groups)
    keyed = ready.stream.apply(AddKeys(layout), schema=layout.schema(schema)).key_by(*layout.key_columns)
    is_final = timed is not None and mode not in ("complete", "update")
    rows, aggregates = layout.schema(schema), parts.aggregates
    operator: RetractingAggregate
    try:
        if timed is None or mode == "complete":
            operator = RetractingAggregate(rows, groups, aggregates, before=True, is_global=is_global)
        else:
            operator = TimedGroups(rows, groups, aggregates, time=names[timed.id], is_final=is_final, before=True)
    except ConfigurationError as error:
        raise refusal(plan, str(error)) from error
    # With the aggregates in it, state of others is never taken for theirs: a query that has others is refused.
    uid = context.uids.uid("aggregate", *groups, *aggregate_texts(plan))
    stream = keyed.apply(operator, uid, schema=operator.output_schema)
    return Lowered(stream, (*parts.groups, *parts.results), not is_final)


def _timed(plan: Plan, parts: AggregateParts) -> Attribute | None:
    """The group that event time brings to an end."""
    for expression in plan.expressions.get("groupingExpressions", ()):
        if WATERMARK in expression.arguments.get("metadata", {}) and expression.kind == "AttributeReference":
            text = expression_text(expression, _ids(expression))
            return next(made for made, given in parts.before if expression_text(given, _ids(given)) == text)
    return None
