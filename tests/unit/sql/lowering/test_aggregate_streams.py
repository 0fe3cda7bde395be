from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from tests import sql_kit as kit

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.trees import Attribute, Expression, Plan

ROWS = [
    (1, kit.second(1), "ann", 10),
    (2, kit.second(2), "bob", 20),
    (3, kit.second(12), "ann", 30),
    (4, kit.second(13), None, None),
    (5, kit.second(3), "ann", 7),
    (6, kit.second(25), "bob", 1),
]
N = Attribute(10, "n", pa.int64(), False)
SCHEMA = pa.schema([pa.field(each.name, each.type) for each in kit.EVENTS])
SUM = Attribute(11, "sum", pa.int64())
WINDOW = Attribute(12, "window", kit.WINDOW, False, {"spark.timeWindow": True, **kit.EVENT_TIME})


def counts(child: Plan, *groups: Attribute) -> Plan:
    columns = [
        kit.alias(N, kit.aggregated(kit.count())),
        kit.alias(SUM, kit.aggregated(kit.total(reference(kit.PRICE)))),
    ]
    references = [reference(group) for group in groups]
    return kit.aggregate(child, references, [*references, *columns])


def windows(seconds: int, *, delay_ms: int = 0) -> Plan:
    below = kit.watermark(kit.relation(), delay_ms=delay_ms)
    window = kit.time_window(reference(kit.AT), seconds)
    return kit.project(below, kit.alias(WINDOW, window), kit.USER, kit.PRICE)


def test_groups_without_an_end_change_with_each_row_and_null_is_a_group() -> None:
    found = kit.run(counts(kit.relation(), kit.USER), ROWS)
    assert found == Counter([("ann", 3, 47), ("bob", 2, 21), (None, 1, None)])


def test_an_aggregate_of_everything_has_one_row_even_without_input() -> None:
    assert kit.run(counts(kit.relation()), []) == Counter([(0, None)])


def test_an_aggregate_of_an_aggregate_takes_back_what_it_had_added() -> None:
    outer = kit.alias(Attribute(20, "groups", pa.int64()), kit.aggregated(kit.count()))
    plan = kit.aggregate(counts(kit.relation(), kit.USER), [reference(N)], [reference(N), outer])
    assert kit.run(plan, ROWS) == Counter([(3, 1), (2, 1), (1, 1)])


def test_conditions_and_distinct_values() -> None:
    some = kit.aggregated(kit.count(), where=kit.greater(reference(kit.PRICE), kit.literal(9)))
    users = kit.aggregated(kit.count(reference(kit.USER)), distinct=True)
    columns = [kit.alias(N, some), kit.alias(SUM, users)]
    assert kit.run(kit.aggregate(kit.relation(), [], columns), ROWS) == Counter([(3, 2)])


def test_windows_are_emitted_once_and_late_rows_are_dropped() -> None:
    found = kit.run(counts(windows(10), WINDOW, kit.USER), ROWS, mode="append")
    first, second, third = ((kit.second(n), kit.second(n + 10)) for n in (0, 10, 20))
    expected = [(first, "ann", 1, 10), (first, "bob", 1, 20), (second, "ann", 1, 30), (second, None, 1, None)]
    assert found - Counter([(first, "ann", 2, 17)]) in (
        Counter([*expected, (third, "bob", 1, 1)]),
        Counter([*expected[1:], (third, "bob", 1, 1)]),  # the late row came before its watermark did
    )


def test_with_enough_delay_no_row_is_late() -> None:
    first = (kit.second(0), kit.second(10))
    assert kit.run(counts(windows(10, delay_ms=20_000), WINDOW, kit.USER), ROWS)[(first, "ann", 2, 17)] == 1


def test_append_mode_refuses_groups_that_never_end() -> None:
    with pytest.raises(ConfigurationError, match=r"these groups never end.*withWatermark"):
        kit.run(counts(kit.relation(), kit.USER), ROWS, mode="append")


def test_an_unknown_aggregate_is_refused() -> None:
    column = kit.alias(SUM, kit.aggregated(kit.call("HistogramNumeric", pa.int64(), reference(kit.PRICE))))
    with pytest.raises(ConfigurationError, match=r"expression HistogramNumeric .*count, sum, avg"):
        kit.run(kit.aggregate(kit.relation(), [], [column]), ROWS)


def test_a_column_without_such_an_aggregate_is_refused_with_the_fragment() -> None:
    column = kit.alias(SUM, kit.aggregated(kit.call("BitAndAgg", pa.string(), reference(kit.USER))))
    with pytest.raises(ConfigurationError, match=r"operator Aggregate .*bit_and.*cast the column first"):
        kit.run(kit.aggregate(kit.relation(), [], [column]), ROWS)


def test_other_aggregates_over_the_same_groups_have_state_of_their_own() -> None:
    def uids(*columns: Expression) -> set[str]:
        job = sl.Job("plan")
        views = {"events": job.source(sl.sources.Iterator([], schema=SCHEMA), uid="events")}
        plan = kit.aggregate(kit.relation(), [reference(kit.USER)], [reference(kit.USER), *columns])
        lowered(plan, Context(job, Uids(), "update", views))
        return {node.uid for node in job.nodes if node.uid is not None and node.uid.startswith("aggregate")}

    count = kit.alias(N, kit.aggregated(kit.count()))
    total = kit.alias(SUM, kit.aggregated(kit.total(reference(kit.PRICE))))
    assert uids(count) == uids(kit.alias(SUM, kit.aggregated(kit.count())))
    assert len(uids(count) | uids(total) | uids(count, total) | uids(total, count)) == 4
