"""Distinct rows of results that change later."""

from __future__ import annotations

from collections.abc import Sequence

from snapline.operators.changes.key_layout import AddKeys, KeyLayout
from snapline.operators.changes.ranked_changes import RankedChanges
from snapline.operators.changes.retracting_aggregate import RetractingAggregate
from snapline.sql.lowering.lowered_stream import Context, Lowered
from snapline.sql.plans.trees import Plan


def changing_distinct(plan: Plan, given: Lowered, keys: Sequence[int], context: Context) -> Lowered:
    """One row for each value of the columns `keys`, for as long as there is a row with it.

    Where other columns differ it is the first of the rows that are there.
    """
    names = dict(zip((attribute.id for attribute in given.attributes), given.names, strict=True))
    columns = [names[key] for key in keys]
    schema = given.stream.schema
    layout = KeyLayout(schema, columns)
    keyed = given.stream.apply(AddKeys(layout), schema=layout.schema(schema)).key_by(*layout.key_columns)
    uid = context.uids.uid("distinct", *columns)
    operator: RetractingAggregate | RankedChanges
    if columns == given.names:
        operator = RetractingAggregate(layout.schema(schema), columns, {}, before=True)
    else:
        operator = RankedChanges(layout.schema(schema), layout.key_columns, (), 1)
    return Lowered(keyed.apply(operator, uid, schema=operator.output_schema), plan.output, True)
