from __future__ import annotations

import pyarrow as pa
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.needed_columns import pruned
from snapline.sql.plans.trees import Attribute

OTHER = tuple(Attribute(each.id + 100, each.name, each.type) for each in kit.EVENTS)


def test_a_join_gets_only_columns_that_are_needed_after_it_or_by_it() -> None:
    equal = kit.call("EqualTo", pa.bool_(), reference(kit.USER), reference(OTHER[2]))
    joined = kit.join(kit.relation(), kit.relation("others", OTHER), equal)
    plan = pruned(kit.project(joined, kit.ID))
    left, right = plan.children[0].children
    assert [each.name for each in left.output] == ["id", "user"]
    assert [each.name for each in right.output] == ["user"]
    assert plan.children[0].output == (kit.ID, kit.USER, OTHER[2])


def test_columns_of_a_projection_that_nothing_reads_are_not_computed() -> None:
    doubled = Attribute(10, "doubled", pa.int64())
    value = kit.call("Add", pa.int64(), reference(kit.PRICE), reference(kit.PRICE))
    plan = pruned(kit.project(kit.project(kit.relation(), kit.ID, kit.alias(doubled, value)), kit.ID))
    assert plan.children[0].output == (kit.ID,)


def test_a_filter_keeps_the_columns_that_it_reads() -> None:
    below = kit.project(kit.relation(), kit.ID, kit.PRICE)
    plan = pruned(kit.project(kit.where(below, kit.greater(reference(kit.PRICE), kit.literal(1))), kit.ID))
    assert plan.children[0].output == (kit.ID, kit.PRICE)
