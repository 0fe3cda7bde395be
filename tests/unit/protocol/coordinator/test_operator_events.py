"""Events to subtasks and from them: in order, and never on the wrong side of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator import operator_events
from snapline.protocol.coordinator.coordinator_state import InFlightEvent
from snapline.protocol.coordinator.operator_events import MAX_UNCONFIRMED_EVENTS, OperatorEvents
from snapline.protocol.executions import Executions
from snapline.protocol.messages import EventToCoordinator, OperatorEvent
from snapline.protocol.snapshot import VertexInfo
from snapline.types import ExecutionId, SubtaskId

TARGET = ExecutionId(SubtaskId("v", 0), 3)
VERTICES = {"read": VertexInfo("v", 2, 128, ("read",)), "other": VertexInfo("w", 1, 128, ("other",))}


def events() -> OperatorEvents:
    made = OperatorEvents(Executions(3), VERTICES)
    for vertex in VERTICES.values():
        for subtask in vertex.subtasks():
            made.started(subtask)
    return made


def names(orders: Sequence[Any]) -> list[str]:
    return [order.event for order in orders]


def test_the_next_event_for_a_subtask_waits_for_the_one_before() -> None:
    sent = events()
    assert sent.send("read", 0, "a") == [OperatorEvent(TARGET, "read", 0, "a")]
    assert sent.send("read", 0, "b") == []
    assert sent.send("read", 0, "c") == []
    assert sent.confirmed(0) == [OperatorEvent(TARGET, "read", 1, "b")]
    assert names(sent.confirmed(1)) == ["c"]
    assert sent.confirmed(2) == []
    assert names(sent.send("read", 0, "d")) == ["d"]


def test_subtasks_and_operators_do_not_wait_for_each_other() -> None:
    sent = events()
    sent.send("read", 0, "a")
    assert names(sent.send("read", 1, "b")) == ["b"]
    assert names(sent.send("other", 0, "c")) == ["c"]


def test_a_confirmation_that_comes_again_or_that_nobody_waits_for_changes_nothing() -> None:
    sent = events()
    sent.send("read", 0, "a")
    sent.send("read", 0, "b")
    assert names(sent.confirmed(0)) == ["b"]
    assert sent.confirmed(0) == []
    assert sent.confirmed(9) == []
    assert (sent.lost(0), sent.lost(9)) == ([], [])
    assert sent.lost(1) == [c.FailJob("operator event 1 did not reach its subtask", "v")]


def test_what_was_held_back_leaves_one_at_a_time_too() -> None:
    sent = events()
    sent.snapshotted("read", 1)
    assert sent.send("read", 0, "a") == []
    assert sent.send("read", 0, "b") == []
    (order,) = sent.acknowledged("read", 0, 1)
    assert order.event == "a"
    assert names(sent.confirmed(order.sequence)) == ["b"]


def test_a_checkpoint_that_is_over_releases_the_events_of_all_operators() -> None:
    sent = events()
    sent.snapshotted("read", 1)
    sent.snapshotted("other", 1)
    sent.send("other", 0, "x")
    sent.send("read", 1, "b")
    sent.send("read", 0, "a")
    assert names(sent.released(1)) == ["a", "b", "x"]


def test_a_snapshot_covers_what_its_own_operator_has_sent_and_is_not_known_to_have_arrived() -> None:
    sent = events()
    sent.send("read", 0, "arrived")
    sent.send("read", 0, "on its way")
    sent.send("read", 0, "behind it")
    sent.send("other", 0, "of another operator")
    sent.confirmed(0)
    assert sent.snapshotted("read", 1) == {1, 2}


def test_a_snapshot_covers_what_an_earlier_checkpoint_still_holds_back() -> None:
    sent = events()
    assert sent.snapshotted("read", 1) == set()
    sent.send("read", 0, "held by 1")
    assert sent.snapshotted("read", 2) == {0}
    assert names(sent.acknowledged("read", 0, 1)) == ["held by 1"]


def test_events_wait_until_their_subtask_runs() -> None:
    sent = OperatorEvents(Executions(3), VERTICES)
    assert sent.send("read", 0, "a") == []
    assert sent.send("read", 0, "b") == []
    assert sent.started(SubtaskId("v", 1)) == []
    assert names(sent.started(SubtaskId("v", 0))) == ["a"]
    assert sent.started(SubtaskId("v", 0)) == [], "a report that comes again"
    assert names(sent.confirmed(0)) == ["b"]


def test_events_for_a_subtask_that_has_finished_are_dropped() -> None:
    sent = events()
    sent.snapshotted("read", 1)
    sent.send("read", 0, "held")
    sent.send("read", 1, "for another")
    sent.acknowledged("read", 0, 1)
    sent.send("read", 0, "behind it")
    assert sent.finished(SubtaskId("v", 0)) == [0, 2]
    assert sent.send("read", 0, "late") == []
    assert (sent.confirmed(0), sent.lost(2)) == ([], [])
    assert names(sent.released(1)) == ["for another"]
    finished = OperatorEvents(Executions(3), VERTICES, [SubtaskId("v", 0)])
    assert finished.send("read", 0, "to one that had finished") == []


def test_too_many_events_fail_the_job() -> None:
    sent = OperatorEvents(Executions(3), VERTICES)
    for number in range(MAX_UNCONFIRMED_EVENTS):
        assert sent.send("read", 0, number) == []
    (failure,) = sent.send("other", 0, "one more")
    assert isinstance(failure, c.FailJob)
    assert "10000 events of coordinators wait for their subtasks, the last of 'other'" in failure.cause


def report(event: bytes, after: int | None, *, attempt: int = 3) -> EventToCoordinator:
    return EventToCoordinator(ExecutionId(SubtaskId("v", 1), attempt), "read", after, event)


def test_a_checkpoint_keeps_events_that_were_sent_before_its_barrier_and_handled_after_the_snapshot() -> None:
    sent = events()
    assert sent.received(report(b"before", -1)) == [c.DeliverEvent("read", 1, b"before")]
    sent.keep(4)
    sent.received(report(b"kept", -1))
    sent.received(report(b"behind the barrier", 4))
    sent.received(report(b"asked again", None))
    assert sent.received(report(b"of another attempt", -1, attempt=2)) == []
    assert sent.in_flight(4) == {"read": [InFlightEvent(1, b"kept")], "other": []}
    sent.released(4)
    assert sent.in_flight(4) == {}


def test_each_checkpoint_keeps_its_own_events() -> None:
    sent = events()
    sent.keep(4)
    sent.received(report(b"before both", 3))
    sent.keep(5)
    sent.received(report(b"late", 3))
    sent.received(report(b"between", 4))
    assert sent.in_flight(4)["read"] == [InFlightEvent(1, b"before both"), InFlightEvent(1, b"late")]
    assert sent.in_flight(5)["read"] == [InFlightEvent(1, b"late"), InFlightEvent(1, b"between")]


def test_a_checkpoint_does_not_keep_events_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_events, "MAX_KEPT_BYTES", 5)
    sent = events()
    sent.keep(4)
    assert sent.received(report(b"12345", 3)) == [c.DeliverEvent("read", 1, b"12345")]
    (failure,) = sent.received(report(b"6", 3))
    assert isinstance(failure, c.FailJob)
    assert "checkpoint 4 has to keep more than 5 bytes of events" in failure.cause
    assert sent.received(report(b"6", 4)) == [c.DeliverEvent("read", 1, b"6")]
