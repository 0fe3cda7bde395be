from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Plan

ROWS = [(n, kit.second(n), user, price) for n, user, price in [(1, "a", 5), (2, "a", 9), (3, "a", 9), (4, "b", 1)]]
RANK = Attribute(10, "rank", pa.int32(), False)
ORDER = kit.call("SortOrder", pa.int64(), reference(kit.PRICE), direction="Descending", nullOrdering="NullsLast")


def ranked(function: str) -> Plan:
    value = kit.call("WindowExpression", pa.int32(), kit.call(function, pa.int32()), kit.call("Spec", pa.null()))
    below = kit.project(kit.relation(), kit.ID, kit.USER, kit.PRICE)
    expressions = {
        "windowExpressions": (kit.alias(RANK, value),),
        "partitionSpec": (reference(kit.USER),),
        "orderSpec": (ORDER,),
    }
    return Plan("Window", (*below.output, RANK), (below,), expressions, {}, True, "Window")


def at_most(limit: int, kind: str = "LessThanOrEqual") -> Any:
    return kit.call(kind, pa.bool_(), reference(RANK), kit.literal(limit))


@pytest.mark.parametrize(
    ("function", "condition", "expected"),
    [
        ("Rank", at_most(2), [(2, "a", 9, 1), (3, "a", 9, 1), (4, "b", 1, 1)]),
        ("Rank", at_most(4, "LessThan"), [(1, "a", 5, 3), (2, "a", 9, 1), (3, "a", 9, 1), (4, "b", 1, 1)]),
        ("DenseRank", at_most(2, "EqualTo"), [(1, "a", 5, 2)]),
    ],
)
def test_the_best_rows_of_each_key(function: str, condition: Any, expected: list[Any]) -> None:
    assert kit.run(kit.where(ranked(function), condition), ROWS) == Counter(expected)


def test_row_number_gives_each_rank_once() -> None:
    found = kit.run(kit.where(ranked("RowNumber"), at_most(1)), ROWS)
    assert sorted((row[1], row[2], row[3]) for row in found) == [("a", 9, 1), ("b", 1, 1)]


def limited(below: Plan, count: int) -> Plan:
    expressions = {"limitExpr": (kit.literal(count),)}
    local = Plan("LocalLimit", below.output, (below,), expressions, {}, True, "limit")
    return Plan("GlobalLimit", below.output, (local,), expressions, {}, True, "limit")


def by_price(below: Plan) -> Plan:
    order = kit.call("SortOrder", pa.int64(), reference(kit.PRICE), direction="Ascending", nullOrdering="NullsFirst")
    return Plan("Sort", below.output, (below,), {"order": (order,)}, {}, True, "Sort")


def test_an_order_with_a_limit() -> None:
    below = kit.project(kit.relation(), kit.ID, kit.PRICE)
    assert kit.run(limited(by_price(below), 2), ROWS) == Counter([(4, 1), (1, 5)])
    assert not kit.run(limited(by_price(below), 0), ROWS)


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_a_limit_lets_so_many_rows_pass(count: int) -> None:
    below = kit.project(kit.relation(), kit.ID)
    found = kit.run(limited(below, count), ROWS, mode="append")
    assert sum(found.values()) == min(count, len(ROWS))
    assert found <= kit.run(below, ROWS)


def test_limits_of_one_query_count_for_themselves() -> None:
    parts = [limited(kit.project(kit.relation(), kit.ID), count) for count in (1, 2)]
    union = Plan("Union", parts[0].output, tuple(parts), {}, {}, True, "Union")
    assert sum(kit.run(union, ROWS, mode="append").values()) == 3
    assert sum(kit.run(limited(union, 2), ROWS, mode="append").values()) == 2


def test_a_limit_of_rows_that_change_is_refused() -> None:
    n = kit.alias(Attribute(10, "n", pa.int64(), False), kit.aggregated(kit.count()))
    counts = kit.aggregate(kit.relation(), [reference(kit.USER)], [n])
    with pytest.raises(ConfigurationError, match=r"GlobalLimit .*changes later"):
        kit.run(limited(counts, 1), ROWS, mode="update")
