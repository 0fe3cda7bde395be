"""Timers and the text of the coordinator's events in stories."""

from __future__ import annotations

from snapline.errors import EngineError
from snapline.protocol.coordinator.coordinator_events import (
    CancelTimer,
    CoordinatorEffect,
    CoordinatorEvent,
    SetTimer,
    Timer,
    TimerKind,
    WriteMetadata,
)
from snapline.protocol.machine import Story
from snapline.protocol.messages import Acknowledge
from snapline.protocol.snapshot import Snapshot, SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.types import ExecutionId, SnapshotKind, SubtaskId


def shown(fact: CoordinatorEvent | CoordinatorEffect) -> str:
    error = EngineError("broken")
    Story().tell(error, fact)
    return error.story[0]


def test_a_timer_is_known_by_its_kind_and_request() -> None:
    assert Timer(TimerKind.TIMEOUT, "a") == SetTimer(Timer(TimerKind.TIMEOUT, "a"), 1_000).timer
    assert Timer(TimerKind.TIMEOUT, "a") != Timer(TimerKind.TIMEOUT, "b")
    assert shown(CancelTimer(Timer(TimerKind.TIMEOUT, "a"))) == "CancelTimer(TIMEOUT a)"
    assert shown(CancelTimer(Timer(TimerKind.PERIODIC))) == "CancelTimer(PERIODIC)"


def test_a_story_keeps_the_id_of_a_snapshot_and_leaves_state_out() -> None:
    execution = ExecutionId(SubtaskId("map", 1), 3)
    acknowledged = Acknowledge(execution, 7, {"map": SubtaskState()}, SubtaskMetrics())
    assert shown(acknowledged) == "Acknowledge(map/1#3, 7, SubtaskMetrics)"
    snapshot = Snapshot(7, SnapshotKind.CHECKPOINT, 3, 1_000, "chk-7", {})
    assert shown(WriteMetadata(snapshot)) == "WriteMetadata(7)"
