"""What the subtask's events assume when a shell leaves a field out."""

from __future__ import annotations

from snapline.errors import EngineError
from snapline.protocol.machine import Story
from snapline.protocol.messages import CheckpointCompleted, TriggerCheckpoint
from snapline.protocol.subtask.subtask_events import DataEnded, TakeSnapshot
from snapline.types import NO_CHECKPOINT, Barrier, ExecutionId, SubtaskId

ME = ExecutionId(SubtaskId("map", 1), 3)


def test_any_checkpoint_may_be_the_last_unless_upstream_says_otherwise() -> None:
    assert DataEnded().final_from == 0
    assert not TakeSnapshot(Barrier(1, 0)).ended


def test_a_completion_may_subsume_nothing() -> None:
    assert CheckpointCompleted(ME, 7).subsumed_id == NO_CHECKPOINT


def test_a_story_names_the_checkpoint_of_a_barrier() -> None:
    error = EngineError("broken")
    Story().tell(error, TriggerCheckpoint(ME, Barrier(7, 0)))
    assert error.story == ("TriggerCheckpoint(map/1#3, Barrier 7)",)
