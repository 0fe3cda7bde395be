from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.subqueries import without_subqueries
from snapline.sql.plans.trees import Attribute, Expression, Plan

CITY = Attribute(50, "city", pa.string())
CITIES = Plan("LocalRelation", (CITY,), (), {}, {}, False, "cities")


def never(plan: Plan) -> None:
    raise AssertionError("no value is needed")


def membership(column: Attribute, plan: Plan = CITIES) -> Expression:
    query = kit.call("ListQuery", column.type, plan=plan)
    return kit.call("InSubquery", pa.bool_(), reference(column), query)


def test_in_is_a_semi_join_and_other_conditions_stay() -> None:
    other = kit.greater(reference(kit.PRICE), kit.literal(1))
    whole = kit.call("And", pa.bool_(), membership(kit.USER), other)
    plan = without_subqueries(kit.where(kit.relation(), whole), never)
    assert [node.kind for node in plan.walk()][:2] == ["Filter", "Join"]
    join = plan.children[0]
    assert join.arguments["joinType"] == "LeftSemi"
    assert [each.arguments["id"] for each in join.expressions["condition"][0].children] == [kit.USER.id, CITY.id]


OTHER = Attribute(60, "other", pa.string())


@pytest.mark.parametrize(
    ("others", "expected"), [(["a"], [(2,)]), (["a", None], []), ([], [(1,), (2,), (3,)]), (["x"], [(1,), (2,)])]
)
def test_not_in_does_not_hold_where_a_null_might_be_the_value(others: list[str | None], expected: list[object]) -> None:
    condition = kit.call("Not", pa.bool_(), membership(kit.USER, kit.relation("others", (OTHER,))))
    below = kit.project(kit.relation(), kit.ID, kit.USER)
    plan = kit.project(without_subqueries(kit.where(below, condition), never), kit.ID)
    rows = [(n, kit.second(n), user, 1) for n, user in ((1, "a"), (2, "b"), (3, None))]
    found = kit.run(plan, rows, others={"others": ((OTHER,), [(name,) for name in others])})
    assert found == Counter(expected)


def test_not_in_without_nulls_is_an_anti_join() -> None:
    city = replace(CITY, nullable=False, type=pa.int64())
    cities = replace(CITIES, output=(city,))
    condition = kit.call("Not", pa.bool_(), membership(kit.ID, cities))
    plan = without_subqueries(kit.where(kit.relation(), condition), never)
    assert (plan.kind, plan.arguments["joinType"]) == ("Join", "LeftAnti")


def test_exists_takes_its_condition_into_the_join() -> None:
    outer = kit.call("OuterReference", kit.USER.type, e=reference(kit.USER))
    inner = kit.where(CITIES, kit.call("EqualTo", pa.bool_(), reference(CITY), outer))
    condition = kit.call("Exists", pa.bool_(), reference(kit.USER), plan=inner)
    plan = without_subqueries(kit.where(kit.relation(), condition), never)
    assert plan.expressions["condition"][0].references == {CITY.id, kit.USER.id}
    assert plan.children[1] == CITIES


def test_a_value_is_asked_for_once_and_becomes_a_constant() -> None:
    value = kit.call("ScalarSubquery", pa.int64(), plan=CITIES)
    plan = without_subqueries(kit.where(kit.relation(), kit.greater(reference(kit.ID), value)), lambda _: 7)
    assert plan.expressions["condition"][0].children[1].arguments["value"] == 7


def test_a_value_that_depends_on_the_row_is_refused() -> None:
    value = kit.call("ScalarSubquery", pa.int64(), reference(kit.ID), plan=CITIES)
    with pytest.raises(ConfigurationError, match="ScalarSubquery"):
        without_subqueries(kit.where(kit.relation(), kit.greater(reference(kit.ID), value)), never)
