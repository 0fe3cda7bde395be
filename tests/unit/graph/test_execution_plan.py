"""Execution plans: vertices by id, and the slots they need."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.graph.execution_plan import ExecutionPlan, PlannedEdge, PlannedOperator, PlannedVertex
from snapline.types import Partitioning

ROWS = pa.schema([("n", pa.int64())])


def vertex(uid: str, parallelism: int, *, is_source: bool = False) -> PlannedVertex:
    return PlannedVertex(uid, uid, parallelism, None, (PlannedOperator(uid, uid, None, ROWS, is_source=is_source),))


def test_a_plan_needs_as_many_slots_as_its_widest_vertex() -> None:
    source, wide = vertex("source", 2, is_source=True), vertex("wide", 5)
    edge = PlannedEdge("source->wide", "source", "wide", Partitioning.REBALANCE, (), ROWS)
    plan = ExecutionPlan((source, wide), (edge,))
    assert plan.slots == 5
    assert plan.vertex("wide") is wide
    assert [item.is_source for item in plan.vertices] == [True, False]
    with pytest.raises(StopIteration):
        plan.vertex("nowhere")


def test_subtasks_that_hear_the_same_are_in_unison() -> None:
    vertices = [vertex("one", 1), vertex("two", 2), *(vertex(name, 2) for name in ("a", "b", "c", "d", "own"))]
    own = PlannedOperator("own", "own", None, ROWS, makes_watermarks=True)
    vertices[-1] = PlannedVertex("own", "own", 2, None, (own,))

    def edge(source: str, target: str, partitioning: Partitioning) -> PlannedEdge:
        return PlannedEdge(f"{source}->{target}", source, target, partitioning, (), ROWS)

    edges = (
        edge("one", "a", Partitioning.REBALANCE),
        edge("a", "b", Partitioning.FORWARD),
        edge("two", "c", Partitioning.FORWARD),
        edge("two", "d", Partitioning.HASH),
        edge("c", "d", Partitioning.FORWARD),
        edge("one", "own", Partitioning.REBALANCE),
    )
    assert ExecutionPlan(tuple(vertices), edges).in_unison == {"one", "a", "b"}
