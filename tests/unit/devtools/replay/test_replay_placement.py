"""Placement replayed: scripts with known outcomes, and scripts that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.devtools.replay.replay_kit import error_of, replay

V0_PARTLY_FINISHED = {"id": "v0", "parallelism": 4, "finished": [0, 1]}
V1 = {"id": "v1", "parallelism": 4}


def test_l3_a_subtask_whose_own_inputs_have_finished_is_triggered() -> None:
    outcome = replay("plan", vertices=[V0_PARTLY_FINISHED, V1], edges=[["v0", "v1", "pointwise"]])
    assert outcome == {
        "trigger": {"v0": [2, 3], "v1": [0, 1]},
        "wait": {"v0": [2, 3], "v1": [0, 1, 2, 3]},
        "error": None,
    }


def test_vertices_without_subtasks_in_the_plan_are_left_out() -> None:
    all_to_all = [["v0", "v1", "all"]]
    outcome = replay("plan", vertices=[V0_PARTLY_FINISHED, V1], edges=all_to_all)
    assert outcome == {"trigger": {"v0": [2, 3]}, "wait": {"v0": [2, 3], "v1": [0, 1, 2, 3]}, "error": None}
    gone = {"id": "v0", "parallelism": 1, "finished": [0]}
    outcome = replay("plan", vertices=[gone, {"id": "v1", "parallelism": 1}], edges=all_to_all)
    assert outcome == {"trigger": {"v1": [0]}, "wait": {"v1": [0]}, "error": None}


def test_no_plan_while_a_subtask_does_not_run() -> None:
    no_plan = {"trigger": {}, "wait": {}, "error": "NOT_ALL_REQUIRED_TASKS_RUNNING"}
    assert replay("plan", vertices=[V1], edges=[], not_running=[["v1", 2]]) == no_plan
    assert replay("plan", vertices=[V0_PARTLY_FINISHED], edges=[], finish=False) == no_plan
    assert replay("plan", vertices=[V0_PARTLY_FINISHED], edges=[], not_running=[["v0", 1]])["error"] is None


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "vertices is missing; use an array"),
        ({"vertices": ["v0"]}, 'vertices[0] is "v0"; use a JSON object'),
        ({"vertices": [{"id": 0, "parallelism": 1}]}, "vertices[0].id is 0; use a string"),
        ({"vertices": [{"id": "v0"}]}, "vertices[0].parallelism is missing; use a whole number from 1 to 32768"),
        ({"vertices": [{"id": "v0", "parallelism": 10**9}]}, "vertices[0].parallelism is 1000000000;"),
        ({"vertices": [{**V1, "finished": [True]}]}, "vertices[0].finished[0] is true;"),
        ({"vertices": [{**V1, "finished": [4]}]}, "v1/4: the vertex has only 4 subtasks"),
        ({"vertices": [{**V1, "paralelism": 4}]}, 'there is no field "vertices[0].paralelism" here;'),
        ({"vertices": [V1, V1]}, "two vertices have the id 'v1'"),
        ({"vertices": [V1], "edges": [["v1", "v2", "all"]]}, "there is no vertex 'v2'"),
        ({"vertices": [V1], "edges": [["v1", "v1", "all"]]}, "the graph has a cycle"),
        ({"vertices": [V1], "edges": [["v1", "v1", "some"]]}, "with the kind all or pointwise"),
        ({"vertices": [V1], "edges": [["v1", "v1"]]}, 'edges[0] is ["v1", "v1"]; use [vertex, vertex, kind]'),
        ({"vertices": [V1], "edges": ["v1"]}, 'edges[0] is "v1"; use [vertex, vertex, kind]'),
        ({"vertices": [V1], "not_running": ["v1"]}, 'not_running[0] is "v1"; use [vertex, index]'),
        ({"vertices": [V1], "not_running": [["v1", "2"]]}, 'not_running[0][1] is "2";'),
        ({"vertices": [V1], "not_running": [["v9", 0]]}, "there is no vertex 'v9'"),
    ],
)
def test_a_plan_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("plan", **script)


def test_g5_key_groups_are_cut_into_ranges() -> None:
    outcome = replay("keygroups", max_parallelism=128, parallelism=3)
    assert outcome == {"ranges": [[0, 42], [43, 85], [86, 127]]}


def test_the_default_max_parallelism() -> None:
    assert replay("keygroups", default_for=[1, 85, 86, 32768]) == {"default": [128, 128, 256, 32768]}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "max_parallelism is missing"),
        ({"max_parallelism": 128}, "parallelism is missing"),
        ({"max_parallelism": 128, "parallelism": 129}, "parallelism is 129; use 1 to the max parallelism, 128"),
        ({"max_parallelism": 32769, "parallelism": 1}, "max parallelism is 32769; use 1 to 32768"),
        ({"default_for": 85}, "default_for is 85; use an array"),
        ({"default_for": [0]}, "default_for[0] is 0;"),
        ({"default_for": [1], "parallelism": 1}, 'there is no field "parallelism" here'),
    ],
)
def test_a_keygroups_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("keygroups", **script)


def test_g11_new_subtasks_replay_the_old_ones_whose_key_groups_they_share() -> None:
    assert replay("assign", mapper="range", to=2, **{"from": 3}) == {"old": [[0, 1], [1, 2]]}
    assert replay("assign", mapper="range", to=4, **{"from": 3}) == {"old": [[0], [0, 1], [1, 2], [2]]}


def test_g20_the_next_state_starts_where_the_remainder_ended() -> None:
    outcome = replay("assign", mode="split", states={"t-1": [[0, 10], []], "t-2": [[], [0, 15]]}, to=3)
    assert outcome == {"subtasks": [{"t-1": [0], "t-2": [15]}, {"t-1": [10]}, {"t-2": [0]}]}


def test_the_other_modes_and_mappers() -> None:
    states = {"s": [[1, "two"], None, [{"three": 3}]]}
    everything = {"s": [1, "two", {"three": 3}]}
    assert replay("assign", mode="union", states=states, to=2) == {"subtasks": [everything] * 2}
    one_each = {"subtasks": [{"s": [1, "two"]}, {"s": [{"three": 3}]}, {"s": [1, "two"]}]}
    assert replay("assign", mode="broadcast", states=states, to=3) == one_each
    assert replay("assign", mapper="round_robin", to=2, **{"from": 3}) == {"old": [[0, 2], [1]]}
    assert replay("assign", mapper="first", to=2, **{"from": 3}) == {"old": [[0, 1, 2], []]}
    assert replay("assign", mapper="full", to=2, **{"from": 3}) == {"old": [[0, 1, 2]] * 2}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "give either a mode with states and to, or a mapper with from and to"),
        ({"mode": "split", "mapper": "range", "to": 1}, "give either a mode"),
        ({"mode": "split", "states": {}}, "to is missing"),
        ({"mode": "shuffle", "states": {}, "to": 1}, 'mode is "shuffle"; use one of split, union, broadcast'),
        ({"mode": "split", "to": 1}, "states is missing; use an object of arrays by state name"),
        ({"mode": "split", "states": [], "to": 1}, "states is []; use an object"),
        ({"mode": "split", "states": {"s": 1}, "to": 1}, "states.s is 1; use an array"),
        ({"mode": "split", "states": {"s": [1]}, "to": 1}, "states.s[0] is 1; use an array"),
        ({"mode": "split", "states": {"s": [[1]], "t": []}, "to": 2}, "different numbers of subtasks"),
        ({"mode": "split", "states": {}, "to": 10**9}, "to is 1000000000;"),
        ({"mapper": "unsupported", "from": 1, "to": 1}, "use one of range, round_robin, first, full"),
        ({"mapper": "range", "to": 1}, "from is missing"),
        ({"mapper": "range", "from": 0, "to": 1}, "from is 0;"),
        ({"mapper": "range", "from": 1, "to": 1, "states": {}}, 'there is no field "states" here'),
    ],
)
def test_an_assign_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("assign", **script)
