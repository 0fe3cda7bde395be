from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.peak_rows import with_peaks_ranked
from snapline.sql.plans.trees import Attribute, Expression, Plan

MOST = Attribute(10, "most", pa.int64())
ROWS = [
    (n, kit.second(n), user, price)
    for n, user, price in [(1, "a", 5), (2, "a", 9), (3, None, 4), (4, None, 1), (5, "a", 9), (6, "b", None)]
]


def windows(function: str = "Max", kind: pa.DataType = kit.PRICE.type) -> Plan:
    below = kit.project(kit.relation(), kit.ID, kit.USER, kit.PRICE)
    extreme = kit.aggregated(kit.call(function, kind, reference(kit.PRICE)))
    value = kit.call("WindowExpression", kind, extreme, kit.call("Spec", pa.null()))
    expressions = {
        "windowExpressions": (kit.alias(MOST, value),),
        "partitionSpec": (reference(kit.USER),),
        "orderSpec": (),
    }
    return Plan("Window", (*below.output, MOST), (below,), expressions, {}, True, "Window")


def equal(left: Attribute, right: Attribute) -> Expression:
    return kit.call("EqualTo", pa.bool_(), reference(left), reference(right))


@pytest.mark.parametrize(
    ("function", "expected"),
    [("Max", [(2, "a", 9, 9), (5, "a", 9, 9), (3, None, 4, 4)]), ("Min", [(1, "a", 5, 5), (4, None, 1, 1)])],
)
def test_rows_with_the_extreme_of_their_partition_are_those_of_the_first_rank(
    function: str, expected: list[tuple[object, ...]]
) -> None:
    given = kit.where(windows(function), equal(MOST, kit.PRICE))
    plan = with_peaks_ranked(given)
    assert plan.output == given.output
    assert kit.run(plan, ROWS) == Counter(expected)


def test_other_conditions_stay() -> None:
    both = kit.call("And", pa.bool_(), equal(kit.PRICE, MOST), kit.greater(reference(kit.ID), kit.literal(2)))
    assert kit.run(with_peaks_ranked(kit.where(windows(), both)), ROWS) == Counter([(5, "a", 9, 9), (3, None, 4, 4)])


@pytest.mark.parametrize(
    "plan",
    [
        kit.where(windows(), equal(kit.ID, MOST)),
        kit.where(windows(), kit.greater(reference(MOST), reference(kit.PRICE))),
        kit.where(windows("Sum"), equal(kit.PRICE, MOST)),
        kit.where(windows("Max", pa.float64()), equal(kit.PRICE, MOST)),
        windows(),
    ],
)
def test_anything_else_is_left_alone(plan: Plan) -> None:
    assert with_peaks_ranked(plan) == plan
