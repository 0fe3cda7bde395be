"""Aggregates of sessions: rows of a key with no long gap between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api import aggregates as api
from snapline.api.stream import Stream
from snapline.api.windows import Session
from snapline.errors import ConfigurationError
from snapline.operators.changes.aggregate_specs import Aggregate, AggregateKind
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.windows.window_results import WINDOW_COLUMNS
from snapline.sql.lowering.aggregate_functions import aggregate_texts
from snapline.sql.lowering.lowered_stream import Context, Lowered, projected
from snapline.sql.operators.row_sessions import RowSessions
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Expression, Plan

if TYPE_CHECKING:
    from snapline.sql.lowering.aggregate_streams import AggregateParts

_AGGREGATES: Final[Mapping[AggregateKind, Callable[..., api.Aggregate]]] = {
    AggregateKind.SUM: api.sum,
    AggregateKind.AVG: api.mean,
    AggregateKind.MIN: api.min,
    AggregateKind.MAX: api.max,
    AggregateKind.FIRST: api.first,
    AggregateKind.LAST: api.last,
    AggregateKind.COLLECT_LIST: api.collect,
}

_FIRST, _LAST = "first time", "last time"

_UNITS_MS: Final[Mapping[str, float]] = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
    "millisecond": 1,
    "microsecond": 0.001,
}
_PART = re.compile(rf"(-?[0-9.]+)\s+({'|'.join(_UNITS_MS)})s?", re.IGNORECASE)


def lowered_sessions(plan: Plan, parts: AggregateParts, number: int, given: Lowered, context: Context) -> Lowered:
    """The stream of an aggregate of which one group is a session window."""
    session = plan.expressions["groupingExpressions"][number]
    gap = given.sessions[session.arguments["id"]]
    if given.is_changing:
        raise refusal(plan, "sessions of a result that changes later", "group by the session first, then aggregate")
    if gap.references or not all(map(_is_plain, parts.aggregates.values())):
        return _of_rows(plan, parts, number, given, context)
    gap_ms = _gap_ms(plan, gap)
    time = _as_time(parts.groups[number], session, given)
    before = [(time if attribute.id == time.id else attribute, value) for attribute, value in parts.before]
    ready = projected(given, before, "inputs")
    names = dict(zip((attribute.id for attribute in ready.attributes), ready.names, strict=True))
    others = [group for group in parts.groups if group.id != time.id]
    layout = KeyLayout(ready.stream.schema, [names[group.id] for group in others])
    keyed = ready.stream.apply(AddKeys(layout), schema=layout.schema(ready.stream.schema)).key_by(*layout.key_columns)
    values = {f"group {n + 1}": api.first(names[group.id]) for n, group in enumerate(others)}
    results = {name: _aggregate(each) for name, each in parts.aggregates.items()}
    uid = context.uids.uid("sessions", *(group.name for group in others), *aggregate_texts(plan))
    windows = keyed.window(Session(f"{gap_ms}ms"), on=names[time.id])
    times = {_FIRST: api.min(names[time.id]), _LAST: api.max(names[time.id])}
    aggregates: dict[str, Any] = {**values, **results, **times}
    stream = _with_exact_bounds(windows.aggregate(uid=uid, **aggregates), gap_ms)
    made = [context.attribute(field.name, field.type) for field in stream.schema]
    by_name = {attribute.name: attribute for attribute in made}
    columns: list[tuple[Attribute, Expression]] = []
    for attribute in parts.groups:
        if attribute.id == time.id:
            columns.append((_struct_attribute(time, session), _window(by_name, session.type)))
        else:
            columns.append((attribute, reference(by_name[f"group {others.index(attribute) + 1}"])))
    columns += [(attribute, _cast(by_name[attribute.name], attribute.type)) for attribute in parts.results]
    grouped = projected(Lowered(stream, tuple(made)), columns, "sessions")
    return projected(grouped, parts.after, "results")


def session_value(session: Expression) -> Expression:
    """What a row carries for its session: its time or, where the gap depends on the row, also the time plus the gap."""
    time, gap = session.children
    return _span(time, gap) if gap.references else time


def _span(time: Expression, gap: Expression) -> Expression:
    zones = [each.arguments["timeZoneId"] for each in gap.walk() if each.arguments.get("timeZoneId")]
    arguments = {"timeZoneId": zones[0] if zones else "UTC"}
    text = f"({time.text} + {gap.text})"
    end = Expression("TimestampAddInterval", time.type, (time, gap), arguments, True, text)
    return _struct(time, end, pa.struct([pa.field("start", time.type), pa.field("end", time.type)]))


def _of_rows(plan: Plan, parts: AggregateParts, number: int, given: Lowered, context: Context) -> Lowered:
    """Sessions whose rows are all kept until they end: each row has a gap of its own, or aggregates need all rows."""
    session = plan.expressions["groupingExpressions"][number]
    gap = given.sessions[session.arguments["id"]]
    time = _as_time(parts.groups[number], session, given)
    before = [(time if attribute.id == time.id else attribute, value) for attribute, value in parts.before]
    if not gap.references:
        length = Expression("Literal", pa.duration("us"), (), {"value": _gap_ms(plan, gap) * 1000}, False, gap.text)
        before = [
            (_spanned(a), _span(replace(value, type=time.type), length)) if a.id == time.id else (a, value)
            for a, value in before
        ]
    ready = projected(given, before, "inputs")
    names = dict(zip((attribute.id for attribute in ready.attributes), ready.names, strict=True))
    others = [group for group in parts.groups if group.id != time.id]
    schema = ready.stream.schema
    layout = KeyLayout(schema, [names[group.id] for group in others])
    keyed = ready.stream.apply(AddKeys(layout), schema=layout.schema(schema)).key_by(*layout.key_columns)
    try:
        operator = RowSessions(
            layout.schema(schema), layout.key_columns, names[time.id], layout.columns, parts.aggregates, session.type
        )
    except ConfigurationError as error:
        raise refusal(plan, str(error)) from error
    uid = context.uids.uid("sessions", *(group.name for group in others))
    stream = keyed.apply(operator, uid, schema=operator.output_schema)
    made = (_struct_attribute(time, session), *others, *parts.results)
    return projected(Lowered(stream, made), parts.after, "results")


def _spanned(time: Attribute) -> Attribute:
    return replace(time, type=pa.struct([pa.field("start", time.type), pa.field("end", time.type)]))


def _as_time(group: Attribute, session: Expression, given: Lowered) -> Attribute:
    """The group as it is so far: the time of the row."""
    position = [attribute.id for attribute in given.attributes].index(session.arguments["id"])
    return Attribute(group.id, group.name, given.stream.schema.field(position).type, group.nullable)


def _with_exact_bounds(stream: Stream, gap_ms: int) -> Stream:
    """Windows in the microseconds of their rows: those of the operator are in milliseconds."""
    gap = pa.scalar(gap_ms * 1000, pa.duration("us"))
    columns = {WINDOW_COLUMNS[0]: pc.field(_FIRST), WINDOW_COLUMNS[1]: pc.add(pc.field(_LAST), gap)}
    return stream.with_columns(**columns).drop(_FIRST, _LAST)


def _struct_attribute(time: Attribute, session: Expression) -> Attribute:
    return Attribute(time.id, time.name, session.type, False, session.arguments.get("metadata", {}))


def _gap_ms(plan: Plan, gap: Expression) -> int:
    while gap.kind == "Cast":
        gap = gap.children[0]
    value = gap.arguments.get("value")
    if isinstance(value, str):
        parts = _PART.findall(value)
        if parts and not _PART.sub("", value.removeprefix("interval")).strip():
            return int(sum(float(number) * _UNITS_MS[unit.lower()] for number, unit in parts))
    elif isinstance(value, pa.MonthDayNano) and not value.months:
        return int(value.days * 86_400_000 + value.nanoseconds // 1_000_000)
    elif pa.types.is_duration(gap.type) and value is not None:
        return int(value // 1000)
    raise refusal(plan, f"a gap of {gap.text}", "give the gap in days, hours, minutes or seconds")


def _is_plain(given: Aggregate) -> bool:
    """Whether the windows of the API have such an aggregate."""
    if given.kind is AggregateKind.COUNT:
        return True
    return given.kind in _AGGREGATES and not given.distinct


def _aggregate(given: Aggregate) -> api.Aggregate:
    if given.kind is AggregateKind.COUNT:
        if given.distinct and given.column is not None:
            return api.count_distinct(given.column, where=given.where)
        return api.count(given.column, where=given.where)
    return _AGGREGATES[given.kind](given.column, where=given.where)


def _window(names: Mapping[str, Attribute], kind: pa.DataType) -> Expression:
    start, end = (reference(names[name]) for name in WINDOW_COLUMNS)
    return _struct(start, end, kind)


def _struct(start: Expression, end: Expression, kind: pa.DataType) -> Expression:
    children: list[Expression] = []
    for name, value in (("start", start), ("end", end)):
        children += [Expression("Literal", pa.string(), (), {"value": name}, False, repr(name)), value]
    return Expression("CreateNamedStruct", kind, tuple(children), {}, False, "session_window")


def _cast(given: Attribute, wanted: pa.DataType) -> Expression:
    column = reference(given)
    if given.type == wanted:
        return column
    arguments = {"evalMode": "ANSI", "timeZoneId": "UTC"}
    return Expression("Cast", wanted, (column,), arguments, True, f"CAST({given.name})")
