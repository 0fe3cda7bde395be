from __future__ import annotations

from collections import Counter

import pyarrow as pa
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.partition_windows import without_partition_windows
from snapline.sql.plans.trees import Attribute, Expression, Plan

MOST = Attribute(10, "most", pa.int64())
ROWS = [(n, kit.second(n), user, price) for n, user, price in [(1, "a", 5), (2, "a", 9), (3, None, 4), (4, None, 1)]]


def windows(*order: Attribute, frame: Expression | None = None) -> Plan:
    below = kit.project(kit.relation(), kit.ID, kit.USER, kit.PRICE)
    highest = kit.aggregated(kit.call("Max", pa.int64(), reference(kit.PRICE)))
    value = kit.call("WindowExpression", pa.int64(), highest, frame or kit.call("Spec", pa.null()))
    expressions = {
        "windowExpressions": (kit.alias(MOST, value),),
        "partitionSpec": (reference(kit.USER),),
        "orderSpec": tuple(reference(each) for each in order),
    }
    return Plan("Window", (*below.output, MOST), (below,), expressions, {}, True, "Window")


def test_each_row_gets_the_aggregate_of_its_partition_and_null_is_one() -> None:
    plan = without_partition_windows(windows())
    assert plan.output == windows().output
    expected = [(1, "a", 5, 9), (2, "a", 9, 9), (3, None, 4, 4), (4, None, 1, 4)]
    assert kit.run(plan, ROWS) == Counter(expected)


def test_an_order_makes_it_something_else() -> None:
    assert without_partition_windows(windows(kit.ID)) == windows(kit.ID)


def test_a_frame_that_is_not_the_whole_partition_makes_it_something_else() -> None:
    bounds = [kit.call(kind, pa.null()) for kind in ("UnboundedPreceding", "CurrentRow", "UnboundedFollowing")]
    spec = kit.call("Spec", pa.null(), kit.call("SpecifiedWindowFrame", pa.null(), *bounds[:2]))
    assert without_partition_windows(windows(frame=spec)) == windows(frame=spec)
    whole = kit.call("Spec", pa.null(), kit.call("SpecifiedWindowFrame", pa.null(), bounds[0], bounds[2]))
    assert without_partition_windows(windows(frame=whole)).kind == "Project"
