from __future__ import annotations

import pytest

from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView, VertexView
from snapline.protocol.statistics.plan_layout import layout, routes
from snapline.types import Partitioning


def plan_of(*edges: str, alone: tuple[str, ...] = ()) -> PlanView:
    """A plan of edges such as "a>b"; vertices with outputs first."""
    pairs = [tuple(edge.split(">")) for edge in edges]
    names = [*dict.fromkeys([*(source for source, _ in pairs), *(target for _, target in pairs)]), *alone]
    return PlanView(
        tuple(VertexView(name, name, 1, 128, (OperatorView(name, name),)) for name in names),
        tuple(EdgeView(source, target, Partitioning.FORWARD) for source, target in pairs),
    )


@pytest.mark.parametrize(
    ("plan", "cells"),
    [
        (plan_of(), {}),
        (plan_of(alone=("a",)), {"a": (0, 0)}),
        (plan_of("a>b", "b>c"), {"a": (0, 0), "b": (1, 0), "c": (2, 0)}),
        (plan_of("a>b", "a>c", "b>d", "c>d"), {"a": (0, 0), "b": (1, 0), "c": (1, 1), "d": (2, 0)}),
        (plan_of("a>d", "b>d", "c>d"), {"a": (0, 0), "b": (0, 1), "c": (0, 2), "d": (1, 1)}),
        (plan_of("a>c", "b>d"), {"a": (0, 0), "b": (0, 1), "c": (1, 0), "d": (1, 1)}),
        (plan_of("a>b", alone=("c",)), {"a": (0, 0), "b": (1, 0), "c": (0, 1)}),
    ],
)
def test_cells(plan: PlanView, cells: dict[str, tuple[int, int]]) -> None:
    assert dict(layout(plan)) == cells


def test_edges_that_would_cross_in_the_order_of_the_plan_do_not() -> None:
    cells = layout(plan_of("a>x", "b>y", "c>z", "x>zz", "y>yy", "z>xx"))
    assert [cells[name][1] for name in ("x", "y", "z")] == [cells[name][1] for name in ("zz", "yy", "xx")]
    crossed = plan_of("a>c", "b>d", "a>e", "b>f")  # c, d, e, f in one layer
    assert [name for name, _ in sorted(layout(crossed).items(), key=lambda item: item[1])] == ["a", "b", *"cedf"]


def test_a_long_edge_runs_through_cells_without_a_vertex() -> None:
    plan = plan_of("a>b", "b>c", "c>d", "a>d")
    assert routes(plan) == (
        ((0, 0), (1, 0)),
        ((1, 0), (2, 0)),
        ((2, 0), (3, 0)),
        ((0, 0), (1, 1), (2, 1), (3, 0)),
    )


def test_long_edges_of_one_vertex_share_their_cells() -> None:
    plan = plan_of("a>b", "b>c", "c>d", "a>c", "a>d")
    short, long = routes(plan)[3:]
    assert short[1] == long[1]


def test_the_layout_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        layout(plan_of("a>b"))["a"] = (9, 9)  # type: ignore[index]


def test_two_edges_between_the_same_vertices() -> None:
    plan = plan_of("a>b", "a>b")
    assert dict(layout(plan)) == {"a": (0, 0), "b": (1, 0)}
    assert routes(plan) == (((0, 0), (1, 0)),) * 2
