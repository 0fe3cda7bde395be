from __future__ import annotations

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Expression
from snapline.sql.plans.volatile_columns import is_volatile, without_volatile

NOW = kit.alias(Attribute(20, "now", kit.TIME, False), kit.call("CurrentTimestamp", kit.TIME))
N = kit.alias(Attribute(10, "n", pa.int64(), False), kit.aggregated(kit.count()))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (reference(kit.ID), False),
        (NOW, True),
        (kit.call("Add", pa.int64(), kit.call("Rand", pa.int64(), deterministic=False)), True),
        (kit.call("PythonUDF", pa.int64(), udfDeterministic=False), True),
        (kit.call("PythonUDF", pa.int64(), udfDeterministic=True), False),
    ],
)
def test_what_is_volatile(expression: Expression, expected: bool) -> None:
    assert is_volatile(expression) is expected


def test_all_from_the_lowest_volatile_node_on_is_above() -> None:
    first = kit.project(kit.relation(), kit.ID, kit.USER)
    volatile = kit.project(first, kit.ID, NOW)
    last = kit.where(volatile, kit.greater(reference(kit.ID), kit.literal(1)))
    assert without_volatile(last) == (first, [volatile, last])
    assert without_volatile(first) == (first, [])


def test_a_volatile_column_of_an_aggregate_is_one_of_a_projection() -> None:
    plan = kit.aggregate(kit.relation(), [reference(kit.USER)], [NOW, reference(kit.USER), N])
    below, (above,) = without_volatile(plan)
    assert below == kit.aggregate(kit.relation(), [reference(kit.USER)], [reference(kit.USER), N])
    assert above.output == plan.output
    assert [each.kind for each in above.expressions["projectList"]] == [
        "Alias",
        "AttributeReference",
        "AttributeReference",
    ]
    alone = kit.aggregate(kit.relation(), [reference(kit.USER)], [NOW])
    assert without_volatile(alone) == (alone, [])
