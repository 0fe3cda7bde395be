"""Window functions over partitions: in order of event time, in order of arrival, or as a result that changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from snapline.errors import ConfigurationError
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.changes.over_changes import OverChanges
from snapline.operators.changes.over_frames import is_sortable
from snapline.operators.changes.over_functions import OverFunction, OverKind
from snapline.operators.changes.rank_order import SortColumn
from snapline.sql.lowering.aggregate_streams import WATERMARK
from snapline.sql.lowering.lowered_stream import Context, Lowered, projected, references
from snapline.sql.lowering.over_specs import over_function
from snapline.sql.operators.over_in_order import OverInOrder, runs_in_order
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import column_names, expression_text
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Expression, Plan

_CLOCKS: Final = frozenset({"CurrentTimestamp", "Now", "LocalTimestamp", "CurrentDate"})
_ALIKE: Final = (OverKind.RANK, OverKind.DENSE_RANK)
_INSTEAD = (
    "order by the column with the watermark, ascending, and look only at rows before the current one; or use "
    "outputMode('update')"
)


def lowered_window(plan: Plan, context: Context) -> Lowered:
    """The stream of a `Window` node."""
    given = context.lower(plan.children[0])
    inputs = _Inputs(given, context)
    by = [each for each in plan.expressions["partitionSpec"] if not pa.types.is_null(each.type)]
    partition = [inputs.column(each, f"partition {n}") for n, each in enumerate(by)]
    order, has_clock = _order(plan)
    for each in order:
        if not is_sortable(each.type):
            raise refusal(
                each, f"an order by {each.type}", "order by fields or elements of it, or by a text made of it"
            )
    sorts = [
        SortColumn(
            inputs.column(each.children[0], f"order {n}"),
            descending=each.arguments["direction"] == "Descending",
            nulls_first=each.arguments["nullOrdering"] == "NullsFirst",
        )
        for n, each in enumerate(order)
    ]
    results = plan.output[len(given.attributes) :]
    found = [over_function(each.children[0], inputs.column) for each in plan.expressions["windowExpressions"]]
    if has_clock:
        found = [_by_arrival(plan, function) for function in found]
    ready = projected(given, inputs.columns, "over")
    made_of = (*ready.attributes, *results)
    functions = dict(zip(column_names(made_of)[len(ready.attributes) :], found, strict=True))
    schema = ready.stream.schema
    layout = KeyLayout(schema, partition)
    keyed = ready.stream.apply(AddKeys(layout), schema=layout.schema(schema)).key_by(*layout.key_columns)
    try:
        operator, is_changing = _operator(layout, schema, sorts, functions, _time(order, sorts), given)
    except ConfigurationError as error:
        raise refusal(plan, str(error)) from error
    if is_changing and context.mode == "append" and not given.is_changing:
        raise refusal(plan, "in append mode a row is never changed, and rows that come later change these", _INSTEAD)
    uid = context.uids.uid("over", *(each.text for each in (*plan.expressions["partitionSpec"], *order)))
    stream = keyed.apply(operator, uid, schema=operator.output_schema)
    made = Lowered(stream, made_of, is_changing)
    return projected(made, [(each, _value(each)) for each in (*given.attributes, *results)], "windows")


def _value(attribute: Attribute) -> Expression:
    """A column of the operator; those that hold nothing but null are not among them."""
    if not pa.types.is_null(attribute.type):
        return reference(attribute)
    return Expression("Literal", attribute.type, (), {"value": None}, True, "NULL")


class _Inputs:
    """The columns of an operator: those of its input that have a type, and others, each computed once."""

    def __init__(self, given: Lowered, context: Context) -> None:
        self._context = context
        self.columns = references([each for each in given.attributes if not pa.types.is_null(each.type)])
        self._used = set(given.names)
        self._ids = {attribute.id: name for attribute, name in zip(given.attributes, given.names, strict=True)}
        self._known: dict[str, str] = {}

    def column(self, expression: Expression, name: str) -> str:
        """The name of a column with the value of this expression."""
        if pa.types.is_null(expression.type):
            raise refusal(expression, "a value without a type", "cast NULL to the type that is meant")
        if expression.kind == "AttributeReference":
            return self._ids[expression.arguments["id"]]
        text = expression_text(expression, {number: f"id {number}" for number in expression.references})
        if text not in self._known:
            number = 1
            while f"{name} {number}" in self._used:
                number += 1
            made = self._context.attribute(f"{name} {number}", expression.type, nullable=expression.nullable)
            self._used.add(made.name)
            self._known[text] = made.name
            self.columns.append((made, expression))
        return self._known[text]


def _order(plan: Plan) -> tuple[list[Expression], bool]:
    """The order without constants, and whether it is that of arrival. Rows that are equal in it are by arrival."""
    order: list[Expression] = []
    for each in plan.expressions["orderSpec"]:
        value = _meaning(each.children[0], plan.children[0])
        if value.kind in _CLOCKS:
            return order, not order  # no two rows come at the same time, so nothing after it matters
        if value.references or not all(part.arguments.get("deterministic", True) for part in value.walk()):
            order.append(each)
    return order, False


def _meaning(value: Expression, below: Plan) -> Expression:
    """What a column that the analyser put into a projection below stands for."""
    while value.kind == "AttributeReference" and below.kind == "Project":
        found = next((each for each in below.expressions["projectList"] if _id(each) == _id(value)), None)
        if found is None or found.kind not in ("Alias", "AttributeReference"):
            return value
        if found.kind == "Alias":
            inner = found.children[0]
            if inner.references:
                return value
            return inner
        below = below.children[0]
    return value


def _id(expression: Expression) -> int | None:
    return expression.arguments.get("id")


def _by_arrival(plan: Plan, function: OverFunction) -> OverFunction:
    """A function in order of arrival, where no two rows are equal."""
    if function.kind in _ALIKE:
        return replace(function, kind=OverKind.ROW_NUMBER)
    frame = function.frame
    if frame.by_rows:
        return function
    if frame.lower or frame.upper:
        raise refusal(plan, "a distance in processing time", "count rows: ROWS BETWEEN 10 PRECEDING AND CURRENT ROW")
    return replace(function, frame=replace(frame, by_rows=True))


def _time(order: Sequence[Expression], sorts: Sequence[SortColumn]) -> str | None:
    """The column with the event time that rows are ordered by."""
    if not order or sorts[0].descending:
        return None
    value = order[0].children[0]
    has_watermark = value.kind == "AttributeReference" and WATERMARK in value.arguments.get("metadata", {})
    return sorts[0].name if has_watermark and pa.types.is_timestamp(value.type) else None


def _operator(
    layout: KeyLayout,
    rows: pa.Schema,
    sorts: Sequence[SortColumn],
    functions: Mapping[str, OverFunction],
    time: str | None,
    given: Lowered,
) -> tuple[OverInOrder | OverChanges, bool]:
    """The operator, and whether its results change later."""
    schema = layout.schema(rows)
    in_order = not given.is_changing and all(runs_in_order(each, rows) for each in functions.values())
    if in_order and time is not None:
        return OverInOrder(schema, layout.key_columns, sorts, functions, time=time), False
    if in_order and not sorts and all(_counts_rows(each) for each in functions.values()):
        return OverInOrder(schema, layout.key_columns, (), functions, time=None), False
    return OverChanges(schema, layout.key_columns, sorts, functions), True


def _counts_rows(function: OverFunction) -> bool:
    """Whether a function looks at places of rows only, so that it has a meaning in order of arrival."""
    if function.kind in (OverKind.ROW_NUMBER, OverKind.LAG):
        return True
    return function.kind in (OverKind.AGGREGATE, OverKind.NTH_VALUE) and function.frame.by_rows
