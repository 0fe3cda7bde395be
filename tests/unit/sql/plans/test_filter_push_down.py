from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.filter_push_down import with_filters_down
from snapline.sql.plans.trees import Attribute, Plan

EXPENSIVE = kit.greater(reference(kit.PRICE), kit.literal(5))
OTHER = tuple(Attribute(each.id + 100, each.name, each.type) for each in kit.EVENTS)


def kinds(plan: Plan) -> list[str]:
    return [node.kind for node in plan.walk()]


def test_a_filter_goes_below_a_projection_that_copies_its_columns() -> None:
    cost = Attribute(10, "cost", pa.int64())
    plan = kit.project(kit.relation(), kit.alias(cost, reference(kit.PRICE)))
    found = with_filters_down(kit.where(plan, kit.greater(reference(cost), kit.literal(5))))
    assert kinds(found) == ["Project", "Filter", "StreamingRelationV2"]
    assert found.children[0].expressions["condition"][0].references == {kit.PRICE.id}


def test_a_filter_stays_above_what_it_needs_computed() -> None:
    cost = Attribute(10, "cost", pa.int64())
    computed = kit.call("Add", pa.int64(), reference(kit.PRICE), reference(kit.PRICE))
    plan = kit.where(
        kit.project(kit.relation(), kit.alias(cost, computed)), kit.greater(reference(cost), kit.literal(5))
    )
    assert with_filters_down(plan) == plan


def test_a_filter_never_goes_below_a_watermark() -> None:
    plan = kit.where(kit.watermark(kit.relation()), EXPENSIVE)
    assert with_filters_down(plan) == plan


def test_rows_are_dropped_before_they_come_in_several_windows_but_windows_only_after() -> None:
    window = Attribute(10, "window", kit.WINDOW)
    below = kit.project(kit.relation(), kit.alias(window, kit.time_window(reference(kit.AT), 10, 5)), kit.PRICE)
    assert kinds(with_filters_down(kit.where(below, EXPENSIVE))) == ["Project", "Filter", "StreamingRelationV2"]
    there = kit.call("IsNotNull", pa.bool_(), reference(window))
    assert with_filters_down(kit.where(below, there)) == kit.where(below, there)


def test_two_filters_become_one_in_their_order() -> None:
    first, second = EXPENSIVE, kit.greater(reference(kit.ID), kit.literal(1))
    found = with_filters_down(kit.where(kit.where(kit.relation(), first), second))
    assert kinds(found) == ["Filter", "StreamingRelationV2"]
    assert found.expressions["condition"][0].children == (first, second)


def test_conditions_on_one_side_are_checked_before_a_join() -> None:
    equal = kit.call("EqualTo", pa.bool_(), reference(kit.USER), reference(OTHER[2]))
    joined = kit.join(kit.relation(), kit.relation("others", OTHER), equal)
    found = with_filters_down(kit.where(joined, EXPENSIVE))
    assert kinds(found) == ["Join", "Filter", "StreamingRelationV2", "StreamingRelationV2"]


def test_the_side_that_an_outer_join_pads_is_filtered_after_it() -> None:
    equal = kit.call("EqualTo", pa.bool_(), reference(kit.USER), reference(OTHER[2]))
    joined = kit.join(kit.relation(), kit.relation("others", OTHER), equal, "RightOuter")
    assert kinds(with_filters_down(kit.where(joined, EXPENSIVE)))[0] == "Filter"


def test_a_table_is_left_as_it_is() -> None:
    static = replace(kit.relation("others", OTHER), is_streaming=False)
    equal = kit.call("EqualTo", pa.bool_(), reference(kit.USER), reference(OTHER[2]))
    plan = kit.where(kit.join(kit.relation(), static, equal), kit.greater(reference(OTHER[3]), kit.literal(5)))
    assert with_filters_down(plan) == plan


def test_a_random_condition_stays_where_it_is() -> None:
    random = kit.call("Rand", pa.bool_(), deterministic=False)
    plan = kit.where(kit.project(kit.relation(), kit.ID), random)
    assert with_filters_down(plan) == plan
