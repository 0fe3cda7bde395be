from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Expression, Plan

SESSION = Attribute(10, "session_window", kit.WINDOW, False, {"spark.sessionWindow": True, **kit.EVENT_TIME})
N = Attribute(11, "n", pa.int64(), False)
ROWS = [(n, kit.second(at), user, 1) for n, at, user in [(1, 1, "a"), (2, 3.0005, "a"), (3, 20, "a"), (4, 1, None)]]


def sessions(gap: Expression) -> Plan:
    window = Expression("SessionWindow", kit.WINDOW, (reference(kit.AT), gap), {}, False, "session")
    delayed = kit.watermark(kit.relation(), delay_ms=60_000)
    below = kit.project(delayed, kit.alias(SESSION, window), kit.USER, kit.AT)
    keys = [reference(SESSION), reference(kit.USER)]
    plan = kit.aggregate(below, keys, [*keys, kit.alias(N, kit.aggregated(kit.count()))])
    return replace(plan, output=(SESSION, kit.USER, N))


@pytest.mark.parametrize(
    "gap",
    [
        kit.call("Cast", pa.month_day_nano_interval(), kit.literal("5 seconds")),
        kit.literal(pa.MonthDayNano([0, 0, 5 * 10**9]), pa.month_day_nano_interval()),
        kit.literal(5 * 10**6, pa.duration("us")),
    ],
)
def test_sessions_end_after_the_gap_in_microseconds(gap: Expression) -> None:
    found = kit.run(sessions(gap), ROWS)
    first, second = (kit.second(1), kit.second(8.0005)), (kit.second(20), kit.second(25))
    assert found == Counter([(first, "a", 2), (second, "a", 1), ((kit.second(1), kit.second(6)), None, 1)])


@pytest.mark.parametrize("gap", [kit.literal("1 month"), kit.call("Odd", pa.int64(), reference(kit.PRICE))])
def test_gaps_that_are_no_length_are_refused(gap: Expression) -> None:
    with pytest.raises(ConfigurationError, match=r"gap|expression Odd"):
        kit.run(sessions(gap), ROWS)


def gap_of_row(price: Expression) -> Expression:
    """As many seconds as the price."""
    texts = kit.call("Cast", pa.string(), price, evalMode="ANSI", timeZoneId="UTC")
    whole = kit.call("Concat", pa.string(), texts, kit.literal(" seconds"))
    return kit.call("Cast", pa.month_day_nano_interval(), whole, evalMode="ANSI", timeZoneId="UTC")


def test_a_gap_of_each_row() -> None:
    rows = [
        (1, kit.second(1), "a", 2),
        (2, kit.second(3), "a", 10),
        (3, kit.second(12), "a", 1),
        (4, kit.second(1), None, 0),
    ]
    found = kit.run(sessions(gap_of_row(reference(kit.PRICE))), rows)
    assert found == Counter([((kit.second(1), kit.second(13)), "a", 3)])


def test_aggregates_that_need_all_rows_of_a_session() -> None:
    plan = sessions(kit.literal(5 * 10**6, pa.duration("us")))
    highest = kit.aggregated(kit.call("MaxBy", pa.int64(), reference(kit.PRICE), reference(kit.ID)))
    below = kit.project(plan.children[0].children[0], *plan.children[0].expressions["projectList"], kit.ID, kit.PRICE)
    columns = (*plan.expressions["aggregateExpressions"][:2], kit.alias(N, highest))
    made = kit.aggregate(below, plan.expressions["groupingExpressions"], columns)
    rows = [(n, at, user, n * 10) for n, at, user, _ in ROWS]
    found = kit.run(replace(made, output=(SESSION, kit.USER, N)), rows)
    first, second = (kit.second(1), kit.second(8.0005)), (kit.second(20), kit.second(25))
    assert found == Counter([(first, "a", 20), (second, "a", 30), ((kit.second(1), kit.second(6)), None, 40)])
