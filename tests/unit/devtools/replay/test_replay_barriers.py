"""Barrier handlers replayed: scripts with known outcomes, and scripts that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.devtools.replay.replay_kit import error_of, replay

from snapline.devtools.replay.replay_barriers import MAX_CHANNELS


def told(step: dict[str, Any]) -> str:
    """One step as a line: the event, then all that came of it."""
    words = [step.pop("event")]
    for triggered in step.pop("triggered"):
        words.append(f"trigger {triggered['id']}" + " unaligned" * triggered["unaligned"])
    for aborted in step.pop("aborted"):
        words.append(f"abort {aborted['id']} {aborted['reason']}")
    if blocked := step.pop("blocked"):
        words.append("blocked " + " ".join(map(str, blocked)))
    if captured := step.pop("captured"):
        words.append(f"captured {captured}")
    assert step == {}
    return ", ".join(words)


def check(handler: str, channels: int, story: list[str], pending: object = None, **settings: Any) -> None:
    """Feed the events a story tells of and compare the whole story."""
    events = [line.split(",")[0] for line in story]
    outcome = replay("barriers", handler=handler, channels=channels, events=events, **settings)
    assert outcome.keys() == {"steps", "pending"}, outcome
    assert [told(step) for step in outcome["steps"]] == story
    assert outcome["pending"] == pending


ALIGNED_1_DONE = ["B1@0, blocked 0", "B1@1, blocked 0 1", "B1@2, trigger 1"]
UNALIGNED_1_DONE = ["B1@0, trigger 1 unaligned", "B1@1", "B1@2"]


def test_a2_channels_are_blocked_until_the_last_barrier() -> None:
    story = ["d@0", "d@2", "B1@1, blocked 1", "B1@2, blocked 1 2", "d@0, blocked 1 2", "B1@0, trigger 1"]
    check("aligned", 3, story)


def test_a4_newer_barriers_subsume_and_an_end_aborts_when_tasks_may_not_finish() -> None:
    story = [
        *ALIGNED_1_DONE,
        "B2@1, blocked 1",
        "d@2, blocked 1",
        "B2@0, blocked 0 1",
        "d@2, blocked 0 1",
        "B3@2, abort 2 SUBSUMED, blocked 2",
        "d@1, blocked 2",
        "d@0, blocked 2",
        "B3@0, blocked 0 2",
        "B4@1, abort 3 SUBSUMED, blocked 1",
        "d@1, blocked 1",
        "d@2, blocked 1",
        "E@0, abort 4 END_OF_STREAM",
    ]
    check("aligned", 3, story, finish=False)


def test_a5_a_newer_cancel_marker_silently_supersedes_what_is_pending() -> None:
    check("aligned", 2, ["B1@0, blocked 0", "X3@1, abort 3 CANCELLED", "X2@0", "X3@0", "d@0"])


def test_a7_an_ended_channel_counts_as_delivered() -> None:
    story = [*ALIGNED_1_DONE, "B2@2, blocked 2", "B2@0, blocked 0 2", "d@1, blocked 0 2", "E@1, trigger 2", "E@2"]
    check("aligned", 3, story)


def test_a12_late_barriers_of_an_aborted_checkpoint_are_ignored() -> None:
    story = [
        "d@0",
        "B1@1, blocked 1",
        "d@0, blocked 1",
        "X1@0, abort 1 CANCELLED",
        "d@1",
        "B2@1, blocked 1",
        "B1@2, blocked 1",
        "B2@0, blocked 0 1",
        "B2@2, trigger 2",
    ]
    check("aligned", 3, story)


def test_u1_only_data_ahead_of_a_missing_barrier_is_captured() -> None:
    story = ["d@0", "d@2", "d@0", "B1@1, trigger 1 unaligned", "B1@2", "d@2", "d@1", "d@0, captured [0]", "B1@0"]
    check("unaligned", 3, story)


def test_u7_an_ended_channel_completes_an_unaligned_checkpoint() -> None:
    story = [
        *UNALIGNED_1_DONE,
        "B2@2, trigger 2 unaligned",
        "B2@0",
        "d@0",
        "d@2",
        "d@1, captured [1]",
        "E@2",
    ]
    check("unaligned", 3, story, pending=2)
    check("unaligned", 3, [*story, "E@1"])


def test_u10_a_cancel_marker_may_come_before_or_after_the_trigger() -> None:
    story = [
        "B2@0, trigger 2 unaligned",
        "B2@2",
        "d@0",
        "X2@1, abort 2 CANCELLED",
        "B3@1, trigger 3 unaligned",
        "B3@2",
        "B3@0",
        "X4@1, abort 4 CANCELLED",
        "B4@2",
        "B4@0",
    ]
    check("unaligned", 3, story)


def test_x11_the_timer_turns_a_checkpoint_unaligned() -> None:
    check("alternating", 2, ["B1@0T, blocked 0", "t=101, trigger 1 unaligned, blocked 0"], pending=1, timeout_ms=100)


def test_x12_a_channel_stays_blocked_until_the_last_barrier_of_a_switched_checkpoint() -> None:
    story = ["A1@0", "B1@0T, blocked 0", "t=101, trigger 1 unaligned, blocked 0", "A1@1, blocked 0", "B1@1T"]
    check("alternating", 2, story, timeout_ms=100)


def test_x16_an_unaligned_barrier_turns_the_checkpoint_unaligned() -> None:
    story = [
        "A1@0",
        "B1@0T, blocked 0",
        "d@1, blocked 0",
        "d@1, blocked 0",
        "B1@1U, trigger 1 unaligned, blocked 0",
    ]
    check("alternating", 3, story, pending=1)
    check("alternating", 3, [*story, "d@2, blocked 0, captured [2]", "B1@2U"])


def test_k2_the_tracker_drops_what_a_newer_checkpoint_overtakes() -> None:
    story = ["B1@1", "B1@2", "B1@0, trigger 1", "B2@0", "B2@1", "B2@2, trigger 2"]
    check("tracker", 3, [*story, "B3@2", "B4@0", "B4@1", "B4@2, trigger 4"], pending=[])


def test_k8_an_end_completes_the_newest_that_waited_for_it_alone() -> None:
    story = ["B1@0", "B2@0", "B2@1", "B3@0", "B4@0", "B4@1", "B5@1", "E@2, trigger 4"]
    check("tracker", 3, story, pending=[5])


@pytest.mark.parametrize("handler", ["aligned", "alternating"])
def test_tasks_may_finish_unless_the_script_says_otherwise(handler: str) -> None:
    check(handler, 2, ["B1@0, blocked 0", "E@1, trigger 1"])
    check(handler, 2, ["B1@0, blocked 0", "E@1, abort 1 END_OF_STREAM"], finish=False)


def test_a_barrier_without_suffix_has_the_handlers_own_kind() -> None:
    check("alternating", 2, ["B1@0, blocked 0", "t=100, trigger 1 unaligned, blocked 0"], pending=1)
    check("alternating", 2, ["B1@0A, blocked 0", "t=100, blocked 0"], pending=1)
    check("unaligned", 2, ["B1@0A, trigger 1 unaligned, blocked 0", "B1@1U"])
    check("aligned", 2, ["B1@0T, blocked 0", "t=5000, blocked 0", "B1@1A, trigger 1"])
    check("tracker", 2, ["B1@0U", "B1@1U, trigger 1"], pending=[])


def test_timers_fire_only_when_they_are_let() -> None:
    fired = "trigger 1 unaligned, blocked 0"
    check("alternating", 2, ["B1@0, blocked 0", "t~100, blocked 0", "d@1, blocked 0", f"timers, {fired}"], pending=1)
    check("alternating", 2, ["B1@0, blocked 0", "t=99, blocked 0", "timers, blocked 0", f"t=100, {fired}"], pending=1)


def test_a_late_barrier_switches_without_the_timer() -> None:
    late = ["t~101, blocked 0", "B1@1, trigger 1 unaligned, blocked 0 1"]
    check("alternating", 3, ["B1@0, blocked 0", *late], pending=1)
    in_time = ["t~100, blocked 0", "B1@1, blocked 0 1"]
    check("alternating", 3, ["B1@0, blocked 0", *in_time], pending=1)


def test_creation_is_the_first_mention_unless_given() -> None:
    story = ["t=50", "B1@0, blocked 0", "t=149, blocked 0", "t=150, trigger 1 unaligned, blocked 0"]
    check("alternating", 2, story, pending=1)
    story = ["t=50", "B1@0, blocked 0", "t=99, blocked 0", "t=100, trigger 1 unaligned, blocked 0"]
    check("alternating", 2, story, pending=1, created={"1": 0})
    story = ["A1@0", "t~101", "B1@0, trigger 1 unaligned, blocked 0"]
    check("alternating", 2, story, pending=1)


def test_the_timer_of_a_finished_checkpoint_does_not_fire() -> None:
    check("alternating", 2, ["B1@0, blocked 0", "B1@1, trigger 1", "t=500", "B2@0, blocked 0"], pending=2)


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ("B1@3", "channel 3 does not exist: this subtask has 3"),
        ("d@3", "channel 3 does not exist: this subtask has 3"),
        ("E@17", "channel 17 does not exist"),
        ("A1@3", "channel 3 does not exist"),
        ("X1@3", "channel 3 does not exist"),
        ("B1@0U", "unaligned barrier 1 on channel 0, but this subtask only aligns"),
        ("t=4", "the clock is at 5 ms and cannot go back"),
        ("t~0", "the clock is at 5 ms and cannot go back"),
        ("d@2", "channel 2 has already ended"),
        ("B1@2", "channel 2 has already ended"),
        ("E@2", "channel 2 has already ended"),
    ],
)
def test_an_event_that_cannot_happen_is_an_error(event: str, complaint: str) -> None:
    error = error_of("barriers", handler="aligned", channels=3, events=["t=5", "E@2", event])
    assert error.startswith(f'events[2] is "{event}": ')
    assert complaint in error


NO_EVENTS = """
b1@0 B@0 B1 B1@ B-1@0 B1@-1 B1@0X B1@0AT B9999999999999999@0 A1@0T X1@0U X@1 d1@0 d@٣ d@0,d@1 E1@0
t= t=-1 t=1.5 t5 Timers
"""


@pytest.mark.parametrize(
    "event",
    [
        *NO_EVENTS.split(),
        "",
        "d@0 ",
        "d@0\n",
    ],
)
def test_an_event_that_is_no_event_is_an_error_that_says_what_is_one(event: str) -> None:
    error = error_of("barriers", handler="tracker", channels=3, events=[event])
    allowed = "d@c, Bn@c with an optional suffix A, T or U, Xn@c, E@c, An@c, t=ms, t~ms or timers"
    assert error == f"events[0] is {json.dumps(event)}: no such event; use {allowed}"


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "handler is missing; use one of aligned, unaligned, alternating, tracker"),
        ({"handler": "sideways"}, 'handler is "sideways"; use one of aligned,'),
        ({"handler": ["aligned"]}, 'handler is ["aligned"]; use one of aligned,'),
        ({"handler": "aligned"}, f"channels is missing; use a whole number from 1 to {MAX_CHANNELS}"),
        ({"handler": "aligned", "channels": 0}, "channels is 0;"),
        ({"handler": "aligned", "channels": -1}, "channels is -1;"),
        ({"handler": "aligned", "channels": True}, "channels is true;"),
        ({"handler": "aligned", "channels": "3"}, 'channels is "3";'),
        ({"handler": "aligned", "channels": 2.0}, "channels is 2.0;"),
        ({"handler": "aligned", "channels": MAX_CHANNELS + 1}, "channels is 32769;"),
        ({"handler": "aligned", "channels": 3}, "events is missing; use an array"),
        ({"handler": "aligned", "channels": 3, "events": "d@0"}, 'events is "d@0"; use an array'),
        ({"handler": "aligned", "channels": 3, "events": ["d@0", 7]}, "events[1] is 7; use a string"),
        ({"handler": "aligned", "channels": 3, "events": [], "finish": 1}, "finish is 1; use true or false"),
        ({"handler": "aligned", "channels": 3, "events": [], "finish": None}, "finish is null; use true or false"),
        ({"handler": "aligned", "channels": 3, "events": [], "timeout_ms": -1}, "timeout_ms is -1;"),
        ({"handler": "aligned", "channels": 3, "events": [], "created": [0]}, "created is [0];"),
        ({"handler": "aligned", "channels": 3, "events": [], "created": {"one": 0}}, 'created has the key "one";'),
        ({"handler": "aligned", "channels": 3, "events": [], "created": {"1": -5}}, "created.1 is -5;"),
        ({"handler": "aligned", "channels": 3, "events": [], "created": {"1": True}}, "created.1 is true;"),
        ({"handler": "aligned", "channels": 3, "events": [], "finsh": False}, 'there is no field "finsh" here; '),
    ],
)
def test_a_barriers_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("barriers", **script)
