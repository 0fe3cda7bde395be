"""The parts of a graph that no edge connects."""

from __future__ import annotations

import pytest

from snapline.protocol.job.regions import Regions
from snapline.types import SubtaskId

TWO = Regions({"a": 1, "x": 3, "b": 2, "y": 1}, [("a", "b"), ("x", "y")])


def test_vertices_that_edges_connect_are_one_region() -> None:
    assert [TWO.of(vertex) for vertex in ("a", "x", "b", "y")] == [0, 1, 0, 1]
    assert TWO.all == {0, 1}
    assert TWO.vertices({1}) == {"x", "y"}
    assert TWO.subtasks({0}) == {SubtaskId("a", 0), SubtaskId("b", 0), SubtaskId("b", 1)}
    assert TWO.part(frozenset({0})) == frozenset({"a", "b"})
    assert TWO.part(None) is None


@pytest.mark.parametrize(
    ("edges", "numbers"),
    [
        ([], [0, 1, 2, 3]),
        ([("c", "d"), ("a", "b"), ("b", "c")], [0, 0, 0, 0]),
        ([("b", "d"), ("a", "d")], [0, 0, 1, 0]),
        ([("a", "d"), ("b", "c"), ("c", "b")], [0, 1, 1, 0]),
        ([("c", "d")], [0, 1, 2, 2]),
    ],
)
def test_the_order_of_edges_means_nothing(edges: list[tuple[str, str]], numbers: list[int]) -> None:
    vertices = dict.fromkeys("abcd", 1)
    for given in (edges, edges[::-1]):
        regions = Regions(vertices, given)
        assert [regions.of(vertex) for vertex in vertices] == numbers


def test_a_slot_has_the_regions_that_are_wide_enough() -> None:
    assert [TWO.in_slot(slot) for slot in (0, 1, 2, 3)] == [{0, 1}, {0, 1}, {1}, frozenset()]
    assert TWO.in_slot(None) == TWO.all


def test_without_a_graph_there_is_one_region() -> None:
    regions = Regions()
    assert regions.all == {0}
    assert regions.of("anything") == 0


def test_what_restarts_is_named_by_its_first_vertex() -> None:
    assert TWO.restart_text(frozenset({1})) == "4 of 7 subtasks: region of 'x'"
    assert TWO.restart_text(None) == "all 7 subtasks of 2 regions"
    assert Regions({"a": 2}).restart_text(None) == "all 2 subtasks"
    three = Regions({"a": 1, "b": 1, "c": 1})
    assert three.restart_text(frozenset({0, 2})) == "2 of 3 subtasks: regions of 'a', 'c'"
    coupled = Regions({"a": 1, "b": 1}, coupled="hooks belong to the job")
    assert coupled.restart_text(None) == "all 2 subtasks of 2 regions, because hooks belong to the job"
