from __future__ import annotations

from dataclasses import replace

from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.plan_cleanup import cleaned, with_static_leaves
from snapline.sql.plans.trees import Plan


def named(child: Plan, kind: str = "SubqueryAlias") -> Plan:
    return Plan(kind, child.output, (child,), {}, {}, child.is_streaming, kind)


def test_names_views_and_partitioning_mean_nothing() -> None:
    assert cleaned(named(named(named(named(kit.relation()), "View"), "PipeOperator"), "Repartition")) == kit.relation()


def test_a_projection_of_all_columns_in_their_order_means_nothing() -> None:
    assert cleaned(kit.project(kit.relation(), *kit.EVENTS)) == kit.relation()
    other_order = kit.project(kit.relation(), *reversed(kit.EVENTS))
    assert cleaned(other_order) == other_order


def test_what_does_not_stream_is_one_leaf() -> None:
    rows = replace(kit.relation(), is_streaming=False, arguments={"dataframe": len})
    static = replace(kit.where(rows, kit.literal(True)), is_streaming=False, arguments={"dataframe": dict})
    plan = with_static_leaves(kit.join(kit.relation(), static, reference(kit.ID)))
    assert plan.children[1].kind == "Static"
    assert plan.children[1].children == ()
    assert plan.children[1].arguments == {"dataframe": dict}
