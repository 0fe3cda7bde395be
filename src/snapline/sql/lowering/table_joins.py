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
    projected,
    references,
    stream_schema,
)
from snapline.sql.operators.table_pairs import TableKeys, TablePairs
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
    name = plan.arguments["joinType"]
    allowed = (*_INNER, "LeftOuter", *_ONE_SIDE) if is_left else (*_INNER, "RightOuter")
    if name not in allowed:
        raise refusal(plan, f"{name} keeps rows of the table that no row of the stream matches", "swap the sides")
    given = context.lower(streaming)
    every = (*given.attributes, *static.output)
    known = {attribute.id for attribute in static.output}
    of_table = [each for each in condition.rest if each.references and each.references <= known]
    rest = [each for each in condition.rest if each not in of_table]
    if condition.bounds is not None:
        rest = list(plan.expressions["condition"])
    ours, theirs = zip(*condition.keys, strict=True) if condition.keys else ((), ())
    keys = TableKeys(*((ours, theirs) if is_left else (theirs, ours)), condition.null_safe) if ours else None
    checked_program(ours if is_left else theirs, given.attributes)
    checked_program(rest, every)
    kind = _PAIRED[name]
    nullable = kind is JoinKind.LEFT
    kept_columns = () if name in _ONE_SIDE else static.output
    made = (*given.attributes, *(replace(each, nullable=each.nullable or nullable) for each in kept_columns))
    schema = stream_schema(made, is_changing=given.is_changing)
    table = _rows(static, of_table)
    operator = TablePairs(kind, table, conjunction(rest) if rest else None, every, schema, keys)
    copies = dict(zip(given.names, given.names, strict=True))
    stream = given.stream._then("table", operator, schema, None, None, copies=copies)
    joined = Lowered(stream, made, given.is_changing)
    return projected(joined, references(plan.output), "joined")


def _rows(static: Plan, conditions: Sequence[Expression]) -> pa.RecordBatch:
    """The rows of a static plan, as Spark reads them, that meet conditions."""
    rows = static.arguments["dataframe"]().toArrow().combine_chunks()
    arrays = [_exact(rows.column(n), attribute.type) for n, attribute in enumerate(static.output)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])
    if not conditions:
        return batch
    checked_program(conditions, static.output)
    (mask,) = Program([conjunction(conditions)], static.output).arrays(batch)
    return batch.filter(mask)


def _exact(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    return array if array.type == kind else array.cast(kind)
