from __future__ import annotations

import cloudpickle
import pyarrow as pa
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Expression, Plan


def test_references_are_the_ids_of_all_columns_below() -> None:
    assert kit.greater(reference(kit.ID), reference(kit.PRICE)).references == {kit.ID.id, kit.PRICE.id}


def test_a_tree_that_nothing_changes_stays_the_same_object() -> None:
    plan = kit.where(kit.relation(), kit.greater(reference(kit.ID), kit.literal(1)))
    assert plan.rewritten(lambda node: node) is plan
    condition = plan.expressions["condition"][0]
    assert condition.rewritten(lambda each: each) is condition


def test_children_are_changed_before_their_parents() -> None:
    seen: list[str] = []

    def note(node: Plan) -> Plan:
        seen.append(node.kind)
        return node

    kit.where(kit.relation(), kit.literal(True)).rewritten(note)
    assert seen == ["StreamingRelationV2", "Filter"]


def test_literals_of_calendar_intervals_can_be_pickled() -> None:
    value = pa.MonthDayNano([1, -2, 3])
    literal = Expression("Literal", pa.month_day_nano_interval(), arguments={"value": value})
    assert cloudpickle.loads(cloudpickle.dumps(literal)) == literal
    assert cloudpickle.loads(cloudpickle.dumps(pa.scalar(value))) == pa.scalar(value)
