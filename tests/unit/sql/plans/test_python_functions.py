from __future__ import annotations

import pyarrow as pa
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.python_functions import with_time_zone


def test_functions_know_the_time_zone_wherever_they_stand() -> None:
    inner = kit.call("PythonUDF", pa.int64(), reference(kit.ID), name="f")
    plan = kit.where(kit.project(kit.relation(), kit.alias(kit.PRICE, inner)), kit.greater(inner, kit.literal(1)))
    made = with_time_zone(plan, "Europe/Berlin")
    found = [
        each.arguments.get("timeZoneId")
        for node in made.walk()
        for expressions in node.expressions.values()
        for expression in expressions
        for each in expression.walk()
        if each.kind == "PythonUDF"
    ]
    assert found == ["Europe/Berlin", "Europe/Berlin"]
    assert with_time_zone(kit.relation(), "UTC") == kit.relation()
