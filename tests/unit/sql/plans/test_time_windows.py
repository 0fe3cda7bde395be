from __future__ import annotations

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.time_windows import conjunction, conjuncts, with_time_windows
from snapline.sql.plans.trees import Attribute, Expression, Plan

LONG = pa.int64()
WINDOW = Attribute(10, "window", kit.WINDOW, False, {"spark.timeWindow": True})
SESSION = Attribute(11, "session_window", kit.WINDOW, False, {"spark.sessionWindow": True})


def spelled_out(length: int, slide: int, offset: int, shift: int) -> Expression:
    """A window as the analyser writes it."""
    time = kit.call("PreciseTimestampConversion", LONG, reference(kit.AT))
    moved = kit.call("Subtract", LONG, time, kit.literal(offset))
    remainder = kit.call("Remainder", LONG, moved, kit.literal(slide))
    positive = kit.call("CaseWhen", LONG, kit.greater(kit.literal(0), remainder), remainder, remainder)
    start = kit.call("Subtract", LONG, kit.call("Subtract", LONG, time, positive), kit.literal(shift))
    end = kit.call("Add", LONG, start, kit.literal(length))
    bounds = [kit.call("PreciseTimestampConversion", kit.TIME, bound) for bound in (start, end)]
    return kit.call("CreateNamedStruct", kit.WINDOW, kit.literal("start"), bounds[0], kit.literal("end"), bounds[1])


def recovered(plan: Plan) -> Expression:
    (column,) = (each for each in plan.expressions["projectList"] if each.kind == "Alias")
    return column.children[0]


def test_a_tumbling_window_is_one_expression_again() -> None:
    plan = with_time_windows(kit.project(kit.relation(), kit.alias(WINDOW, spelled_out(10, 10, 3, 0)), kit.ID))
    window = recovered(plan)
    assert (window.kind, window.children) == ("TimeWindow", (reference(kit.AT),))
    assert dict(window.arguments) == {"windowDuration": 10, "slideDuration": 10, "startTime": 3}


def test_a_sliding_window_is_a_projection_instead_of_an_expand() -> None:
    rows = [(spelled_out(10, 4, 0, shift), reference(kit.ID)) for shift in (0, 4, 8)]
    output = (WINDOW, kit.ID)
    flat = tuple(each for row in rows for each in row)
    expand = Plan(
        "Expand", output, (kit.relation(),), {"projections": flat}, {"projections": (2, 2, 2)}, True, "Expand"
    )
    inside = kit.greater(reference(kit.AT), kit.call("GetStructField", kit.TIME, reference(WINDOW), ordinal=0))
    plan = with_time_windows(kit.where(expand, inside))
    assert plan.expressions["condition"][0].kind == "IsNotNull", "the condition on the window was Spark's own"
    assert plan.children[0].kind == "Project"
    assert dict(recovered(plan.children[0]).arguments) == {"windowDuration": 10, "slideDuration": 4, "startTime": 0}


def test_grouping_sets_stay_an_expand() -> None:
    expressions = {"projections": (reference(kit.ID), kit.literal(None, LONG))}
    plan = Plan("Expand", (kit.ID,), (kit.relation(),), expressions, {"projections": (1, 1)}, True, "Expand")
    assert with_time_windows(plan) == plan


def test_a_session_has_the_time_and_the_gap() -> None:
    time, gap = reference(kit.AT), kit.literal("5 seconds")
    end = kit.call("TimestampAddInterval", kit.TIME, time, gap)
    parts = [kit.literal("start"), time, kit.literal("end"), kit.call("Cast", kit.TIME, end)]
    struct = kit.call("CreateNamedStruct", kit.WINDOW, *parts)
    window = recovered(with_time_windows(kit.project(kit.relation(), kit.alias(SESSION, struct))))
    assert (window.kind, window.children) == ("SessionWindow", (time, gap))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_conditions_are_taken_apart_and_put_together(count: int) -> None:
    conditions = [kit.greater(reference(kit.ID), kit.literal(n)) for n in range(count)]
    assert conjuncts(conjunction(conditions)) == conditions


def test_a_copy_of_a_window_stays_a_copy() -> None:
    window = kit.project(kit.relation(), kit.alias(WINDOW, spelled_out(10, 10, 0, 0)))
    again = Attribute(20, "window", kit.WINDOW, False, {"spark.timeWindow": True})
    plan = with_time_windows(kit.project(window, kit.alias(again, reference(WINDOW))))
    assert recovered(plan).kind == "AttributeReference"
