from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.list_aggregates import with_lists_joined
from snapline.sql.plans.trees import Attribute, Expression, Plan

NAMES = Attribute(10, "names", pa.string())
ROWS = [
    (n, kit.second(n), user, price)
    for n, user, price in [(1, "b", 5), (2, "a", 9), (3, None, 4), (4, "b", None), (5, "c", 9)]
]
VOID = kit.literal(None, pa.null())


def order(by: Attribute, direction: str = "Ascending", nulls: str = "NullsFirst") -> Expression:
    return kit.call("SortOrder", by.type, reference(by), direction=direction, nullOrdering=nulls)


def listed(delimiter: Expression, *orders: Expression, distinct: bool = False, where: Expression | None = None) -> Plan:
    function = kit.call("ListAgg", pa.string(), reference(kit.USER), delimiter, *orders)
    column = kit.alias(NAMES, kit.aggregated(function, distinct=distinct, where=where))
    return kit.aggregate(kit.relation(), [], [column])


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (listed(VOID, order(kit.ID)), "babc"),
        (listed(kit.literal(", "), order(kit.ID, "Descending")), "c, b, a, b"),
        (listed(kit.literal("-"), order(kit.PRICE), order(kit.ID, "Descending")), "b-b-c-a"),
        (listed(kit.literal("-"), order(kit.PRICE, "Descending", "NullsLast"), order(kit.ID)), "a-c-b-b"),
        (listed(kit.literal(""), order(kit.USER, "Descending", "NullsLast")), "cbba"),
        (listed(kit.literal("+"), order(kit.USER), distinct=True), "a+b+c"),
        (listed(VOID, where=kit.greater(reference(kit.ID), kit.literal(4))), "c"),
        (listed(VOID, where=kit.greater(reference(kit.ID), kit.literal(9))), None),
    ],
)
def test_values_are_joined_in_their_order_and_nulls_left_out(plan: Plan, expected: str | None) -> None:
    assert kit.run(with_lists_joined(plan), ROWS) == Counter([(expected,)])


def test_a_plan_without_such_lists_stays_as_it_is() -> None:
    plan = kit.aggregate(kit.relation(), [], [kit.alias(Attribute(11, "n", pa.int64()), kit.count())])
    assert with_lists_joined(plan) is plan
