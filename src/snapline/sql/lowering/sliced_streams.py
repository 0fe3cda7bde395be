"""Aggregates of sliding windows, with rows added up by slice before they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.value_codes import has_codes
from snapline.operators.kept_rows import kept_type
from snapline.sql.lowering.lowered_stream import Context, Lowered, checked_program, stream_schema
from snapline.sql.operators.sliced_groups import SlicedGroups, SlicePart
from snapline.sql.operators.sql_projection import WindowShape
from snapline.sql.plans.fingerprints import column_names
from snapline.sql.plans.trees import Expression, Plan

if TYPE_CHECKING:
    from snapline.sql.lowering.aggregate_streams import AggregateParts

_ADDED_UP: Final = frozenset({AggregateKind.COUNT, AggregateKind.MIN, AggregateKind.MAX})


@dataclass(frozen=True, slots=True)
class _Windows:
    """The projection below an aggregate: what its columns are, and which one of them is a sliding window."""

    columns: Mapping[int, Expression]
    id: int
    time: Expression
    shape: WindowShape


def lowered_slices(plan: Plan, parts: AggregateParts, context: Context) -> tuple[Lowered, AggregateParts] | None:
    """The stream of aggregates of slices below an `Aggregate` node, and what is left to compute of them.

    None if its child is no projection with a sliding window, or aggregates need the rows themselves.
    """
    windows = _windows(plan.children[0])
    if windows is None or not _are_added_up(parts, windows):
        return None
    given = context.lower(plan.children[0].children[0])
    if given.is_changing or given.sessions:
        return None
    before = [attribute for attribute, _ in parts.before]
    expressions = [_below(value, windows) for _, value in parts.before]
    checked_program(expressions, given.attributes)
    names = column_names(before)
    groups = [before.index(group) for group in parts.groups]
    time = next(n for n, (_, value) in enumerate(parts.before) if value.arguments.get("id") == windows.id)
    made = [
        (f"part {n}", SlicePart(each.kind, *(None if name is None else names.index(name) for name in _read(each))))
        for n, each in enumerate(parts.aggregates.values())
    ]
    fields = [pa.int64() if p.kind is AggregateKind.COUNT else before[p.column or 0].type for _, p in made]
    attributes = [context.attribute(name, kind) for (name, _), kind in zip(made, fields, strict=True)]
    output = (*parts.groups, *attributes)
    schema = stream_schema(output, is_changing=False)
    operator = SlicedGroups(
        expressions, given.attributes, groups, time, windows.shape, [part for _, part in made], schema
    )
    stream = given.stream._then("slices", operator, schema, None, None)
    merged = {
        name: _merged(each, column)
        for (name, each), column in zip(parts.aggregates.items(), schema.names[len(parts.groups) :], strict=True)
    }
    return Lowered(stream, output), replace(parts, aggregates=merged)


def _windows(plan: Plan) -> _Windows | None:
    if plan.kind != "Project":
        return None
    values = {
        attribute.id: column.children[0] if column.kind == "Alias" else column
        for attribute, column in zip(plan.output, plan.expressions["projectList"], strict=True)
    }
    found = [(number, value) for number, value in values.items() if value.kind == "TimeWindow"]
    if len(found) != 1 or any(value.kind == "SessionWindow" for value in values.values()):
        return None
    number, window = found[0]
    arguments = window.arguments
    shape = WindowShape(arguments["windowDuration"], arguments["slideDuration"], arguments["startTime"])
    if shape.slide_us >= shape.length_us or shape.length_us % shape.slide_us:
        return None
    return _Windows(values, number, window.children[0], shape)


def _are_added_up(parts: AggregateParts, windows: _Windows) -> bool:
    """Whether the window is a group and nothing else, groups can be compared, and aggregates merged."""
    by_id = {attribute.id: value for attribute, value in parts.before}
    readers = [value for value in by_id.values() if windows.id in value.references]
    if len(readers) != 1 or readers[0].kind != "AttributeReference":
        return False
    if not any(by_id[group.id] is readers[0] for group in parts.groups):
        return False
    others = [group.type for group in parts.groups if by_id[group.id] is not readers[0]]
    kinds = dict(
        zip(column_names([made for made, _ in parts.before]), (made.type for made, _ in parts.before), strict=True)
    )
    return all(_is_plain(kind) for kind in others) and all(
        each.kind in _ADDED_UP
        and not each.distinct
        and (each.kind is AggregateKind.COUNT or has_codes(kept_type(kinds[each.column or ""])))
        for each in parts.aggregates.values()
    )


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_floating(kind) and not pa.types.is_nested(kind) and not pa.types.is_null(kind)


def _below(value: Expression, windows: _Windows) -> Expression:
    """A column over what is below the projection; the window is the time of the row."""
    if value.arguments.get("id") == windows.id and value.kind == "AttributeReference":
        return windows.time
    return value.rewritten(
        lambda each: windows.columns[each.arguments["id"]] if each.kind == "AttributeReference" else each
    )


def _read(aggregate: Aggregate) -> tuple[str | None, str | None]:
    return aggregate.column, aggregate.where


def _merged(aggregate: Aggregate, column: str) -> Aggregate:
    """The aggregate of all slices of a window."""
    if aggregate.kind is AggregateKind.COUNT:
        return Aggregate(AggregateKind.SUM, column, result=pa.int64())
    return Aggregate(aggregate.kind, column)
