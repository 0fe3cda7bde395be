"""Notices: tasks hear of the last completed checkpoint until they are gone, coordinators once."""

from __future__ import annotations

from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.attempt_tasks import AttemptTasks
from snapline.protocol.coordinator.notices import Notices
from snapline.protocol.coordinator.task_board import JobShape, TaskBoard
from snapline.protocol.messages import CheckpointAborted, CheckpointCompleted
from snapline.protocol.snapshot import VertexInfo
from snapline.types import ExecutionId, SubtaskId, TaskStatus

ONE, TWO = SubtaskId("v", 0), SubtaskId("v", 1)


def setup() -> tuple[Notices, TaskBoard, list[c.CoordinatorEffect]]:
    tasks = AttemptTasks(3, JobShape((VertexInfo("v", 2, 128, ("v",)),), ()), allow_finished=True)
    board = tasks.board
    for subtask in (ONE, TWO):
        board.update(subtask, TaskStatus.RUNNING)
    effects: list[c.CoordinatorEffect] = []
    return Notices(tasks, effects), board, effects


def test_a_completed_checkpoint_is_told_once_to_coordinators_and_again_to_tasks_that_run() -> None:
    notices, board, effects = setup()
    notices.repeat()
    assert effects == []
    notices.completed(7, 5, [ONE, TWO])
    assert effects == [
        c.NotifyCoordinatorsCompleted(7, 5),
        CheckpointCompleted(ExecutionId(ONE, 3), 7, 5),
        CheckpointCompleted(ExecutionId(TWO, 3), 7, 5),
    ]
    effects.clear()
    board.update(ONE, TaskStatus.FINISHED)
    notices.repeat()
    assert effects == [CheckpointCompleted(ExecutionId(TWO, 3), 7, 5)]


def test_an_aborted_checkpoint_is_told_to_all() -> None:
    notices, _, effects = setup()
    notices.aborted(8, [TWO])
    assert effects == [c.NotifyCoordinatorsAborted(8), CheckpointAborted(ExecutionId(TWO, 3), 8)]
