"""The event gate: an operator coordinator's events wait until their subtask has reached the checkpoint."""

from __future__ import annotations

from snapline.protocol.coordinator.event_gate import Delivery, EventGate


def events(deliveries: list[Delivery]) -> list[str]:
    return [delivery.event for delivery in deliveries]


def test_an_open_gate_lets_events_pass_at_once() -> None:
    gate = EventGate(2)
    assert gate.send(1, "a") == [Delivery(1, "a")]


def test_a_closed_gate_holds_events_until_their_subtask_acknowledges() -> None:
    gate = EventGate(2)
    gate.close(1)
    assert gate.send(0, "a") == []
    assert gate.send(1, "b") == []
    assert gate.acknowledged(0, 1) == [Delivery(0, "a")]
    assert gate.send(0, "c") == [Delivery(0, "c")]
    assert gate.send(1, "d") == []
    assert gate.acknowledged(1, 1) == [Delivery(1, "b"), Delivery(1, "d")]


def test_events_are_released_in_the_order_in_which_they_were_sent() -> None:
    gate = EventGate(1)
    gate.close(1)
    for event in "abcde":
        gate.send(0, event)
    assert events(gate.acknowledged(0, 1)) == list("abcde")


def test_an_abort_or_completion_releases_every_subtask() -> None:
    gate = EventGate(3)
    gate.close(1)
    gate.send(2, "c")
    gate.send(0, "a")
    assert gate.released(1) == [Delivery(0, "a"), Delivery(2, "c")]
    assert gate.send(1, "b") == [Delivery(1, "b")]


def test_with_several_checkpoints_an_event_waits_for_all_it_was_blocked_by() -> None:
    gate = EventGate(1)
    gate.close(1)
    gate.send(0, "a")
    gate.close(2)
    gate.send(0, "b")
    assert events(gate.acknowledged(0, 1)) == ["a"]
    assert gate.send(0, "c") == []
    assert events(gate.acknowledged(0, 2)) == ["b", "c"]
    assert events(gate.send(0, "d")) == ["d"]


def test_the_newer_checkpoint_may_be_released_first() -> None:
    gate = EventGate(1)
    gate.close(1)
    gate.send(0, "a")
    gate.close(2)
    gate.send(0, "b")
    assert gate.released(2) == []
    assert gate.send(0, "c") == []
    assert events(gate.acknowledged(0, 1)) == ["a", "b", "c"]


def test_an_event_never_overtakes_one_that_is_still_held() -> None:
    gate = EventGate(1)
    gate.close(1)
    gate.close(2)
    gate.send(0, "both")
    assert gate.released(2) == []
    gate.send(0, "only the first")
    gate.close(3)
    gate.send(0, "first and third")
    assert events(gate.acknowledged(0, 1)) == ["both", "only the first"]
    assert events(gate.acknowledged(0, 3)) == ["first and third"]


def test_an_unknown_or_repeated_release_changes_nothing() -> None:
    gate = EventGate(1)
    gate.close(2)
    gate.send(0, "a")
    assert gate.acknowledged(0, 1) == []
    assert gate.released(3) == []
    assert events(gate.acknowledged(0, 2)) == ["a"]
    assert gate.acknowledged(0, 2) == []
    assert gate.released(2) == []
