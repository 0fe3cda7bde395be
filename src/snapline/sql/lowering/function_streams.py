"""Python functions over rows, batches and groups, and generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.lowering.lowered_stream import Context, Lowered, projected, stream_schema
from snapline.sql.operators.generated_rows import GenerateRows, row_generator
from snapline.sql.operators.python_udfs import MapFunction, loaded
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.trees import Plan

_INSTEAD = "use explode, posexplode, inline, stack, json_tuple, or a Python table function of the values of a row"

_TIME_MODES: Final = {"NoTime": "none", "ProcessingTime": "processing_time", "EventTime": "event_time"}


def lowered_map(plan: Plan, context: Context) -> Lowered:
    """The stream of `MapInPandas` and `MapInArrow`."""
    given = context.lower(plan.children[0])
    if given.is_changing:
        raise refusal(plan, "a function over a result that changes later", "aggregate after the function")
    (udf,) = plan.expressions["functionExpr"]
    columns = [(child_attribute, reference(child_attribute)) for child_attribute in given.attributes]
    ready = projected(given, columns)
    schema = stream_schema(plan.output, is_changing=False)
    names = [attribute.name for attribute in given.attributes]
    operator = MapFunction(
        udf.arguments["func"],
        names,
        schema,
        pandas=plan.kind == "MapInPandas",
        time_zone=udf.arguments.get("timeZoneId", "UTC"),
    )
    stream = ready.stream._then(udf.arguments["name"], operator, schema, None, None)
    return Lowered(stream, plan.output)


def lowered_generate(plan: Plan, context: Context) -> Lowered:
    """The stream of a `Generate` node: explode and the like, stack, json_tuple, table functions in Python."""
    given = context.lower(plan.children[0])
    (generator,) = plan.expressions["generator"]
    is_outer = plan.arguments["outer"]
    try:
        row_generator(generator, given.attributes, outer=is_outer)
    except UnsupportedError as error:
        raise refusal(generator, str(error), _INSTEAD) from error
    if generator.kind == "PythonUDTF" and given.is_changing:
        raise refusal(plan, "a table function over a result that changes later", "aggregate after the function")
    made = {each.arguments["id"] for each in plan.expressions["generatorOutput"]}
    kept_ids = [attribute.id for attribute in plan.output if attribute.id not in made]
    places = {attribute.id: number for number, attribute in enumerate(given.attributes)}
    kept = [places[number] for number in kept_ids]
    schema = stream_schema(plan.output, is_changing=given.is_changing)
    operator = GenerateRows(generator, given.attributes, kept, schema, is_outer=is_outer)
    copies = {schema.names[place]: given.names[number] for place, number in enumerate(kept)}
    stream = given.stream._then("generate", operator, schema, None, None, copies=copies)
    return Lowered(stream, plan.output, given.is_changing)


def lowered_event_times(plan: Plan, context: Context) -> Lowered:
    """The stream of a processor of which `eventTimeColumnName` says what the event time of its output is."""
    (column,) = plan.expressions["eventTime"]
    below = plan.children[0]
    if below.kind != "TransformWithStateInPySpark":
        raise refusal(plan, f"it stands over {below.kind}", "name the column of event time in transformWithState")
    number = next(place for place, own in enumerate(below.output) if own.id == column.arguments["id"])
    name = stream_schema(below.output, is_changing=False).names[number]
    return replace(lowered_processor(below, context, event_time_column=name), attributes=plan.output)


def lowered_processor(plan: Plan, context: Context, event_time_column: str | None = None) -> Lowered:
    """The stream of `transformWithState` and `transformWithStateInPandas`."""
    count = plan.arguments["groupingAttributesLen"]
    below = plan.children[0]
    given = context.lower(below)
    (udf,) = plan.expressions["functionExpr"]
    keys, data = below.output[:count], below.output[count:]
    ids = [attribute.id for attribute in data]
    if any(key.id not in ids for key in keys) or given.is_changing:
        raise refusal(
            plan,
            "a computed key, or a result that changes later",
            "group by columns of the rows, or use stream.key_by(...).transform_with_state(...)",
        )
    # A key is there twice; the second time it is a column of the rows.
    places = range(count, len(below.output))
    names = given.names
    attributes = tuple(below.output[place] for place in places)
    stream = given.stream.select(*(names[place] for place in places))
    own = stream_schema(attributes, is_changing=False).names
    stream = stream.rename(
        {names[place]: name for place, name in zip(places, own, strict=True) if names[place] != name}
    )
    try:
        function = loaded(udf.arguments["func"])
    except UnsupportedError as error:
        raise refusal(plan, str(error)) from error
    processor = function.__self__._stateful_processor
    form = "pandas" if plan.arguments["userFacingDataType"] == "pandas" else "rows"
    key_names = [own[ids.index(key.id)] for key in keys]
    initial = _initial_state(plan, key_names) if plan.arguments["hasInitialState"] else None
    time_mode = _TIME_MODES[plan.arguments["timeMode"]]
    context.has_timers = context.has_timers or time_mode == "processing_time"
    made = stream.key_by(*key_names).transform_with_state(
        processor,
        stream_schema(plan.output, is_changing=False),
        time_mode=time_mode,
        output_mode=plan.arguments["outputMode"].lower(),
        format=form,
        initial_state=initial,
        event_time_column=event_time_column,
        micro_batches=bool(context.steps),
        uid=context.uids.uid("process", *key_names),
    )
    return Lowered(made, plan.output)


def _initial_state(plan: Plan, key_names: Sequence[str]) -> pa.Table:
    """The rows of the initial state, which Spark reads; grouping columns come first, and once more among the others."""
    static = plan.children[1]
    count = plan.arguments["initGroupingAttrsLen"]
    rows: pa.Table = static.arguments["dataframe"]().toArrow()
    names = [attribute.name for attribute in static.output]
    if names[:count] != list(key_names):
        raise refusal(
            plan,
            f"its initial state is grouped by {', '.join(names[:count])}, and its rows by {', '.join(key_names)}",
            "give the columns of both groups the same names",
        )
    return pa.table(rows.columns[count:], names=names[count:])
