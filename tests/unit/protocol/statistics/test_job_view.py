"""A job as outsiders see it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from tests.unit.protocol.statistics.view_kit import plan_of, task_of, view_of

from snapline.protocol.statistics.job_health import HEALTHY

PLAN = plan_of({"source": 1, "counts": 2, "sink": 1}, ("source", "counts"), ("counts", "sink"))


def test_a_plan_knows_its_vertices_and_their_neighbours() -> None:
    counts = PLAN.vertex("counts")
    assert counts is not None
    assert (counts.parallelism, counts.is_source, counts.is_sink) == (2, False, False)
    assert PLAN.vertex("other") is None
    assert (PLAN.upstream("counts"), PLAN.downstream("counts")) == (("source",), ("sink",))
    assert (PLAN.upstream("source"), PLAN.downstream("sink")) == ((), ())


def test_a_vertex_is_what_its_first_and_last_operators_are() -> None:
    source, _, sink = PLAN.vertices
    assert (source.is_source, source.is_sink, sink.is_source, sink.is_sink) == (True, False, False, True)


def test_the_subtasks_of_a_vertex() -> None:
    tasks = task_of("source"), task_of("counts", 0), task_of("counts", 1)
    view = view_of(PLAN, *tasks)
    assert view.subtasks_of("counts") == tasks[1:]
    assert view.subtasks_of("other") == ()


def test_a_view_is_immutable_and_healthy_unless_somebody_judged_it() -> None:
    view = view_of(PLAN)
    assert (view.health, view.is_live, view.interval_ms) == (HEALTHY, True, None)
    with pytest.raises(FrozenInstanceError):
        view.name = "other"  # type: ignore[misc]
