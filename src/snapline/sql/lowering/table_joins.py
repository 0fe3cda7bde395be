"""Joins of a stream with a table that does not change: Spark reads it once, when the query starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from snapline.operators.changes.changing_join import JoinKind
from snapline.sql.expressions.compiler import Program
from snapline.sql.lowering.lowered_stream import (
    Context,
    Lowered,
    checked_program,
    kept,
    projected,
    references,
    stream_schema,
)
from snapline.sql.operators.table_pairs import TablePairs
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.join_conditions import JoinCondition
from snapline.sql.plans.refusals import refusal
from snapline.sql.plans.time_windows import conjunction
from snapline.sql.plans.trees import Expression, Plan

_INNER: Final = ("Inner", "Cross")
_ONE_SIDE: Final = ("LeftSemi", "LeftAnti")
_PAIRED: Final[Mapping[str, JoinKind]] = {
    "Inner": JoinKind.INNER,
    "Cross": JoinKind.INNER,
    "LeftOuter": JoinKind.LEFT,
    "RightOuter": JoinKind.LEFT,  # of the stream, which is then on the right
    "LeftSemi": JoinKind.SEMI,
    "LeftAnti": JoinKind.ANTI,
}


def joined_table(plan: Plan, condition: JoinCondition, context: Context, *, is_left: bool) -> Lowered:
    """The stream of a `Join` with a table; `is_left` says that the stream is on the left."""
    streaming, static = plan.children if is_left else plan.children[::-1]
    kind = plan.arguments["joinType"]
    allowed = (*_INNER, "LeftOuter", *_ONE_SIDE) if is_left else (*_INNER, "RightOuter")
    if kind not in allowed:
        raise refusal(plan, f"{kind} keeps rows of the table that no row of the stream matches", "swap the sides")
    if not condition.keys:
        return _paired(plan, streaming, static, context)
    known = {attribute.id for attribute in static.output}
    of_table = [each for each in condition.rest if each.references <= known]
    rest = [each for each in condition.rest if not each.references <= known]
    if kind not in _INNER and (rest or condition.bounds is not None):
        raise refusal(plan, "an outer join with a table on more than equal columns", "filter the table before the join")
    given = context.lower(streaming)
    ours = [pair[0 if is_left else 1] for pair in condition.keys]
    theirs = [pair[1 if is_left else 0] for pair in condition.keys]
    keys = [context.attribute(f"key {n}", key.type, nullable=key.nullable) for n, key in enumerate(ours)]
    ready = projected(given, [*references(given.attributes), *zip(keys, ours, strict=True)], "keys")
    table = _table(static, theirs, of_table, is_needed=kind not in _ONE_SIDE)
    on = {name: f"static key {n}" for n, name in enumerate(ready.names[len(given.attributes) :])}
    stream = ready.stream.lookup(table, on, how="inner" if kind in (*_INNER, "LeftSemi") else "left")
    made = [context.attribute(field.name, field.type, nullable=field.nullable) for field in stream.schema]
    if given.is_changing:
        raise refusal(plan, "a table is joined to a result that changes later", "join before aggregating")
    looked = Lowered(stream, tuple(made))
    by_name = {attribute.name: attribute for attribute in made}
    if kind == "LeftAnti":
        missing = Expression("IsNull", pa.bool_(), (reference(by_name["static row"]),), {}, False, "no match")
        looked = kept(looked, missing)
    output = {attribute.id: attribute for attribute in plan.output}
    columns = [
        (output.get(attribute.id, attribute), reference(by_name[name]))
        for attribute, name in zip(given.attributes, given.names, strict=True)
    ]
    if kind not in _ONE_SIDE:
        columns += [(output[each.id], reference(by_name[f"static {n}"])) for n, each in enumerate(static.output)]
    order = {attribute.id: n for n, attribute in enumerate(plan.output)}
    columns.sort(key=lambda column: order.get(column[0].id, len(order)))
    joined = projected(looked, columns, "joined")
    checks = [*rest, *(plan.expressions["condition"] if condition.bounds is not None else ())]
    return kept(joined, conjunction(checks)) if checks else joined


def _paired(plan: Plan, streaming: Plan, static: Plan, context: Context) -> Lowered:
    """A join in which no columns must be equal: all rows of the table are looked at for each row."""
    given = context.lower(streaming)
    every = (*given.attributes, *static.output)
    checks = plan.expressions.get("condition", ())
    checked_program(checks, every)
    kind = _PAIRED[plan.arguments["joinType"]]
    nullable = kind is JoinKind.LEFT
    of_table = () if kind in (JoinKind.SEMI, JoinKind.ANTI) else static.output
    made = (*given.attributes, *(replace(each, nullable=each.nullable or nullable) for each in of_table))
    schema = stream_schema(made, is_changing=given.is_changing)
    operator = TablePairs(kind, _rows(static), conjunction(checks) if checks else None, every, schema)
    copies = dict(zip(given.names, given.names, strict=True))
    stream = given.stream._then("pairs", operator, schema, None, None, copies=copies)
    joined = Lowered(stream, made, given.is_changing)
    return projected(joined, references(plan.output), "joined")


def _rows(static: Plan) -> pa.RecordBatch:
    """The rows of a static plan, as Spark reads them."""
    rows = static.arguments["dataframe"]().toArrow().combine_chunks()
    arrays = [_exact(rows.column(n), attribute.type) for n, attribute in enumerate(static.output)]
    return pa.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])


def _table(static: Plan, keys: Sequence[Expression], conditions: Sequence[Expression], *, is_needed: bool) -> pa.Table:
    """The rows of a static plan that meet conditions, with key columns; without `is_needed` only each key, once."""
    batch = _rows(static)
    if conditions:
        (mask,) = Program([conjunction(conditions)], static.output).arrays(batch)
        batch = batch.filter(mask)
    columns = {f"static key {n}": each for n, each in enumerate(Program(keys, static.output).arrays(batch))}
    if is_needed:
        return pa.table({**columns, **{f"static {n}": array for n, array in enumerate(batch.columns)}})
    table = pa.table(columns).group_by(list(columns)).aggregate([])
    return table.append_column("static row", pa.array([True] * table.num_rows, pa.bool_()))


def _exact(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    return array if array.type == kind else array.cast(kind)
