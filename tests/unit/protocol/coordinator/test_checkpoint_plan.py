"""The checkpoint plan: where barriers start, whom a checkpoint waits for, and when there can be none."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest

from snapline.errors import ConfigurationError
from snapline.protocol.coordinator.checkpoint_plan import (
    MAX_NAMED_SUBTASKS,
    CheckpointPlan,
    CheckpointPlanner,
    Edge,
    PlanFailure,
    Vertex,
    pointwise_sources,
)
from snapline.types import FailureReason, SubtaskId


def subtasks(vertex: str, *indexes: int) -> tuple[SubtaskId, ...]:
    return tuple(SubtaskId(vertex, index) for index in indexes)


def planned(planner: CheckpointPlanner, finished: Iterable[SubtaskId] = ()) -> CheckpointPlan:
    plan = planner.plan(finished=frozenset(finished))
    assert isinstance(plan, CheckpointPlan)
    return plan


def two_vertices(source: int, target: int, *, pointwise: bool) -> CheckpointPlanner:
    return CheckpointPlanner([Vertex("v0", source), Vertex("v1", target)], [Edge("v0", "v1", pointwise)])


@pytest.mark.parametrize("pointwise", [True, False])
def test_all_running_starts_at_the_sources_and_waits_for_all(pointwise: bool) -> None:
    plan = planned(two_vertices(2, 3, pointwise=pointwise))
    everyone = subtasks("v0", 0, 1) + subtasks("v1", 0, 1, 2)
    assert plan == CheckpointPlan(trigger=subtasks("v0", 0, 1), wait=everyone, commit=everyone)


def test_plans_are_in_topological_order_whatever_order_the_vertices_come_in() -> None:
    planner = CheckpointPlanner(
        [Vertex("sink", 1), Vertex("map", 1), Vertex("source", 1)],
        [Edge("map", "sink", False), Edge("source", "map", True)],
    )
    assert [subtask.vertex for subtask in planned(planner).wait] == ["source", "map", "sink"]


def test_every_vertex_without_inputs_is_a_source() -> None:
    planner = CheckpointPlanner(
        [Vertex("a", 1), Vertex("b", 2), Vertex("join", 1), Vertex("alone", 1)],
        [Edge("a", "join", False), Edge("b", "join", False)],
    )
    assert set(planned(planner).trigger) == {*subtasks("a", 0), *subtasks("b", 0, 1), *subtasks("alone", 0)}


def test_l3_pointwise_subtasks_whose_own_sources_finished_are_triggered() -> None:
    plan = planned(two_vertices(4, 4, pointwise=True), subtasks("v0", 0, 1))
    running = subtasks("v0", 2, 3) + subtasks("v1", 0, 1, 2, 3)
    assert plan == CheckpointPlan(
        trigger=subtasks("v0", 2, 3) + subtasks("v1", 0, 1),
        wait=running,
        commit=running,
        finished_vertices=(),
        finished_subtasks=subtasks("v0", 0, 1),
    )


def test_one_running_source_feeds_everyone_over_an_all_to_all_edge() -> None:
    plan = planned(two_vertices(3, 2, pointwise=False), subtasks("v0", 0, 2))
    assert plan.trigger == subtasks("v0", 1)
    assert plan.wait == subtasks("v0", 1) + subtasks("v1", 0, 1)


@pytest.mark.parametrize("pointwise", [True, False])
def test_behind_a_fully_finished_vertex_every_subtask_is_triggered(pointwise: bool) -> None:
    plan = planned(two_vertices(2, 3, pointwise=pointwise), subtasks("v0", 0, 1))
    assert plan.trigger == plan.wait == plan.commit == subtasks("v1", 0, 1, 2)
    assert plan.finished_vertices == ("v0",)
    assert plan.finished_subtasks == subtasks("v0", 0, 1)


def test_finished_subtasks_are_neither_triggered_nor_waited_for() -> None:
    plan = planned(two_vertices(2, 2, pointwise=True), [*subtasks("v0", 0, 1), *subtasks("v1", 1)])
    assert plan.trigger == plan.wait == subtasks("v1", 0)
    assert plan.finished_vertices == ("v0",)
    assert plan.finished_subtasks == subtasks("v0", 0, 1) + subtasks("v1", 1)


def test_a_subtask_with_several_inputs_is_triggered_only_if_none_of_them_runs() -> None:
    planner = CheckpointPlanner(
        [Vertex("a", 2), Vertex("b", 2), Vertex("c", 1), Vertex("join", 2)],
        [Edge("a", "join", True), Edge("b", "join", True), Edge("c", "join", False)],
    )
    c_running = planned(planner, subtasks("a", 0, 1) + subtasks("b", 0, 1))
    assert c_running.trigger == subtasks("c", 0)
    partly = planned(planner, subtasks("c", 0) + subtasks("a", 0, 1) + subtasks("b", 1))
    assert set(partly.trigger) == {*subtasks("b", 0), *subtasks("join", 1)}
    crosswise = planned(planner, subtasks("c", 0) + subtasks("a", 0) + subtasks("b", 1))
    assert set(crosswise.trigger) == {*subtasks("a", 1), *subtasks("b", 0)}


def test_a_pointwise_edge_that_runs_in_full_feeds_every_subtask() -> None:
    planner = CheckpointPlanner(
        [Vertex("a", 2), Vertex("b", 2), Vertex("join", 2)], [Edge("a", "join", True), Edge("b", "join", True)]
    )
    assert set(planned(planner, subtasks("a", 0, 1)).trigger) == {*subtasks("b", 0, 1)}


def test_two_edges_between_the_same_vertices_are_allowed() -> None:
    planner = CheckpointPlanner([Vertex("a", 2), Vertex("b", 2)], [Edge("a", "b", True), Edge("a", "b", False)])
    assert planned(planner, subtasks("a", 0)).trigger == subtasks("a", 1)


def test_when_everything_has_finished_there_is_nothing_to_wait_for() -> None:
    plan = planned(two_vertices(1, 1, pointwise=True), subtasks("v0", 0) + subtasks("v1", 0))
    assert (plan.trigger, plan.wait, plan.commit, plan.finished_vertices) == ((), (), (), ("v0", "v1"))


def test_rescaled_pointwise_edges_decide_by_their_own_upstream_subtasks() -> None:
    narrowing = planned(two_vertices(4, 2, pointwise=True), subtasks("v0", 0, 1, 2))
    assert narrowing.trigger == subtasks("v0", 3) + subtasks("v1", 0)
    widening = planned(two_vertices(2, 5, pointwise=True), subtasks("v0", 0))
    assert widening.trigger == subtasks("v0", 1) + subtasks("v1", 0, 1, 2)


@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [
        (3, 3, [[0], [1], [2]]),
        (4, 2, [[0, 1], [2, 3]]),
        (5, 3, [[0], [1, 2], [3, 4]]),
        (3, 1, [[0, 1, 2]]),
        (2, 4, [[0], [0], [1], [1]]),
        (2, 5, [[0], [0], [0], [1], [1]]),
        (3, 4, [[0], [0], [1], [2]]),
        (1, 3, [[0], [0], [0]]),
    ],
)
def test_pointwise_sources(sources: int, targets: int, expected: list[list[int]]) -> None:
    assert [list(pointwise_sources(target, sources, targets)) for target in range(targets)] == expected


def test_subtasks_that_do_not_run_yet_are_named() -> None:
    failure = two_vertices(2, 3, pointwise=False).plan(not_running=frozenset(subtasks("v1", 2, 0)))
    assert isinstance(failure, PlanFailure)
    assert failure.reason is FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    assert failure.subtasks == subtasks("v1", 0, 2)
    assert "v1/0, v1/2 are not running" in failure.message


def test_one_subtask_that_does_not_run_is_enough_even_beside_finished_ones() -> None:
    planner = two_vertices(2, 2, pointwise=True)
    failure = planner.plan(finished=frozenset(subtasks("v0", 0)), not_running=frozenset(subtasks("v1", 1)))
    assert isinstance(failure, PlanFailure)
    assert failure.subtasks == subtasks("v1", 1)


def test_a_finished_subtask_need_not_run() -> None:
    finished = frozenset(subtasks("v0", 0))
    planner = two_vertices(2, 2, pointwise=True)
    assert planner.plan(finished=finished, not_running=finished) == planned(planner, finished)


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (MAX_NAMED_SUBTASKS, f", v/{MAX_NAMED_SUBTASKS - 1} are"),
        (MAX_NAMED_SUBTASKS + 5, f", v/{MAX_NAMED_SUBTASKS - 1} and 5 more are"),
    ],
)
def test_a_message_names_only_so_many_subtasks(count: int, names: str) -> None:
    failure = CheckpointPlanner([Vertex("v", count)], []).plan(not_running=frozenset(subtasks("v", *range(count))))
    assert isinstance(failure, PlanFailure)
    assert failure.subtasks == subtasks("v", *range(count))
    assert names in failure.message
    assert f"v/{MAX_NAMED_SUBTASKS}" not in failure.message


def test_finished_subtasks_are_listed_by_index() -> None:
    plan = planned(CheckpointPlanner([Vertex("v", 9)], []), subtasks("v", 8, 1))
    assert plan.finished_subtasks == subtasks("v", 1, 8)


def test_with_finished_tasks_not_allowed_one_is_enough_to_fail() -> None:
    planner = CheckpointPlanner([Vertex("v", 2)], [], allow_finished=False)
    assert planned(planner).trigger == subtasks("v", 0, 1)
    failure = planner.plan(finished=frozenset(subtasks("v", 1)))
    assert isinstance(failure, PlanFailure)
    assert failure.reason is FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    assert failure.subtasks == subtasks("v", 1)
    assert "v/1 have finished" in failure.message


@pytest.mark.parametrize(
    ("vertices", "edges", "complaint"),
    [
        ([Vertex("v", 1), Vertex("v", 2)], [], "two vertices have the id 'v'"),
        ([Vertex("v", 0)], [], "parallelism 0"),
        ([Vertex("v", 1)], [Edge("v", "w", True)], "no vertex 'w'"),
        ([Vertex("v", 1)], [Edge("w", "v", True)], "no vertex 'w'"),
        ([Vertex("v", 1)], [Edge("v", "v", False)], "cycle among or ahead of 'v'"),
        (
            [Vertex("source", 1), Vertex("a", 1), Vertex("b", 1)],
            [Edge("source", "a", False), Edge("a", "b", False), Edge("b", "a", False)],
            "cycle among or ahead of 'a', 'b'",
        ),
    ],
)
def test_impossible_graphs_are_refused(vertices: list[Vertex], edges: list[Edge], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        CheckpointPlanner(vertices, edges)


@pytest.mark.parametrize(
    ("unknown", "complaint"),
    [
        (SubtaskId("w", 0), "no vertex 'w'"),
        (SubtaskId("v", 2), "has only 2 subtasks"),
        (SubtaskId("v", -1), "has only 2 subtasks"),
    ],
)
def test_subtasks_the_graph_does_not_have_are_refused(unknown: SubtaskId, complaint: str) -> None:
    planner = CheckpointPlanner([Vertex("v", 2)], [])
    with pytest.raises(ConfigurationError, match=complaint):
        planner.plan(finished=frozenset({unknown}))
    with pytest.raises(ConfigurationError, match=complaint):
        planner.plan(not_running=frozenset({unknown}))


def test_large_graphs_need_no_more_than_a_look_at_each_subtask() -> None:
    parallelism = 4000
    ids = [f"v{i}" for i in range(10)]
    edges = [Edge(a, b, pointwise=i % 2 == 0) for i, (a, b) in enumerate(pairwise(ids))]
    planner = CheckpointPlanner([Vertex(vertex_id, parallelism) for vertex_id in ids], edges)
    assert planned(planner) is planned(planner)
    plan = planned(planner, subtasks("v0", *range(1, parallelism)))
    assert plan.trigger == subtasks("v0", 0) + subtasks("v1", *range(1, parallelism))
    assert len(plan.wait) == 9 * parallelism + 1
