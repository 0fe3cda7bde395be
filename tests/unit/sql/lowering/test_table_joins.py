from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.time_windows import conjunction
from snapline.sql.plans.trees import Attribute, Expression, Plan

NAME, LIMIT = Attribute(101, "name", pa.string()), Attribute(102, "limit", pa.int64())
TABLE = pa.table({"name": ["ann", "ann", None], "limit": [5, 50, 7]})
ROWS = [(1, kit.second(1), "ann", 10), (2, kit.second(2), "bob", 20), (3, kit.second(3), None, 30)]

EQUAL = kit.call("EqualTo", pa.bool_(), reference(kit.USER), reference(NAME))
NULL_SAFE = kit.call("EqualNullSafe", pa.bool_(), reference(kit.USER), reference(NAME))
ABOVE = kit.greater(reference(kit.PRICE), reference(LIMIT))
OF_TABLE = kit.greater(reference(LIMIT), kit.literal(6))


@dataclass(frozen=True)
class Frame:
    """What lowering needs of a DataFrame."""

    rows: pa.Table

    def toArrow(self) -> pa.Table:  # PySpark's name
        return self.rows


def static(rows: pa.Table = TABLE) -> Plan:
    return Plan("Static", (NAME, LIMIT), (), {}, {"dataframe": lambda: Frame(rows)}, False, "a table")


def joined(kind: str, *conditions: Expression, left: Plan | None = None) -> Counter[tuple[Any, ...]]:
    plan = kit.join(left or kit.relation(), static(), conjunction(conditions), kind)
    key = plan.output[0]
    return kit.run(kit.project(plan, *([key] if kind in ("LeftSemi", "LeftAnti") else [key, LIMIT])), ROWS)


@pytest.mark.parametrize(
    ("kind", "equal", "null_safe"),
    [
        ("Inner", [(1, 5), (1, 50)], [(1, 5), (1, 50), (3, 7)]),
        ("LeftOuter", [(1, 5), (1, 50), (2, None), (3, None)], [(1, 5), (1, 50), (2, None), (3, 7)]),
        ("LeftSemi", [(1,)], [(1,), (3,)]),
        ("LeftAnti", [(2,), (3,)], [(2,)]),
    ],
)
def test_null_matches_null_only_where_the_query_says_so(kind: str, equal: list[Any], null_safe: list[Any]) -> None:
    assert joined(kind, EQUAL) == Counter(equal)
    assert joined(kind, NULL_SAFE) == Counter(null_safe)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Inner", [(1, 5)]),
        ("LeftOuter", [(1, 5), (2, None), (3, None)]),
        ("LeftSemi", [(1,)]),
        ("LeftAnti", [(2,), (3,)]),
    ],
)
def test_every_kind_takes_further_conditions(kind: str, expected: list[Any]) -> None:
    assert joined(kind, EQUAL, ABOVE) == Counter(expected)


def test_a_condition_on_the_table_alone() -> None:
    assert joined("LeftOuter", NULL_SAFE, OF_TABLE) == Counter([(1, 50), (2, None), (3, 7)])


def test_a_stream_on_the_right() -> None:
    plan = kit.join(static(), kit.relation(), NULL_SAFE, "RightOuter")
    found = kit.run(kit.project(plan, kit.ID, LIMIT), ROWS)
    assert found == Counter([(1, 5), (1, 50), (2, None), (3, 7)])
    with pytest.raises(ConfigurationError, match="rows of the table that no row of the stream matches"):
        kit.run(kit.join(static(), kit.relation(), EQUAL, "LeftOuter"), ROWS)


def test_results_that_change_later_are_joined_too() -> None:
    number = Attribute(200, "n", pa.int64(), False)
    count = kit.alias(number, kit.aggregated(kit.count()))
    counts = kit.aggregate(kit.relation(), [reference(kit.USER)], [reference(kit.USER), count])
    rows = [*ROWS, (4, kit.second(4), "ann", 40)]
    plan = kit.project(kit.join(counts, static(), NULL_SAFE, "LeftOuter"), kit.USER, number, LIMIT)
    assert kit.run(plan, rows) == Counter([("ann", 2, 5), ("ann", 2, 50), ("bob", 1, None), (None, 1, 7)])
