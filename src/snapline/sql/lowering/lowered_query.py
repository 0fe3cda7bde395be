"""A whole query as a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from snapline.api.stream import Stream
from snapline.contracts.source import Watermarks
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.sql.lowering.aggregate_streams import lowered_aggregate
from snapline.sql.lowering.distinct_streams import changing_distinct
from snapline.sql.lowering.function_streams import (
    lowered_event_times,
    lowered_generate,
    lowered_map,
    lowered_processor,
)
from snapline.sql.lowering.group_streams import (
    is_aggregate_function,
    lowered_aggregate_functions,
    lowered_group_function,
    lowered_group_states,
)
from snapline.sql.lowering.join_streams import lowered_join
from snapline.sql.lowering.lowered_stream import (
    Context,
    Lowered,
    checked_program,
    kept,
    projected,
    stream_schema,
)
from snapline.sql.lowering.over_streams import lowered_window
from snapline.sql.lowering.ranked_streams import is_ranked, lowered_limit, lowered_ranks
from snapline.sql.lowering.relation_streams import has_watermark, lowered_relation
from snapline.sql.lowering.session_streams import session_value
from snapline.sql.operators.deduplicated_rows import KeepFirstWithin
from snapline.sql.operators.expanded_rows import ExpandRows
from snapline.sql.operators.sql_projection import ProjectColumns, ProjectWindows, WindowShape
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import fingerprint
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Expression, Plan

_WATERMARK = "spark.watermarkDelayMs"
_IDLE_AFTER = "10s"
"""Spark takes the newest time of all partitions; here one that is quiet for so long holds the others back no more."""


def lowered(plan: Plan, context: Context) -> Lowered:
    """The stream of a prepared plan. Raises `ConfigurationError` for what does not run; then nothing was started."""
    context.lower = lambda below: _once(below, context)
    return context.lower(plan)


def _once(plan: Plan, context: Context) -> Lowered:
    """Parts of the query that are the same are one stream."""
    key = fingerprint(plan)
    known = context.made.get(key)
    if known is None:
        make = _NODES.get(plan.kind)
        if make is None or not plan.is_streaming:
            raise refusal(plan, "" if make is None else "it does not stream")
        known = context.made[key] = make(plan, context)
    # The same columns under the ids that this occurrence has.
    sessions = dict(known.sessions)
    for ours, theirs in zip(plan.output, known.attributes, strict=True):
        if theirs.id in sessions:
            sessions[ours.id] = sessions[theirs.id]
    return replace(known, attributes=plan.output, sessions=sessions)


def _project(plan: Plan, context: Context) -> Lowered:
    given = context.lower(plan.children[0])
    columns = list(zip(plan.output, map(_unnamed, plan.expressions["projectList"]), strict=True))
    windows = [number for number, (_, value) in enumerate(columns) if value.kind == "TimeWindow"]
    sessions = {attribute.id: value for attribute, value in columns if value.kind == "SessionWindow"}
    if len(windows) > 1 or (windows and sessions):
        raise refusal(plan, "several windows of one row", "use one window in each step of the query")
    if sessions:
        columns = [
            (attribute, session_value(sessions[attribute.id]) if attribute.id in sessions else value)
            for attribute, value in columns
        ]
        timed = [(replace(a, type=value.type) if a.id in sessions else a, value) for a, value in columns]
        made = projected(given, timed)
        gaps = {number: value.children[1] for number, value in sessions.items()}
        return replace(made, attributes=plan.output, sessions={**given.sessions, **gaps})
    if windows:
        return _windows(given, columns, windows[0])
    passed = {
        attribute.id: given.sessions[value.arguments["id"]]
        for attribute, value in columns
        if value.kind == "AttributeReference" and value.arguments["id"] in given.sessions
    }
    return replace(projected(given, columns), sessions=passed)


def _unnamed(column: Expression) -> Expression:
    return column.children[0] if column.kind == "Alias" else column


def _windows(given: Lowered, columns: list[tuple[Attribute, Expression]], number: int) -> Lowered:
    window = columns[number][1]
    values = [value.children[0] if value is window else value for _, value in columns]
    checked_program(values, given.attributes)
    attributes = tuple(attribute for attribute, _ in columns)
    schema = stream_schema(attributes, is_changing=given.is_changing)
    arguments = window.arguments
    shape = WindowShape(arguments["windowDuration"], arguments["slideDuration"], arguments["startTime"])
    operator = ProjectWindows(values, given.attributes, schema, number, shape)
    stream = given.stream._then("windows", operator, schema, None, None)
    return Lowered(stream, attributes, given.is_changing, given.sessions)


def _aggregate(plan: Plan, context: Context) -> Lowered:
    make = lowered_aggregate_functions if is_aggregate_function(plan) else lowered_aggregate
    return make(plan, context)


def _filter(plan: Plan, context: Context) -> Lowered:
    if is_ranked(plan) and context.mode != "append":  # where rows are final, ranks must be too
        return lowered_ranks(plan, context)
    return kept(context.lower(plan.children[0]), plan.expressions["condition"][0])


def _watermark(plan: Plan, context: Context) -> Lowered:
    (column,) = plan.expressions["eventTime"]
    below = plan.children[0]
    names = dict(
        zip(
            (attribute.id for attribute in below.output),
            stream_schema(below.output, is_changing=False).names,
            strict=True,
        )
    )
    delay = f"{plan.arguments['delayMs']}ms"
    watermarks = Watermarks(names[column.arguments["id"]], delay=delay, idle_after=_IDLE_AFTER)
    if below.kind in ("StreamingRelationV2", "StreamingRelation"):
        return lowered_relation(below, context, None if has_watermark(below, context) else watermarks)
    given = context.lower(below)
    if given.is_changing:
        raise refusal(plan, "rows that change later have no watermark", "set the watermark on the source")
    return replace(given, stream=context.with_watermarks(given.stream, watermarks))


def _union(plan: Plan, context: Context) -> Lowered:
    parts = [context.lower(child) for child in plan.children]
    if len({part.is_changing for part in parts}) > 1:
        raise refusal(plan, "some of its parts change later and others do not", "use the same kind on all sides")
    first = parts[0]
    wanted = tuple(
        replace(attribute, nullable=any(part.attributes[n].nullable for part in parts))
        for n, attribute in enumerate(plan.output)
    )
    schema = stream_schema(wanted, is_changing=first.is_changing)
    made = [_aligned(part, wanted, schema) for part in parts]
    return Lowered(made[0].union(*made[1:]), wanted, first.is_changing)


def _aligned(part: Lowered, wanted: tuple[Attribute, ...], schema: pa.Schema) -> Stream:
    """A part of a union with exactly the names and types of the whole."""
    if part.stream.schema.equals(schema):
        return part.stream
    values = [reference(own) for own in part.attributes]
    operator = ProjectColumns(values, part.attributes, schema)
    copies = dict(zip(schema.names, part.names, strict=False))
    return part.stream._then("aligned", operator, schema, None, None, copies=copies)


def _distinct(plan: Plan, context: Context) -> Lowered:
    return _deduplicated(plan, context, [attribute.id for attribute in plan.output])


def _deduplicate(plan: Plan, context: Context) -> Lowered:
    return _deduplicated(plan, context, [key.arguments["id"] for key in plan.expressions["keys"]])


def _deduplicated(plan: Plan, context: Context, keys: list[int]) -> Lowered:
    given = context.lower(plan.children[0])
    if given.is_changing:
        if plan.kind == "DeduplicateWithinWatermark":
            raise refusal(plan, "rows that change later", "use dropDuplicates")
        return changing_distinct(plan, given, keys, context)
    names = dict(zip((attribute.id for attribute in given.attributes), given.names, strict=True))
    columns = [names[key] for key in keys]
    layout = KeyLayout(given.stream.schema, columns)
    schema = layout.schema(given.stream.schema)
    keyed = given.stream.apply(AddKeys(layout), schema=schema).key_by(*layout.key_columns)
    uid = context.uids.uid("distinct", *columns)
    timed = [attribute for attribute in given.attributes if _WATERMARK in attribute.metadata]
    if plan.kind == "DeduplicateWithinWatermark":
        if not timed:
            raise refusal(plan, "there is no watermark", "call withWatermark before dropDuplicatesWithinWatermark")
        delay_ms = timed[0].metadata[_WATERMARK]
        operator = KeepFirstWithin(names[timed[0].id], delay_ms)
        stream = keyed.apply(operator, uid, schema=schema)
    elif any(attribute.id in keys for attribute in timed):
        time = next(attribute for attribute in timed if attribute.id in keys)
        stream = keyed.apply(KeepFirstWithin(names[time.id], 0), uid, schema=schema)
    else:
        stream = keyed.deduplicate(uid=uid)
    stream = stream.drop(*layout.key_columns)
    return replace(given, stream=stream, attributes=plan.output)


def _expand(plan: Plan, context: Context) -> Lowered:
    given = context.lower(plan.children[0])
    lengths = plan.arguments["projections"]
    flat = plan.expressions["projections"]
    rows = [flat[sum(lengths[:n]) : sum(lengths[: n + 1])] for n in range(len(lengths))]
    for row in rows:
        checked_program(row, given.attributes)
    schema = stream_schema(plan.output, is_changing=given.is_changing)
    stream = given.stream._then("expand", ExpandRows(rows, given.attributes, schema), schema, None, None)
    return Lowered(stream, plan.output, given.is_changing)


_NODES: Final[Mapping[str, Callable[[Plan, Context], Lowered]]] = {
    "Aggregate": _aggregate,
    "Deduplicate": _deduplicate,
    "DeduplicateWithinWatermark": _deduplicate,
    "Distinct": _distinct,
    "EventTimeWatermark": _watermark,
    "Expand": _expand,
    "Filter": _filter,
    "FlatMapGroupsInArrow": lowered_group_function,
    "FlatMapGroupsInPandas": lowered_group_function,
    "FlatMapGroupsInPandasWithState": lowered_group_states,
    "Generate": lowered_generate,
    "GlobalLimit": lowered_limit,
    "Join": lowered_join,
    "MapInArrow": lowered_map,
    "MapInPandas": lowered_map,
    "Project": _project,
    "StreamingRelation": lowered_relation,
    "StreamingRelationV2": lowered_relation,
    "TransformWithStateInPySpark": lowered_processor,
    "Union": _union,
    "UpdateEventTimeWatermarkColumn": lowered_event_times,
    "Window": lowered_window,
}
