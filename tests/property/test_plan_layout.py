"""Layouts of generated plans."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView, VertexView
from snapline.protocol.statistics.plan_layout import Cell, layout, routes
from snapline.types import Partitioning


@st.composite
def plans(draw: st.DrawFn) -> PlanView:
    size = draw(st.integers(0, 14))
    pairs = list(combinations(range(size), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=30)) if pairs else []
    return PlanView(
        tuple(VertexView(f"v{number}", "", 1, 128, (OperatorView(f"v{number}", ""),)) for number in range(size)),
        tuple(EdgeView(f"v{source}", f"v{target}", Partitioning.HASH) for source, target in chosen),
    )


@given(plans())
def test_every_vertex_has_a_cell_of_its_own(plan: PlanView) -> None:
    cells = layout(plan)
    assert list(cells) == [vertex.id for vertex in plan.vertices]
    assert len(set(cells.values())) == len(cells)
    assert all(row >= 0 for _, row in cells.values())


@given(plans())
def test_the_layer_is_the_longest_path(plan: PlanView) -> None:
    cells = layout(plan)
    for vertex in plan.vertices:
        sources = plan.upstream(vertex.id)
        assert cells[vertex.id][0] == (1 + max(cells[source][0] for source in sources) if sources else 0)


@given(plans())
def test_routes_go_from_layer_to_layer_around_vertices(plan: PlanView) -> None:
    cells = layout(plan)
    for edge, route in zip(plan.edges, routes(plan), strict=True):
        assert route[0] == cells[edge.source]
        assert route[-1] == cells[edge.target]
        assert all(right[0] == left[0] + 1 for left, right in pairwise(route))
        assert not set(route[1:-1]) & set(cells.values())


@given(plans())
def test_the_drawing_has_no_empty_top_and_no_more_rows_than_things_in_it(plan: PlanView) -> None:
    used = {*layout(plan).values(), *(cell for route in routes(plan) for cell in route)}
    if used:
        assert min(row for _, row in used) == 0
        assert max(row for _, row in used) < len(used)


@given(plans())
def test_it_depends_on_nothing_but_ids_and_edges(plan: PlanView) -> None:
    other = PlanView(
        tuple(VertexView(vertex.id, "other", 7, 128, vertex.operators) for vertex in plan.vertices), plan.edges
    )
    assert layout(other) == layout(plan)
    assert routes(other) == routes(plan)


@given(plans())
def test_no_more_edges_cross_than_in_the_order_of_the_plan(plan: PlanView) -> None:
    assert _crossings([*routes(plan)]) <= _crossings(_in_order(plan))


def _in_order(plan: PlanView) -> list[tuple[Cell, ...]]:
    """The routes if places of a layer stood in the order in which the plan first names them."""
    layers = {vertex: layer for vertex, (layer, _) in layout(plan).items()}
    columns: dict[int, dict[str, int]] = {}
    for vertex, layer in layers.items():
        columns.setdefault(layer, {}).setdefault(vertex, len(columns[layer]))
    found: list[tuple[Cell, ...]] = []
    for edge in plan.edges:
        route = []
        for layer in range(layers[edge.source], layers[edge.target] + 1):
            column = columns[layer]
            name = edge.target if layer == layers[edge.target] else edge.source
            route.append((layer, column.setdefault(name, len(column))))
        found.append(tuple(route))
    return found


def _crossings(drawn: list[tuple[Cell, ...]]) -> int:
    steps = {step for route in drawn for step in pairwise(route)}
    return sum(
        one[0][0] == other[0][0] and (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < 0
        for one, other in combinations(sorted(steps), 2)
    )
