"""What a coordinator hands to the next when only some regions restart."""

from __future__ import annotations

from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.attempt_tasks import AttemptTasks
from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlan
from snapline.protocol.coordinator.notices import Notices
from snapline.protocol.coordinator.task_board import JobShape
from snapline.protocol.messages import CheckpointCompleted, EventToCoordinator, OperatorEvent
from snapline.protocol.snapshot import VertexInfo
from snapline.types import NO_CHECKPOINT, ExecutionId, SubtaskId, TaskStatus

A, B = SubtaskId("a", 0), SubtaskId("b", 0)
SHAPE = JobShape((VertexInfo("a", 1, 128, ("a",), ("a",)), VertexInfo("b", 1, 128, ("b",), ("b",))), ())


def running(restored_id: int = NO_CHECKPOINT) -> AttemptTasks:
    tasks = AttemptTasks(1, SHAPE, allow_finished=True, restored_id=restored_id)
    for subtask in (A, B):
        tasks.board.update(subtask, TaskStatus.RUNNING)
        tasks.events.started(subtask)
    return tasks


def told(tasks: AttemptTasks) -> list[c.CoordinatorEffect]:
    """What is told once all tasks run again."""
    effects: list[c.CoordinatorEffect] = []
    Notices(tasks, effects).running()
    return effects


def test_no_checkpoint_starts_before_the_region_runs_again() -> None:
    tasks = running()
    tasks.restarted(2, {"a"}, (), NO_CHECKPOINT)
    assert not isinstance(tasks.board.plan(), CheckpointPlan)
    assert tasks.board.is_running(B)
    tasks.board.update(A, TaskStatus.RUNNING)
    assert isinstance(tasks.board.plan(), CheckpointPlan)


def test_subtasks_that_had_finished_since_the_checkpoint_run_again_with_their_region_only() -> None:
    tasks = running()
    for subtask in (A, B):
        tasks.board.update(subtask, TaskStatus.FINISHED)
        tasks.events.finished(subtask)
    tasks.restarted(2, {"a"}, (), 5)
    tasks.board.update(A, TaskStatus.RUNNING)
    plan = tasks.board.plan()
    assert isinstance(plan, CheckpointPlan)
    assert (plan.wait, plan.finished_subtasks) == ((A,), (B,))
    assert tasks.events.send("b", 0, "too late") == []


def test_what_the_snapshot_knows_as_finished_stays_so() -> None:
    tasks = running()
    tasks.restarted(2, {"a"}, [A], 5)
    plan = tasks.board.plan()
    assert isinstance(plan, CheckpointPlan)
    assert plan.finished_subtasks == (A,)


def test_messages_of_the_old_execution_count_no_more_and_others_still_do() -> None:
    tasks = running()
    tasks.restarted(2, {"a"}, (), NO_CHECKPOINT)
    assert tasks.events.received(EventToCoordinator(ExecutionId(A, 1), "a", 0, b"old")) == []
    new = EventToCoordinator(ExecutionId(A, 2), "a", 0, b"new")
    other = EventToCoordinator(ExecutionId(B, 1), "b", 0, b"other")
    assert tasks.events.received(new) == [c.DeliverEvent("a", 0, b"new")]
    assert tasks.events.received(other) == [c.DeliverEvent("b", 0, b"other")]


def test_events_on_their_way_to_the_region_are_forgotten_and_others_are_not() -> None:
    tasks = running()
    tasks.events.send("a", 0, "lost with the region")
    (first,) = tasks.events.send("b", 0, "first")
    assert tasks.events.send("b", 0, "second") == []
    tasks.restarted(2, {"a"}, (), NO_CHECKPOINT)
    assert tasks.events.send("a", 0, "again") == [], "it waits until the subtask runs"
    (again,) = tasks.events.started(A)
    assert again == OperatorEvent(ExecutionId(A, 2), "a", 3, "again")
    assert not tasks.events.is_expected(0, 1)
    assert not tasks.events.is_expected(3, 1)
    assert tasks.events.is_expected(3, 2)
    assert isinstance(first, OperatorEvent)
    assert tasks.events.is_expected(first.sequence, 1)
    assert [event.event for event in tasks.events.confirmed(first.sequence)] == ["second"]


def test_who_goes_on_hears_of_a_checkpoint_that_became_canonical_at_the_failure() -> None:
    tasks = running()
    tasks.last_completed = (3, 2, (A, B))
    tasks.restarted(2, {"a"}, (), 4)
    tasks.board.update(A, TaskStatus.RUNNING)
    assert told(tasks) == [
        c.NotifyCoordinatorsCompleted(4, NO_CHECKPOINT),
        CheckpointCompleted(ExecutionId(B, 1), 4, NO_CHECKPOINT),
    ]
    assert told(tasks) == [], "once"


def test_a_checkpoint_that_all_know_is_no_news() -> None:
    tasks = running()
    tasks.last_completed = (3, 2, (A, B))
    tasks.restarted(2, {"a"}, (), 3)
    tasks.board.update(A, TaskStatus.RUNNING)
    assert told(tasks) == []
    effects: list[c.CoordinatorEffect] = []
    Notices(tasks, effects).repeat()
    assert effects == [CheckpointCompleted(ExecutionId(B, 1), 3, 2)], "who was restored from it is not told of it"
    tasks = running(restored_id=3)
    tasks.restarted(2, {"a"}, (), 3)
    assert told(tasks) == []
    assert tasks.last_completed is None
