"""Which tasks run, as far as the coordinator knows."""

from __future__ import annotations

import pytest

from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlan, Edge, PlanFailure
from snapline.protocol.coordinator.task_board import JobShape, TaskBoard
from snapline.protocol.snapshot import VertexInfo
from snapline.types import SubtaskId, TaskStatus

READ, WRITE = SubtaskId("read", 0), SubtaskId("write", 0)
SHAPE = JobShape(
    (VertexInfo("read", 1, 128, ("read",), ("read",)), VertexInfo("write", 1, 128, ("write",))),
    (Edge("read", "write", False),),
    ("hook", "other", "hook"),
)


def running() -> TaskBoard:
    board = TaskBoard(SHAPE, allow_finished=True)
    for subtask in (READ, WRITE):
        board.update(subtask, TaskStatus.RUNNING)
    return board


def test_of_two_hooks_with_one_name_the_second_is_ignored() -> None:
    assert SHAPE.hooks == ("hook", "other")
    assert list(SHAPE.coordinators()) == ["read"]


def test_a_checkpoint_waits_for_every_task_to_run() -> None:
    board = TaskBoard(SHAPE, allow_finished=True)
    board.update(READ, TaskStatus.RUNNING)
    plan = board.plan()
    assert isinstance(plan, PlanFailure)
    assert plan.subtasks == (WRITE,)
    board.update(WRITE, TaskStatus.RUNNING)
    assert isinstance(board.plan(), CheckpointPlan)


@pytest.mark.parametrize("late", [TaskStatus.RUNNING, TaskStatus.DEPLOYING])
def test_a_finished_task_stays_finished_whatever_comes_late(late: TaskStatus) -> None:
    board = running()
    board.update(READ, TaskStatus.FINISHED)
    board.update(READ, late)
    assert not board.is_running(READ)
    plan = board.plan()
    assert isinstance(plan, CheckpointPlan)
    assert plan.trigger == plan.wait == (WRITE,)


def test_a_task_that_failed_no_longer_runs() -> None:
    board = running()
    board.update(WRITE, TaskStatus.FAILED)
    assert not board.is_running(WRITE)
    assert isinstance(board.plan(), PlanFailure)


def test_there_is_no_checkpoint_of_nothing() -> None:
    plan = TaskBoard(SHAPE, allow_finished=True, finished=[READ, WRITE]).plan()
    assert isinstance(plan, PlanFailure)
    assert plan.message == "every task has finished"
