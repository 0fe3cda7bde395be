from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.time_windows import conjunction, conjuncts
from snapline.sql.plans.trees import Attribute, Expression

OTHER = tuple(Attribute(each.id + 100, each.name, each.type, True, each.metadata) for each in kit.EVENTS)
LEFT = [(1, kit.second(1), "ann", 10), (2, kit.second(2), "bob", 20), (3, kit.second(3), None, 30)]
RIGHT = [(11, kit.second(2), "ann", 5), (12, kit.second(60), "ann", 50), (13, kit.second(2), None, 1)]
EQUAL = kit.call("EqualTo", pa.bool_(), reference(kit.USER), reference(OTHER[2]))


def within(seconds: int) -> Expression:
    """The right row is at most so much later."""
    limit = kit.literal(seconds * 10**6, pa.duration("us"))
    latest = kit.call("TimestampAddInterval", kit.TIME, reference(kit.AT), limit)
    lower = kit.call("GreaterThanOrEqual", pa.bool_(), reference(OTHER[1]), reference(kit.AT))
    upper = kit.call("LessThanOrEqual", pa.bool_(), reference(OTHER[1]), latest)
    return conjunction([EQUAL, lower, upper])


def joined(condition: Expression | None, kind: str) -> Counter[tuple[Any, ...]]:
    left, right = kit.watermark(kit.relation()), kit.watermark(kit.relation("others", OTHER), OTHER[1])
    plan = kit.join(left, right, condition, kind)
    columns = [kit.ID] if kind in ("LeftSemi", "LeftAnti") else [kit.ID, OTHER[0]]
    return kit.run(kit.project(plan, *columns), LEFT, others={"others": (OTHER, RIGHT)})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Inner", [(1, 11), (1, 12)]),
        ("LeftOuter", [(1, 11), (1, 12), (2, None), (3, None)]),
        ("RightOuter", [(1, 11), (1, 12), (None, 13)]),
        ("FullOuter", [(1, 11), (1, 12), (2, None), (3, None), (None, 13)]),
        ("LeftSemi", [(1,)]),
        ("LeftAnti", [(2,), (3,)]),
    ],
)
def test_joins_by_key_and_null_matches_nothing(kind: str, expected: list[Any]) -> None:
    assert joined(EQUAL, kind) == Counter(expected)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Inner", [(1, 11)]),
        ("LeftOuter", [(1, 11), (2, None), (3, None)]),
        ("FullOuter", [(1, 11), (2, None), (3, None), (None, 12), (None, 13)]),
        ("LeftAnti", [(2,), (3,)]),
    ],
)
def test_joins_by_key_and_time(kind: str, expected: list[Any]) -> None:
    assert joined(within(10), kind) == Counter(expected)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Inner", [(1, 11)]), ("FullOuter", [(1, 11), (2, None), (3, None), (None, 12), (None, 13), (None, 14)])],
)
def test_a_row_without_a_time_has_no_match(kind: str, expected: list[Any]) -> None:
    left, right = kit.watermark(kit.relation()), kit.watermark(kit.relation("others", OTHER), OTHER[1])
    plan = kit.project(kit.join(left, right, within(10), kind), kit.ID, OTHER[0])
    rows = [LEFT[0], (2, None, "ann", 20), LEFT[2]]
    assert kit.run(plan, rows, others={"others": (OTHER, [*RIGHT, (14, None, "ann", 0)])}) == Counter(expected)


def test_other_conditions_hold_for_pairs() -> None:
    cheaper = kit.greater(reference(kit.PRICE), reference(OTHER[3]))
    whole = conjunction([EQUAL, cheaper])
    assert joined(whole, "LeftOuter") == Counter([(1, 11), (2, None), (3, None)])
    assert joined(conjunction([within(100), cheaper]), "Inner") == Counter([(1, 11)])


@pytest.mark.parametrize(
    ("limit", "kind", "expected"),
    [
        (10, "LeftOuter", [(1, None), (2, None), (3, None)]),
        (9, "LeftOuter", [(1, 11), (2, None), (3, None)]),
        (10, "RightOuter", [(None, 11), (None, 12), (None, 13)]),
        (9, "FullOuter", [(1, 11), (2, None), (3, None), (None, 12), (None, 13)]),
        (None, "FullOuter", [(1, None), (2, None), (3, None), (None, 11), (None, 12), (None, 13)]),
    ],
)
def test_a_row_that_a_condition_on_its_side_keeps_out_has_no_match(
    limit: int | None, kind: str, expected: list[Any]
) -> None:
    dear = kit.greater(reference(kit.PRICE), kit.literal(limit, pa.int64()))
    left, right = kit.watermark(kit.relation()), kit.watermark(kit.relation("others", OTHER), OTHER[1])
    plan = kit.project(kit.join(left, right, conjunction([within(10), dear]), kind), kit.ID, OTHER[0])
    assert kit.run(plan, LEFT, mode="append", others={"others": (OTHER, RIGHT)}) == Counter(expected)
    assert joined(conjunction([within(10), dear]), kind) == Counter(expected)


def test_null_equals_null_where_the_query_says_so() -> None:
    safe = kit.call("EqualNullSafe", pa.bool_(), reference(kit.USER), reference(OTHER[2]))
    assert joined(safe, "Inner") == Counter([(1, 11), (1, 12), (3, 13)])


DEARER = kit.greater(reference(OTHER[3]), reference(kit.PRICE))


@pytest.mark.parametrize(
    ("condition", "kind", "expected"),
    [
        (None, "Cross", [(mine, its) for mine in (1, 2, 3) for its in (11, 12, 13)]),
        (DEARER, "Inner", [(1, 12), (2, 12), (3, 12)]),
        (DEARER, "FullOuter", [(1, 12), (2, 12), (3, 12), (None, 11), (None, 13)]),
        (DEARER, "LeftAnti", []),
        (conjunction(conjuncts(within(10))[1:]), "Inner", [(1, 11), (1, 13), (2, 11), (2, 13)]),
        (conjunction(conjuncts(within(10))[1:]), "LeftOuter", [(1, 11), (1, 13), (2, 11), (2, 13), (3, None)]),
    ],
)
def test_joins_without_equal_columns(condition: Expression | None, kind: str, expected: list[Any]) -> None:
    assert joined(condition, kind) == Counter(expected)


def test_a_bound_on_one_side_only_is_a_condition() -> None:
    later = kit.call("GreaterThan", pa.bool_(), reference(OTHER[1]), reference(kit.AT))
    assert joined(conjunction([EQUAL, later]), "Inner") == Counter([(1, 11), (1, 12)])
