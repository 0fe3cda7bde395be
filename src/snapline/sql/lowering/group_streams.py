"""Python functions over the groups of a query, with and without state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapline.api.keyed_stream import KeyedStream
from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.lowering.aggregate_streams import WATERMARK
from snapline.sql.lowering.lowered_stream import Context, Lowered, projected, stream_schema
from snapline.sql.operators.group_states import DOMAINS, StatefulGroups
from snapline.sql.operators.python_groups import (
    ARROW_AGGREGATES,
    PANDAS_AGGREGATES,
    AggregateFunction,
    CompleteGroups,
    FunctionOfGroup,
    FunctionsOfGroup,
    GroupCall,
)
from snapline.sql.operators.python_udfs import loaded
from snapline.sql.operators.udf_frames import FrameSettings
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import expression_text
from snapline.sql.plans.python_functions import PythonFunction
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Attribute, Expression, Plan
from snapline.state.timers import TimeDomain

_NEVER_ENDS = (
    "group by a window of a column with withWatermark, so that a group is complete at some time; or use "
    "applyInPandasWithState or transformWithState"
)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows that are keyed by their group: the columns of the group come first, then those of the function."""

    given: Lowered
    layout: KeyLayout
    groups: tuple[str, ...]
    data: tuple[str, ...]
    time: str | None


def is_aggregate_function(plan: Plan) -> bool:
    """Whether an `Aggregate` node has aggregate functions written in Python."""
    expressions = plan.expressions.get("aggregateExpressions", ())
    return any(each.kind == "PythonUDAF" for expression in expressions for each in expression.walk())


def lowered_group_function(plan: Plan, context: Context) -> Lowered:
    """The stream of `FlatMapGroupsInPandas` and `FlatMapGroupsInArrow`."""
    (udf,) = plan.expressions["functionExpr"]
    grouping = plan.expressions["groupingAttributes"]
    rows = _grouped(plan, grouping, udf.children, context)
    schema = stream_schema(plan.output, is_changing=False)
    names = [each.arguments["name"] for each in (*grouping, *udf.children)]
    function = _checked(plan, udf)
    call = FunctionOfGroup(
        function,
        udf.arguments["name"],
        udf.arguments["evalType"],
        names,
        len(grouping),
        schema,
        FrameSettings.of_session(),
    )
    return _complete(plan, rows, call, context, udf.arguments["name"], plan.output)


def lowered_aggregate_functions(plan: Plan, context: Context) -> Lowered:
    """The stream of an `Aggregate` node with aggregate functions written in Python, which are its only ones."""
    grouping = plan.expressions.get("groupingExpressions", ())
    found: list[Expression] = []
    ids = {number: f"id {number}" for each in plan.expressions["aggregateExpressions"] for number in each.references}
    places: dict[str, int] = {}
    for expression in plan.expressions["aggregateExpressions"]:
        for each in expression.walk():
            if each.kind == "AggregateExpression" and expression_text(each, ids) not in places:
                places[expression_text(each, ids)] = len(found)
                found.append(each)
    arguments: list[Expression] = []
    functions = [_aggregate(each, len(grouping), arguments) for each in found]
    rows = _grouped(plan, grouping, arguments, context)
    results = [context.attribute(f"result {n + 1}", each.type) for n, each in enumerate(found)]
    groups = rows.given.attributes[: len(grouping)]
    schema = stream_schema((*groups, *results), is_changing=False)
    call = FunctionsOfGroup(functions, len(grouping), schema, FrameSettings.of_session())
    name = "-".join(function.name for function in functions)
    made = _complete(plan, rows, call, context, name, (*groups, *results))
    meanings = {expression_text(each, ids): group for each, group in zip(grouping, groups, strict=True)}

    def replaced(expression: Expression) -> Expression:
        text = expression_text(expression, ids)
        if text in places:
            return reference(results[places[text]])
        if text in meanings:
            return reference(meanings[text])
        if expression.kind == "Alias":
            return replaced(expression.children[0])
        children = tuple(replaced(child) for child in expression.children)
        return Expression(
            expression.kind, expression.type, children, expression.arguments, expression.nullable, expression.text
        )

    after = [
        (attribute, replaced(expression))
        for attribute, expression in zip(plan.output, plan.expressions["aggregateExpressions"], strict=True)
    ]
    return projected(made, after, "results")


def lowered_group_states(plan: Plan, context: Context) -> Lowered:
    """The stream of `applyInPandasWithState`."""
    (udf,) = plan.expressions["functionExpr"]
    grouping = plan.expressions["groupingAttributes"]
    mode, timeout = plan.arguments["outputMode"], plan.arguments["timeout"]
    if mode == "Update" and context.mode == "append":
        raise refusal(plan, "a function in update mode in a query in append mode", "use outputMode('update')")
    rows = _grouped(plan, grouping, udf.children, context)
    has_watermark = rows.given.stream._event_time is not None
    if DOMAINS[timeout] is TimeDomain.EVENT and not has_watermark:
        raise refusal(plan, "timeouts in event time without a watermark", "call withWatermark before groupBy")
    function = _checked(plan, udf)
    marked = [
        name
        for name, each in zip(rows.data, udf.children, strict=True)
        if WATERMARK in each.arguments.get("metadata", {})
    ]
    name = udf.arguments["name"]
    schema = stream_schema(plan.output, is_changing=False)
    operator = StatefulGroups(
        function,
        name,
        rows.layout.schema(rows.given.stream.schema),
        groups=rows.groups,
        data=rows.data,
        names=[each.arguments["name"] for each in udf.children],
        state=plan.arguments["stateType"],
        result=schema,
        timeout=timeout,
        time=marked[0] if marked else None,
        has_watermark=has_watermark,
        settings=FrameSettings.of_session(),
    )
    keyed = _keyed(rows)
    return Lowered(keyed.apply(operator, context.uids.uid("process", name, *rows.groups), schema=schema), plan.output)


def _grouped(plan: Plan, grouping: Sequence[Expression], data: Sequence[Expression], context: Context) -> _Groups:
    """The rows with the columns that the function needs."""
    given = context.lower(plan.children[0])
    if given.is_changing:
        raise refusal(plan, "a function over a result that changes later", "aggregate after the function")
    if given.sessions.keys() & {number for each in (*grouping, *data) for number in each.references}:
        raise refusal(plan, "a function over session windows", "group by window(...), or use transformWithState")
    columns: list[tuple[Attribute, Expression]] = []
    for each in (*grouping, *data):
        name = str(each.arguments.get("name") or each.text)
        columns.append((context.attribute(name, each.type, nullable=each.nullable), each))
    if not columns:
        raise refusal(plan, "a function without rows", "group by a window")
    ready = projected(given, columns, "inputs")
    names = ready.names
    timed = [n for n, each in enumerate(grouping) if WATERMARK in each.arguments.get("metadata", {})]
    groups = tuple(names[: len(grouping)])
    layout = KeyLayout(ready.stream.schema, groups)
    return _Groups(ready, layout, groups, tuple(names[len(grouping) :]), names[timed[0]] if timed else None)


def _keyed(rows: _Groups) -> KeyedStream:
    schema = rows.layout.schema(rows.given.stream.schema)
    return rows.given.stream.apply(AddKeys(rows.layout), schema=schema).key_by(*rows.layout.key_columns)


def _complete(
    plan: Plan, rows: _Groups, call: GroupCall, context: Context, name: str, output: Sequence[Attribute]
) -> Lowered:
    if rows.time is None:
        raise refusal(plan, "these groups never end, so the function could never be called", _NEVER_ENDS)
    schema = rows.layout.schema(rows.given.stream.schema)
    operator = CompleteGroups(schema, rows.layout.key_columns, rows.time, call)
    uid = context.uids.uid("groups", name, *rows.groups)
    stream = _keyed(rows).apply(operator, uid, schema=stream_schema(tuple(output), is_changing=False))
    return Lowered(stream, tuple(output))


def _aggregate(expression: Expression, groups: int, arguments: list[Expression]) -> AggregateFunction:
    """What an aggregate expression computes; its arguments are added to those that there are."""
    function, *filters = expression.children
    kind = function.arguments.get("evalType")
    if function.kind != "PythonUDAF":
        raise refusal(function, "together with aggregate functions written in Python", "compute it in another query")
    if filters or expression.arguments["isDistinct"] or kind not in (*PANDAS_AGGREGATES, *ARROW_AGGREGATES):
        raise refusal(function, "FILTER, DISTINCT, or a kind of function that is unknown here", "filter the rows first")
    places = []
    for child in function.children:
        is_named = child.kind == "NamedArgumentExpression"
        places.append((child.arguments["key"] if is_named else None, groups + len(arguments)))
        arguments.append(child.children[0] if is_named else child)
    packed = _checked(function, function)
    return AggregateFunction(packed, function.arguments["name"], kind, tuple(places), expression.type)


def _checked(what: Plan | Expression, udf: Expression) -> PythonFunction:
    """The function, which can be loaded. Raises `ConfigurationError` if not."""
    function: PythonFunction = udf.arguments["func"]
    try:
        loaded(function)
    except UnsupportedError as error:
        raise refusal(what, str(error)) from error
    return function
