from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.lowering.output_modes import output_stream
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.trees import Attribute, Plan
from snapline.testing import ThreadCluster

ROWS = [(1, kit.second(1), "ann", 10), (2, kit.second(2), "bob", 20), (3, kit.second(3), "ann", 30)]
N = Attribute(10, "n", pa.int64(), False)
COUNTS = kit.aggregate(
    kit.relation(), [reference(kit.USER)], [reference(kit.USER), kit.alias(N, kit.aggregated(kit.count()))]
)


def out(plan: Plan, mode: str) -> list[tuple[Any, ...]]:
    job = sl.Job("mode")
    schema = pa.schema([pa.field(each.name, each.type) for each in kit.EVENTS])
    views = {"events": job.source(sl.sources.Iterator(ROWS, schema=schema), uid="events")}
    stream = output_stream(plan, Context(job, Uids(), mode, views))
    return [tuple(row.values()) for row in stream.collect(ThreadCluster()).to_pylist()]


def test_complete_mode_gives_the_whole_result_in_its_order() -> None:
    order = kit.call("SortOrder", pa.int64(), reference(N), direction="Descending", nullOrdering="NullsLast")
    sort = Plan("Sort", COUNTS.output, (COUNTS,), {"order": (order,)}, {}, True, "Sort")
    assert out(sort, "complete")[-2:] == [("ann", 2), ("bob", 1)]
    limit = Plan("GlobalLimit", sort.output, (sort,), {"limitExpr": (kit.literal(1),)}, {}, True, "limit")
    assert out(limit, "complete")[-1] == ("ann", 2)


def test_update_mode_ends_with_the_last_value_of_each_group() -> None:
    assert dict(out(COUNTS, "update")) == {"ann": 2, "bob": 1}


def test_append_mode_gives_rows_once() -> None:
    assert sorted(out(kit.project(kit.relation(), kit.ID), "append")) == [(1,), (2,), (3,)]


def test_complete_mode_needs_an_aggregate() -> None:
    with pytest.raises(ConfigurationError, match="needs an aggregate"):
        out(kit.relation(), "complete")


def test_append_mode_refuses_rows_that_change() -> None:
    other = tuple(Attribute(each.id + 100, each.name, each.type) for each in kit.EVENTS)
    equal = kit.call("EqualTo", pa.bool_(), reference(kit.USER), reference(other[2]))
    plan = kit.join(kit.relation(), kit.relation("events", other), equal, "LeftOuter")
    with pytest.raises(ConfigurationError, match="append mode"):
        out(plan, "append")


RANDOM = Attribute(20, "random", pa.float64(), False)
RANDOM_VALUE = kit.alias(RANDOM, kit.call("Rand", pa.float64(), deterministic=False))


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_random_numbers_of_the_last_select_are_those_of_rows_that_go_out(mode: str) -> None:
    count = kit.alias(N, kit.aggregated(kit.count()))
    within = kit.aggregate(kit.relation(), [reference(kit.USER)], [reference(kit.USER), RANDOM_VALUE, count])
    for plan in (kit.project(COUNTS, kit.USER, RANDOM_VALUE, N), within):
        found = out(plan, mode)
        assert {row[0]: row[2] for row in found} == {"ann": 2, "bob": 1}
        assert all(0 <= row[1] < 1 for row in found)
        assert mode == "update" or len(found) == 2


def test_random_numbers_below_changes_are_refused() -> None:
    plan = kit.project(COUNTS, kit.USER, RANDOM_VALUE, N)
    again = kit.aggregate(plan, [reference(RANDOM)], [kit.alias(N, kit.aggregated(kit.count()))])
    with pytest.raises(ConfigurationError, match="another value each time"):
        out(again, "update")
