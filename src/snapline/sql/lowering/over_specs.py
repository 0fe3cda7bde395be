"""Window functions of a query as the specifications that operators take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from snapline.operators.changes.over_frames import Frame
from snapline.operators.changes.over_functions import WHOLE_PARTITION, OverFunction, OverKind
from snapline.sql.lowering.aggregate_functions import aggregate_inputs, aggregate_spec
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Expression

Column = Callable[[Expression, str], str]
"""Gives the name of a column of the input with the value of an expression, under a name like this one."""

_RANKS: Final[Mapping[str, OverKind]] = {
    "RowNumber": OverKind.ROW_NUMBER,
    "Rank": OverKind.RANK,
    "DenseRank": OverKind.DENSE_RANK,
    "PercentRank": OverKind.PERCENT_RANK,
    "CumeDist": OverKind.CUME_DIST,
}
_INSTEAD = (
    "use row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, nth_value or an aggregate of SQL"
)
_DISTANCE = "give the distance as a number, or as an interval of days, hours, minutes or seconds"


def over_function(window: Expression, column: Column) -> OverFunction:
    """The specification of a `WindowExpression`."""
    function, spec = window.children
    kind, result = function.kind, window.type
    if kind in _RANKS:
        return OverFunction(_RANKS[kind], result)
    if kind == "NTile":
        return OverFunction(OverKind.NTILE, result, number=int(constant(function.children[0])))
    if kind in ("Lag", "Lead"):
        value, offset, default = function.children
        number = int(constant(offset))
        return OverFunction(
            OverKind.LAG,
            result,
            column=column(value, "value"),
            default=None if _is_null(default) else column(default, "default"),
            number=number if kind == "Lag" else -number,
            ignore_nulls=bool(function.arguments.get("ignoreNulls")),
        )
    frame = frame_of(spec)
    if kind == "NthValue":
        value, offset = function.children
        ignore_nulls = bool(function.arguments.get("ignoreNulls"))
        return OverFunction(
            OverKind.NTH_VALUE,
            result,
            frame,
            column(value, "value"),
            number=int(constant(offset)),
            ignore_nulls=ignore_nulls,
        )
    if kind != "AggregateExpression":
        raise refusal(function, "there is no such window function here", _INSTEAD)
    value_of, where = aggregate_inputs(function)
    value_name = None if value_of is None else column(value_of, "value")
    where_name = None if where is None else column(where, "condition")
    return OverFunction(OverKind.AGGREGATE, result, frame, aggregate=aggregate_spec(function, value_name, where_name))


def _is_null(expression: Expression) -> bool:
    return expression.kind == "Literal" and expression.arguments["value"] is None


def frame_of(spec: Expression) -> Frame:
    """The frame of a `WindowSpecDefinition`."""
    frame = spec.children[-1]
    if frame.kind != "SpecifiedWindowFrame":
        return WHOLE_PARTITION
    lower, upper = frame.children
    by_rows = frame.arguments["frameType"] == "RowFrame"
    order = [each for each in spec.children if each.kind == "SortOrder"]
    kind = None if by_rows or not order else order[0].children[0].type
    return Frame(by_rows, _bound(lower, kind), _bound(upper, kind))


def _bound(bound: Expression, kind: pa.DataType | None) -> int | float | None:
    if bound.kind in ("UnboundedPreceding", "UnboundedFollowing"):
        return None
    if bound.kind == "CurrentRow":
        return 0
    value = constant(bound)
    return int(value) if kind is None else _ticks(bound, value, kind)


def constant(expression: Expression) -> Any:
    """The value of an expression of numbers or intervals without columns."""
    if expression.kind == "Cast":
        return constant(expression.children[0])
    if expression.kind == "UnaryMinus":
        value = constant(expression.children[0])
        if isinstance(value, pa.MonthDayNano):
            return pa.MonthDayNano([-value.months, -value.days, -value.nanoseconds])
        return -value
    value = expression.arguments.get("value")
    if expression.kind != "Literal" or value is None:
        raise refusal(expression, "it is not a constant", "write a number or an interval")
    return value


def _ticks(bound: Expression, value: Any, kind: pa.DataType) -> int | float:
    """A distance in the order of a type, as `Frame` counts it."""
    is_interval = "INTERVAL" in bound.text.upper() or any("INTERVAL" in each.text.upper() for each in bound.walk())
    inner = next((each for each in bound.walk() if each.kind == "Literal"), bound)
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_integer(kind) and not is_interval:
        return int(value)
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        return int(Decimal(value).scaleb(kind.scale))
    microseconds = None
    if pa.types.is_duration(inner.type):
        microseconds = int(value)
    elif isinstance(value, pa.MonthDayNano) and not value.months and not value.days:
        microseconds = value.nanoseconds // 1000
    if pa.types.is_timestamp(kind) and microseconds is not None:
        return microseconds
    if pa.types.is_date(kind):
        if microseconds is not None and microseconds % 86_400_000_000 == 0:
            return microseconds // 86_400_000_000
        if isinstance(value, int) and microseconds is None and not is_interval:
            return value
    raise refusal(bound, f"a distance in an order of type {kind}", _DISTANCE)
