from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

import snapline as sl
from snapline.sql.lowering import aggregate_streams
from snapline.sql.lowering.aggregate_streams import aggregate_parts
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.lowering.sliced_streams import lowered_slices
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.trees import Attribute, Expression, Plan

WINDOW = Attribute(10, "window", kit.WINDOW, False, kit.EVENT_TIME)
RESULTS = tuple(Attribute(20 + n, f"result {n}", pa.int64()) for n in range(4))
ROWS = [
    (n, kit.second(at), user, price)
    for n, at, user, price in [(1, 1, "a", 5), (2, 3, "a", 9), (3, 3, None, 4), (4, 11, "b", None), (5, 12, "a", 1)]
]


def sliding(length: int, every: int, *functions: Expression, group: Attribute = kit.USER) -> Plan:
    below = kit.project(
        kit.watermark(kit.relation()),
        kit.alias(WINDOW, kit.time_window(reference(kit.AT), length, every)),
        *kit.EVENTS,
    )
    keys = [reference(WINDOW), reference(group)]
    made = [kit.alias(result, kit.aggregated(each)) for result, each in zip(RESULTS, functions, strict=False)]
    plan = kit.aggregate(below, keys, [*keys, *made])
    return replace(plan, output=(WINDOW, group, *RESULTS[: len(functions)]))


def extreme(kind: str) -> Expression:
    return kit.call(kind, pa.int64(), reference(kit.PRICE))


def is_sliced(plan: Plan) -> bool:
    job = sl.Job("plan")
    schema = pa.schema([pa.field(each.name, each.type) for each in kit.EVENTS])
    view = job.source(sl.sources.Iterator([], schema=schema), uid="events")
    context = Context(job, Uids(), None, {"events": view})
    context.lower = lambda below: lowered(below, context)
    return lowered_slices(plan, aggregate_parts(plan, context), context) is not None


PLAN = sliding(6, 2, kit.count(), kit.count(reference(kit.PRICE)), extreme("Min"), extreme("Max"))


@pytest.mark.parametrize("mode", [None, "update", "complete"])
def test_slices_give_what_rows_give(mode: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_sliced(PLAN)
    by_slices = kit.run(PLAN, ROWS, mode=mode)
    monkeypatch.setattr(aggregate_streams, "lowered_slices", lambda *_: None)
    by_rows: Counter[tuple[Any, ...]] = kit.run(PLAN, ROWS, mode=mode)
    assert by_slices == by_rows
    assert sum(by_rows.values()) == 13


def test_what_needs_the_rows_themselves_gets_them() -> None:
    assert not is_sliced(sliding(6, 6, kit.count()))
    assert not is_sliced(sliding(5, 2, kit.count()))
    assert not is_sliced(sliding(6, 2, kit.total(reference(kit.PRICE))))
    distinct = sliding(6, 2, kit.count())
    again = kit.alias(RESULTS[0], kit.aggregated(kit.count(reference(kit.PRICE)), distinct=True))
    columns = (*distinct.expressions["aggregateExpressions"][:2], again)
    assert not is_sliced(replace(distinct, expressions={**distinct.expressions, "aggregateExpressions": columns}))
