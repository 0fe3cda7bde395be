from __future__ import annotations

from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.preparation import prepared
from snapline.sql.plans.trees import Plan


def test_rules_work_together() -> None:
    named = Plan("SubqueryAlias", kit.EVENTS, (kit.watermark(kit.relation()),), {}, {}, True, "alias")
    plan = kit.where(kit.project(named, kit.ID, kit.PRICE), kit.greater(reference(kit.PRICE), kit.literal(1)))
    found = prepared(kit.project(plan, kit.ID), lambda _: None)
    assert [node.kind for node in found.walk()] == [
        "Project",
        "Project",
        "Filter",
        "EventTimeWatermark",
        "StreamingRelationV2",
    ]
