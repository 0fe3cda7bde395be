"""Transition tables and the stories of machines."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pytest

from snapline.errors import MESSAGE_EVENTS, EngineError, IllegalTransitionError
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.machine import MAX_CHARACTERS, MAX_EFFECTS, STORY_EVENTS, Story, TransitionTable, recorded
from snapline.types import Barrier, ExecutionId, SnapshotKind, SubtaskId


class Door(Enum):
    OPEN = "OPEN"
    SHUT = "SHUT"
    GONE = "GONE"


DOOR = TransitionTable(
    "Door",
    "",
    Door.OPEN,
    [(Door.OPEN, "push", Door.SHUT), (Door.SHUT, "push", Door.OPEN), (Door.SHUT, "fire", Door.GONE)],
)


@dataclass(frozen=True, slots=True)
class Pushed:
    times: int


@dataclass(frozen=True, slots=True)
class Burnt:
    fuel: str | Door | Barrier | TriggerRequest | ExecutionId | None
    ashes: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Creak:
    volume: int


class Machine:
    def __init__(self) -> None:
        self.state = DOOR.initial
        self.story = Story()

    @recorded
    def handle(self, event: Pushed | Burnt) -> list[Creak]:
        if isinstance(event, Burnt):
            self.state = DOOR.step(self.state, "fire")
            return []
        for _ in range(event.times):
            self.state = DOOR.step(self.state, "push")
        return [Creak(volume) for volume in range(event.times)]


def test_the_table_drives() -> None:
    assert DOOR.step(Door.OPEN, "push") is Door.SHUT
    assert DOOR.step(Door.SHUT, "push") is Door.OPEN
    assert DOOR.final_states == {Door.GONE}


def test_a_missing_transition_names_machine_state_and_cause() -> None:
    with pytest.raises(IllegalTransitionError, match=r"^Door: no transition from OPEN on fire$") as caught:
        DOOR.step(Door.OPEN, "fire")
    assert (caught.value.machine, caught.value.state, caught.value.cause) == ("Door", "OPEN", "fire")


def test_a_cause_leads_to_one_state_only() -> None:
    with pytest.raises(EngineError, match="two transitions for the same cause"):
        TransitionTable("Door", "", Door.OPEN, [(Door.OPEN, "push", Door.SHUT), (Door.OPEN, "push", Door.GONE)])


def test_an_error_carries_the_story_of_its_machine_also_to_another_process() -> None:
    machine = Machine()
    machine.handle(Pushed(2))
    machine.handle(Pushed(0))
    with pytest.raises(IllegalTransitionError) as caught:
        machine.handle(Burnt("gas"))
    assert caught.value.story == ("Pushed(2) -> Creak(0), Creak(1)", "Pushed(0)", "Burnt('gas')")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert str(error) == (
            "Door: no transition from OPEN on fire. "
            "Last events: Pushed(2) -> Creak(0), Creak(1) | Pushed(0) | Burnt('gas')"
        )
        assert (error.story, error.state) == (caught.value.story, "OPEN")


def test_a_story_is_bounded_in_events_and_effects_and_its_message_is_shorter() -> None:
    machine = Machine()
    for times in range(40):
        machine.handle(Pushed(times * 2))
    with pytest.raises(EngineError) as caught:
        machine.handle(Burnt(None))
    story = caught.value.story
    assert len(story) == STORY_EVENTS
    assert story[-2].count("Creak") == MAX_EFFECTS
    assert story[-2].endswith(f", and {78 - MAX_EFFECTS} more")
    assert story[-MESSAGE_EVENTS] in str(caught.value)
    assert story[-MESSAGE_EVENTS - 1] not in str(caught.value)


def test_repeats_are_kept_once() -> None:
    machine = Machine()
    for _ in range(3):
        machine.handle(Pushed(2))
    with pytest.raises(EngineError) as caught:
        machine.handle(Burnt(None))
    assert caught.value.story == ("Pushed(2) -> Creak(0), Creak(1)", "Burnt(None)")


def test_the_story_of_an_inner_machine_stays() -> None:
    error = EngineError("broken")
    Story().tell(error, Pushed(1))
    Story().tell(error, Pushed(2))
    assert error.story == ("Pushed(1)",)


@pytest.mark.parametrize(
    ("fuel", "text"),
    [
        (Barrier(7, 0), "Barrier 7"),
        (TriggerRequest("r", SnapshotKind.CHECKPOINT, False, False, 0), "TriggerRequest r"),
        (ExecutionId(SubtaskId("map", 1), 2), "map/1#2"),
        (Door.OPEN, "OPEN"),
        (None, "None"),
        ("x" * 100, repr("x" * MAX_CHARACTERS + "…")),
    ],
)
def test_only_small_fields_are_kept_and_told(
    fuel: str | Door | Barrier | TriggerRequest | ExecutionId | None, text: str
) -> None:
    ashes = {"big": bytes(10)}
    before = sys.getrefcount(ashes)
    story, error = Story(), EngineError("broken")
    story.add(Burnt(fuel, ashes), [])
    assert sys.getrefcount(ashes) == before
    story.tell(error, Pushed(1))
    assert error.story == (f"Burnt({text})", "Pushed(1)")
