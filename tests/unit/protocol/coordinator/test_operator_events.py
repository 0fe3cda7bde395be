"""Events to subtasks: one at a time for each, in order, and never on the wrong side of a checkpoint."""

from __future__ import annotations

from snapline.protocol.coordinator.operator_events import OperatorEvents
from snapline.protocol.messages import OperatorEvent
from snapline.protocol.snapshot import VertexInfo
from snapline.types import ExecutionId, SubtaskId

TARGET = ExecutionId(SubtaskId("v", 0), 3)


def events() -> OperatorEvents:
    return OperatorEvents(3, {"read": VertexInfo("v", 2, 128, ("read",)), "other": VertexInfo("w", 1, 128, ("other",))})


def names(orders: list[OperatorEvent]) -> list[str]:
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
    assert (sent.is_unconfirmed(0), sent.is_unconfirmed(1), sent.is_unconfirmed(9)) == (False, True, False)


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
