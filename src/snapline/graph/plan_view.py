"""The plan of a job as outsiders see it."""

from __future__ import annotations

from snapline.graph.execution_plan import ExecutionPlan, PlannedOperator
from snapline.protocol.keygroups import default_max_parallelism
from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView, VertexView


def plan_view(plan: ExecutionPlan) -> PlanView:
    """The plan without anything that only its processes need."""
    vertices = tuple(
        VertexView(
            vertex.id,
            vertex.name,
            vertex.parallelism,
            vertex.max_parallelism or default_max_parallelism(vertex.parallelism),
            tuple(map(_operator_view, vertex.operators)),
        )
        for vertex in plan.vertices
    )
    edges = tuple(
        EdgeView(edge.source, edge.target, edge.partitioning, edge.key_columns, edge.output) for edge in plan.edges
    )
    return PlanView(vertices, edges)


def _operator_view(operator: PlannedOperator) -> OperatorView:
    return OperatorView(
        operator.uid,
        operator.name,
        operator.is_source,
        operator.is_sink,
        operator.has_state,
        () if operator.key is None else operator.key.columns,
        () if operator.schema is None else tuple((field.name, str(field.type)) for field in operator.schema),
    )
