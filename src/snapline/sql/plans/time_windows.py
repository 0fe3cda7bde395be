"""`window()` and `session_window()` as one expression again: the analyser spells them out.

A tumbling window is a `Project` of a struct of arithmetic, a sliding one an `Expand` with a projection for each window
that a row can be in, a session a struct of the row's time and that plus the gap. Spark marks the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from snapline.sql.plans.trees import Expression, Plan

TIME_WINDOW: Final = "spark.timeWindow"
SESSION_WINDOW: Final = "spark.sessionWindow"


def with_time_windows(plan: Plan) -> Plan:
    """The plan with windows recovered.

    `TimeWindow` has the time as its child and `windowDuration`, `slideDuration` and `startTime` in microseconds; a
    `Project` with a sliding one gives a row for each window. `SessionWindow` has the time and the gap, a calendar
    interval, as its children. Conditions of filters that the analyser added for its own spelling are gone; rows
    without a time are still filtered.
    """
    return plan.rewritten(_recovered)


def _recovered(plan: Plan) -> Plan:
    if plan.kind == "Project":
        return replace(plan, expressions={"projectList": tuple(map(_in_list, plan.expressions["projectList"]))})
    if plan.kind == "Expand":
        return _without_expand(plan)
    if plan.kind == "Filter":
        return _without_own_conditions(plan)
    return plan


def _in_list(expression: Expression) -> Expression:
    if expression.kind != "Alias":
        return expression
    metadata = expression.arguments.get("metadata", {})
    if TIME_WINDOW in metadata:
        window = _time_window([expression.children[0]])
    elif SESSION_WINDOW in metadata:
        window = _session_window(expression.children[0])
    else:
        return expression
    if window is None:
        return expression
    return replace(expression, children=(window,), text=f"{window.text} AS {expression.arguments['name']}")


def _without_expand(plan: Plan) -> Plan:
    marked = [n for n, attribute in enumerate(plan.output) if TIME_WINDOW in attribute.metadata]
    if len(marked) != 1:
        return plan
    lengths: Sequence[int] = plan.arguments["projections"]
    flat = plan.expressions["projections"]
    rows = [flat[sum(lengths[:n]) : sum(lengths[: n + 1])] for n in range(len(lengths))]
    window = _time_window([row[marked[0]] for row in rows])
    if window is None:
        return plan
    columns = []
    for number, (attribute, value) in enumerate(zip(plan.output, rows[0], strict=True)):
        if number != marked[0]:
            columns.append(value)
            continue
        arguments = {"id": attribute.id, "name": attribute.name, "metadata": attribute.metadata}
        columns.append(Expression("Alias", window.type, (window,), arguments, False, window.text))
    return Plan(
        "Project", plan.output, plan.children, {"projectList": tuple(columns)}, {}, plan.is_streaming, plan.text
    )


def _time_window(structs: Sequence[Expression]) -> Expression | None:
    """The window of which these structs are the possible values of a row, the latest first."""
    time = _innermost_time(structs[0])
    if time is None:  # a copy of a window that was made below
        return None
    numbers = [_numbers(struct) for struct in structs]
    if any(found is None for found in numbers):
        return None
    (start, slide, _, length) = numbers[0] or (0, 0, 0, 0)
    kind = structs[0].type
    words = f"{time.text}, '{length} microseconds', '{slide} microseconds', '{start} microseconds'"
    arguments = {"windowDuration": length, "slideDuration": slide, "startTime": start}
    return Expression("TimeWindow", kind, (time,), arguments, structs[0].nullable, f"window({words})")


def _innermost_time(struct: Expression) -> Expression | None:
    """The time that the windows are of: below the innermost conversion to a number."""
    if struct.kind != "CreateNamedStruct":
        return None
    for found in struct.walk():
        if found.kind == "PreciseTimestampConversion" and pa.types.is_timestamp(found.children[0].type):
            return found.children[0]
    return None


def _numbers(struct: Expression) -> tuple[int, int, int, int] | None:
    """Start offset, slide, shift of this window against the latest, and length.

    The struct is `start = ((t - remainder) - shift)`, `end = start + length`, where the remainder is that of
    `(t - offset) % slide`.
    """
    _, start, _, end = struct.children
    start, end = _plain(start), _plain(end)
    if start.kind != "Subtract" or end.kind != "Add":
        return None
    remainders = [found for found in start.walk() if found.kind in ("Remainder", "Pmod")]
    if not remainders:
        return None
    offset, slide = remainders[0].children[0].children[1], remainders[0].children[1]
    literals = (offset, slide, start.children[1], end.children[1])
    if any(found.kind != "Literal" for found in literals):
        return None
    first, second, third, fourth = (int(found.arguments["value"]) for found in literals)
    return first, second, third, fourth


def _plain(expression: Expression) -> Expression:
    while expression.kind in ("KnownNullable", "KnownNotNull", "PreciseTimestampConversion"):
        expression = expression.children[0]
    return expression


def _session_window(struct: Expression) -> Expression | None:
    if struct.kind != "CreateNamedStruct":
        return None
    time = _plain(struct.children[1])
    end = _plain(struct.children[3])
    while end.kind == "Cast":
        end = end.children[0]
    if not end.kind.startswith("TimeAdd") and end.kind not in ("TimestampAddInterval", "DatetimeAdd"):
        return None
    gap = end.children[1]
    text = f"session_window({time.text}, {gap.text})"
    return Expression("SessionWindow", struct.type, (time, gap), {}, struct.nullable, text)


def _without_own_conditions(plan: Plan) -> Plan:
    """A filter without the conditions on a window that the analyser added right above it."""
    below = plan.children[0]
    if below.kind != "Project":
        return plan
    windows = {
        column.arguments["id"]: column.children[0]
        for column in below.expressions["projectList"]
        if column.kind == "Alias" and column.children[0].kind in ("TimeWindow", "SessionWindow")
    }
    if not windows:
        return plan
    conditions = conjuncts(plan.expressions["condition"][0])
    kept = [condition for condition in conditions if not condition.references & windows.keys()]
    if len(kept) == len(conditions):
        return plan
    if not kept:
        times = [window.children[0] for window in windows.values()]
        kept = [Expression("IsNotNull", pa.bool_(), (time,), {}, False, f"({time.text} IS NOT NULL)") for time in times]
    return replace(plan, expressions={"condition": (conjunction(kept),)})


def conjuncts(condition: Expression) -> list[Expression]:
    """The conditions that all have to hold."""
    if condition.kind != "And":
        return [condition]
    return [each for child in condition.children for each in conjuncts(child)]


def conjunction(conditions: Sequence[Expression]) -> Expression:
    """One condition that holds where all of these do."""
    whole, *rest = conditions
    for each in rest:
        text = f"({whole.text} AND {each.text})"
        whole = Expression("And", pa.bool_(), (whole, each), {}, whole.nullable or each.nullable, text)
    return whole
