"""Plans made by hand, and what they give when they run without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import snapline as sl
from snapline.operators.changes.changes import CHANGE
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context, Lowered
from snapline.sql.lowering.relation_streams import VIEW_FORMAT
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.trees import Attribute, Expression, Plan
from snapline.testing import ThreadCluster

TIME = pa.timestamp("us", "UTC")
WINDOW = pa.struct([pa.field("start", TIME), pa.field("end", TIME)])
EVENT_TIME = {"spark.watermarkDelayMs": 0}

ID = Attribute(1, "id", pa.int64(), False)
AT = Attribute(2, "at", TIME, True, EVENT_TIME)
USER = Attribute(3, "user", pa.string())
PRICE = Attribute(4, "price", pa.int64())
EVENTS = (ID, AT, USER, PRICE)

START = datetime(2024, 1, 1, tzinfo=UTC)


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def call(kind: str, type: pa.DataType, *children: Expression, **arguments: Any) -> Expression:
    text = f"{kind.lower()}({', '.join(child.text for child in children)})"
    return Expression(kind, type, children, arguments, True, text)


def literal(value: Any, type: pa.DataType | None = None) -> Expression:
    kind = pa.scalar(value).type if type is None else type
    return Expression("Literal", kind, (), {"value": value}, value is None, repr(value))


def alias(attribute: Attribute, value: Expression) -> Expression:
    arguments = {"id": attribute.id, "name": attribute.name, "metadata": attribute.metadata}
    return Expression(
        "Alias", attribute.type, (value,), arguments, attribute.nullable, f"{value.text} AS {attribute.name}"
    )


def greater(left: Expression, right: Expression) -> Expression:
    return call("GreaterThan", pa.bool_(), left, right)


def relation(view: str = "events", output: Sequence[Attribute] = EVENTS) -> Plan:
    arguments = {"sourceName": VIEW_FORMAT, "extraOptions": {"view": view}, "source": "View"}
    return Plan("StreamingRelationV2", tuple(output), (), {}, arguments, True, f"view {view}")


def watermark(child: Plan, time: Attribute = AT, delay_ms: int = 0) -> Plan:
    expressions = {"eventTime": (reference(time),)}
    return Plan("EventTimeWatermark", child.output, (child,), expressions, {"delayMs": delay_ms}, True, "watermark")


def project(child: Plan, *columns: Expression | Attribute) -> Plan:
    values = tuple(reference(each) if isinstance(each, Attribute) else each for each in columns)
    output = tuple(
        Attribute(
            each.arguments["id"], each.arguments["name"], each.type, each.nullable, each.arguments.get("metadata", {})
        )
        for each in values
    )
    return Plan("Project", output, (child,), {"projectList": values}, {}, child.is_streaming, "Project")


def where(child: Plan, condition: Expression) -> Plan:
    return Plan("Filter", child.output, (child,), {"condition": (condition,)}, {}, child.is_streaming, "Filter")


def join(left: Plan, right: Plan, condition: Expression | None, kind: str = "Inner") -> Plan:
    output = left.output if kind in ("LeftSemi", "LeftAnti") else (*left.output, *right.output)
    expressions = {} if condition is None else {"condition": (condition,)}
    return Plan("Join", output, (left, right), expressions, {"joinType": kind}, True, f"Join {kind}")


def aggregated(function: Expression, *, distinct: bool = False, where: Expression | None = None) -> Expression:
    children = (function,) if where is None else (function, where)
    arguments = {"isDistinct": distinct, "mode": "Complete"}
    return Expression("AggregateExpression", function.type, children, arguments, True, function.text)


def count(*values: Expression) -> Expression:
    return call("Count", pa.int64(), *(values or (literal(1),)))


def total(value: Expression) -> Expression:
    return call("Sum", pa.int64(), value, evalMode="ANSI")


def aggregate(child: Plan, groups: Sequence[Expression], columns: Sequence[Expression]) -> Plan:
    expressions = {"groupingExpressions": tuple(groups), "aggregateExpressions": tuple(columns)}
    output = project(child, *columns).output
    return Plan("Aggregate", output, (child,), expressions, {}, True, "Aggregate")


def time_window(time: Expression, seconds: int, every: int | None = None) -> Expression:
    arguments = {"windowDuration": seconds * 10**6, "slideDuration": (every or seconds) * 10**6, "startTime": 0}
    return Expression("TimeWindow", WINDOW, (time,), arguments, False, f"window({time.text}, '{seconds} seconds')")


def run(
    plan: Plan, rows: Sequence[Sequence[Any]], *, mode: str | None = None, others: dict[str, Any] | None = None
) -> Counter[tuple[Any, ...]]:
    """The rows of a plan over the view `events` with these rows: what is left after all changes."""
    job = sl.Job("plan", parallelism=2)
    views = {"events": _source(job, "events", EVENTS, rows)}
    for name, (output, values) in (others or {}).items():
        views[name] = _source(job, name, output, values)
    return left_over(lowered(plan, Context(job, Uids(), mode, views)))


def _source(job: sl.Job, name: str, output: Sequence[Attribute], rows: Sequence[Sequence[Any]]) -> sl.Stream:
    schema = pa.schema([pa.field(each.name, each.type) for each in output])
    return job.source(sl.sources.Iterator([tuple(row) for row in rows], schema=schema), uid=name)


def left_over(made: Lowered) -> Counter[tuple[Any, ...]]:
    """The rows of a stream that its changes leave."""
    table = made.stream.collect(ThreadCluster())
    kinds = table.column(CHANGE).to_pylist() if CHANGE in table.schema.names else [0] * table.num_rows
    columns = [table.column(number).to_pylist() for number in range(len(made.attributes))]
    found: Counter[tuple[Any, ...]] = Counter()
    for row, kind in zip(zip(*columns, strict=True), kinds, strict=True):
        found[tuple(map(_hashable, row))] += 1 - 2 * (kind & 1)
    assert min(found.values(), default=0) >= 0, "a row was taken back that was never there"
    return +found


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value.values())
    return tuple(sorted(value, key=str)) if isinstance(value, list) else value
