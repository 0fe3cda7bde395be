from __future__ import annotations

import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import renamed, without_common_tables
from snapline.sql.plans.trees import Attribute, Plan

OTHER = tuple(Attribute(each.id + 100, each.name, each.type) for each in kit.EVENTS)


def use(number: int, output: tuple[Attribute, ...]) -> Plan:
    return Plan("CTERelationRef", output, (), {}, {"cteId": number}, True, f"table {number}")


def definition(number: int, child: Plan) -> Plan:
    return Plan("CTERelationDef", child.output, (child,), {}, {"id": number}, True, "definition")


def test_a_table_stands_where_it_is_used_and_is_one_object() -> None:
    table = definition(0, kit.relation())
    body = kit.join(use(0, kit.EVENTS), use(0, OTHER), None)
    plan = without_common_tables(Plan("WithCTE", body.output, (table, body), {}, {}, True, "with"))
    left, right = plan.children
    assert left == kit.relation()
    assert right.kind == "Project"
    assert right.output == OTHER
    assert right.children[0] is left


def test_a_table_may_use_an_earlier_one() -> None:
    tables = (definition(0, kit.relation()), definition(1, kit.where(use(0, kit.EVENTS), kit.literal(True))))
    plan = without_common_tables(Plan("WithCTE", kit.EVENTS, (*tables, use(1, kit.EVENTS)), {}, {}, True, "with"))
    assert [node.kind for node in plan.walk()] == ["Filter", "StreamingRelationV2"]


def test_a_recursive_table_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="recursive"):
        without_common_tables(Plan("WithCTE", kit.EVENTS, (use(7, kit.EVENTS),), {}, {}, True, "with"))


def test_columns_that_have_the_right_ids_need_no_projection() -> None:
    assert renamed(kit.relation(), kit.EVENTS) == kit.relation()
