"""The plan of a job as outsiders see it."""

from __future__ import annotations

import snapline as sl
from snapline.graph.plan_view import plan_view
from snapline.graph.planner import plan
from snapline.protocol.statistics.job_view import EdgeView, OperatorView, VertexView
from snapline.types import Partitioning


def test_vertices_operators_and_edges() -> None:
    job = sl.Job("clicks", parallelism=2)
    rows = job.source(sl.sources.Rate(rows=10), uid="rows", parallelism=1)
    rows.key_by("user").aggregate(n=sl.count(), uid="per-user").sink(sl.sinks.Print(), uid="out")
    view = plan_view(plan(job).plan)
    columns = tuple((field.name, str(field.type)) for field in rows.schema)
    assert view.vertices == (
        VertexView("rows", "Rate", 1, 128, (OperatorView("rows", "Rate", True, False, True, (), columns),)),
        VertexView(
            "per-user",
            "aggregate -> Print",
            2,
            128,
            (
                OperatorView(
                    "per-user", "aggregate", False, False, True, ("user",), view.vertices[1].operators[0].columns
                ),
                OperatorView("out", "Print", False, True, view.vertices[1].operators[1].has_state),
            ),
        ),
    )
    assert dict(view.vertices[1].operators[0].columns)["n"] == "int64"
    assert view.edges == (EdgeView("rows", "per-user", Partitioning.HASH, ("user",)),)


def test_the_users_max_parallelism_is_shown() -> None:
    job = sl.Job("clicks", max_parallelism=7)
    job.source(sl.sources.Rate(rows=10), uid="rows").sink(sl.sinks.Print(), uid="out")
    assert [vertex.max_parallelism for vertex in plan_view(plan(job).plan).vertices] == [7]
