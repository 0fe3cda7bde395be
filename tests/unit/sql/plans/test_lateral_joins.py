from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.lateral_joins import without_lateral_joins
from snapline.sql.plans.trees import Attribute, Expression, Plan

ITEM = Attribute(30, "item", pa.int64())
NAMED = Attribute(31, "named", pa.int64())
ROWS = [(1, kit.second(1), "ann", 5), (2, kit.second(2), "bob", None)]
ONE_ROW = Plan("OneRowRelation", (), arguments={"dataframe": None})


def outer(attribute: Attribute) -> Expression:
    value = reference(attribute)
    return Expression("OuterReference", value.type, (), {"e": value}, True, f"outer({value.text})")


def generate(*values: Expression) -> Plan:
    """A row for each of the values, none if the first is null."""
    kind = pa.list_(pa.int64())
    every = kit.call("CreateArray", kind, *values)
    collection = kit.call("If", kind, kit.call("IsNull", pa.bool_(), values[0]), kit.literal(None, kind), every)
    generator = kit.call("Explode", pa.int64(), collection)
    expressions = {"generator": (generator,), "generatorOutput": (reference(ITEM),)}
    return Plan("Generate", (ITEM,), (ONE_ROW,), expressions, {"outer": False, "dataframe": None}, False, "explode")


def lateral(query: Plan, kind: str = "Inner", condition: Expression | None = None) -> Plan:
    left = kit.relation()
    subquery = Expression("LateralSubquery", pa.null(), (outer(kit.PRICE),), {"plan": query}, True, "lateral")
    expressions = {"right": (subquery,)} | ({} if condition is None else {"condition": (condition,)})
    output = (*left.output, *query.output)
    return Plan("LateralJoin", output, (left,), expressions, {"joinType": kind}, True, "LateralJoin")


def ids_and_last(plan: Plan) -> list[Any]:
    found = kit.run(without_lateral_joins(plan), ROWS)
    return sorted(((row[0], row[-1]) for row in found.elements()), key=str)


def test_a_generator_over_the_row_around() -> None:
    query = generate(outer(kit.PRICE), outer(kit.ID))
    assert ids_and_last(lateral(query)) == [(1, 1), (1, 5)]
    assert ids_and_last(lateral(query, "LeftOuter")) == [(1, 1), (1, 5), (2, None)]
    condition = kit.greater(reference(ITEM), reference(kit.ID))
    assert ids_and_last(lateral(query, condition=condition)) == [(1, 5)]
    assert ids_and_last(lateral(query, "LeftOuter", kit.literal(True))) == [(1, 1), (1, 5), (2, None)]


def test_columns_of_a_lateral_part_have_other_names_and_values() -> None:
    more = kit.call("Add", pa.int64(), outer(kit.ID), kit.literal(1), evalMode="ANSI")
    assert ids_and_last(lateral(kit.project(ONE_ROW, kit.alias(NAMED, more)))) == [(1, 2), (2, 3)]
    renamed = kit.project(generate(outer(kit.PRICE)), kit.alias(NAMED, reference(ITEM)))
    assert ids_and_last(lateral(renamed, "LeftOuter")) == [(1, 5), (2, None)]


@pytest.mark.parametrize(
    "plan",
    [
        lateral(generate(outer(kit.PRICE)), "LeftOuter", kit.greater(reference(ITEM), kit.literal(3))),
        lateral(kit.project(generate(outer(kit.PRICE)), kit.alias(NAMED, kit.literal(3))), "LeftOuter"),
        lateral(kit.relation("other", (ITEM,))),
    ],
)
def test_what_is_more_than_that_is_refused(plan: Plan) -> None:
    with pytest.raises(ConfigurationError, match="What to do"):
        without_lateral_joins(plan)
