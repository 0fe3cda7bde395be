"""The replay tool: scripts with known outcomes, and lines that are not understood."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from typing import Any

import pytest

from snapline.devtools.replay.replay_barriers import MAX_CHANNELS
from snapline.devtools.replay.replay_command import EXAMPLES, KINDS, answer, main


def replay(kind: str, **script: Any) -> dict[str, Any]:
    answered: dict[str, Any] = json.loads(answer(kind, json.dumps({"id": "x", **script})))
    assert answered.pop("id") == "x"
    return answered


def error_of(kind: str, **script: Any) -> str:
    answered = replay(kind, **script)
    assert list(answered) == ["error"]
    return str(answered["error"])


# --- barriers --------------------------------------------------------------------------------------------------------


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


# --- decider ---------------------------------------------------------------------------------------------------------


def offer(name: str, **settings: Any) -> dict[str, Any]:
    surroundings = {
        key: settings.pop(key) for key in ("triggering", "pending", "now", "last_completed") & settings.keys()
    }
    return {"request": {"name": name, **settings}, **surroundings}


def decided(
    chosen: str | None = None,
    failed: dict[str, str] | None = None,
    queued: tuple[str, ...] = (),
    retry_in_ms: int | None = None,
) -> dict[str, Any]:
    return {
        "chosen": chosen,
        "failed": [{"name": name, "reason": reason} for name, reason in (failed or {}).items()],
        "queued": list(queued),
        "retry_in_ms": retry_in_ms,
    }


def test_d6_a_forced_savepoint_goes_before_a_periodic_checkpoint() -> None:
    steps = [
        offer("c", triggering=True),
        offer("s", type="savepoint", forced=True, periodic=False, triggering=True),
        {"poll": True},
        {"poll": True},
    ]
    assert replay("decider", steps=steps)["steps"] == [
        decided(queued=("c",)),
        decided(queued=("s", "c")),
        decided(chosen="s", queued=("c",)),
        decided(chosen="c"),
    ]


def test_d9_the_last_in_order_does_not_fit() -> None:
    names = [f"r{i}" for i in range(11)]
    steps = [offer(name, triggering=True, now=now) for now, name in enumerate(names)]
    outcomes = replay("decider", max_queued=10, steps=steps)["steps"]
    assert outcomes[:10] == [decided(queued=tuple(names[: i + 1])) for i in range(10)]
    assert outcomes[10] == decided(failed={"r10": "TOO_MANY_CHECKPOINT_REQUESTS"}, queued=tuple(names[:10]))


@pytest.mark.parametrize("now", [0, 100])
def test_d12_a_periodic_request_within_the_pause_fails(now: int) -> None:
    outcome = replay("decider", min_pause_ms=10, steps=[offer("r", now=now, last_completed=now)])
    assert outcome == {"steps": [decided(failed={"r": "MINIMUM_TIME_BETWEEN_CHECKPOINTS"}, retry_in_ms=10)]}


def test_a_request_is_a_periodic_checkpoint_and_its_surroundings_are_idle_unless_said_otherwise() -> None:
    assert replay("decider", steps=[offer("r")]) == {"steps": [decided(chosen="r")]}
    waits = replay("decider", steps=[offer("r", pending=1), {"poll": True, "cleaning": 2}])
    assert waits == {"steps": [decided(queued=("r",))] * 2}
    explicit = {"triggering": False, "pending": 0, "cleaning": 0, "now": 0, "last_completed": None}
    assert replay("decider", steps=[{**offer("r"), **explicit}]) == {"steps": [decided(chosen="r")]}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "steps is missing; use an array"),
        ({"steps": [[]]}, "steps[0] is []; use a JSON object"),
        ({"steps": [{}]}, 'steps[0].request: a step has either a request or "poll": true'),
        ({"steps": [{"poll": False}]}, "a step has either"),
        ({"steps": [{"poll": True, "request": {"name": "r"}}]}, "a step has either"),
        ({"steps": [{"request": "r1"}]}, 'steps[0].request is "r1"; use a JSON object'),
        ({"steps": [{"request": {}}]}, "steps[0].request.name is missing; use a string"),
        ({"steps": [offer("r", type="snapshot")]}, 'request.type is "snapshot"; use one of checkpoint, savepoint'),
        ({"steps": [offer("r", forced="no")]}, 'request.forced is "no"; use true or false'),
        ({"steps": [offer("r"), {"poll": True, "now": -1}]}, "steps[1].now is -1; use a whole number from 0 on"),
        ({"steps": [offer("r", last_completed="-")]}, "use a whole number from 0 on or null"),
        ({"steps": [{"poll": True, "cleaned": 1}]}, 'there is no field "steps[0].cleaned" here; there are cleaning,'),
        ({"steps": [], "max_queued": 0}, "max_queued is 0; use a whole number from 1 on"),
        ({"steps": [], "max_concurrent": 0}, "max_concurrent is 0; use a whole number from 1 on"),
        ({"steps": [], "min_pause_ms": None}, "min_pause_ms is null; use a whole number from 0 on"),
    ],
)
def test_a_decider_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("decider", **script)


# --- failures --------------------------------------------------------------------------------------------------------


def test_f2_an_ignored_reason_neither_counts_nor_ends_the_run() -> None:
    events = [{"fail": 1}, {"fail": 2}, {"fail": 3, "reason": "JOB_FAILOVER_REGION"}, {"fail": 4}]
    assert replay("failures", tolerable=2, events=events) == {"job_failed": [3]}


def test_f4_an_id_counts_once() -> None:
    events = [{"fail": 1}, {"fail": 2}, {"fail": 3, "reason": "JOB_FAILOVER_REGION"}, {"fail": 2}]
    assert replay("failures", tolerable=2, events=events) == {"job_failed": []}


def test_fields_of_failures_that_are_left_out() -> None:
    shown = {"reason": "CHECKPOINT_DECLINED", "savepoint": False, "synchronous": False, "from_task": True}
    for defaults in ({}, shown):
        events: list[dict[str, Any]] = [{"fail": i, **defaults} for i in (1, 2, 3)]
        assert replay("failures", events=events) == {"job_failed": [2]}
        assert replay("failures", tolerable=2, events=events) == {"job_failed": [2]}


def test_who_failed_and_how() -> None:
    stop = {"fail": 1, "savepoint": True, "synchronous": True}
    assert replay("failures", events=[stop]) == {"job_failed": [0]}
    assert replay("failures", tolerable=None, events=[stop]) == {"job_failed": [0]}
    assert replay("failures", tolerable=0, events=[{**stop, "from_task": False}]) == {"job_failed": []}
    assert replay("failures", tolerable=None, events=[{"fail": i} for i in range(9)]) == {"job_failed": []}
    assert replay("failures", tolerable=1, events=[{"fail": -1}, {"fail": -1}]) == {"job_failed": [1]}
    assert replay("failures", tolerable=1, events=[{"fail": 1}, {"complete": 2}, {"fail": 3}]) == {"job_failed": []}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "events is missing; use an array"),
        ({"events": [], "tolerable": -1}, "tolerable is -1; use a whole number from 0 on or null"),
        ({"events": [{}]}, "events[0].fail: an event has either fail or complete"),
        ({"events": [{"fail": 1, "complete": 1}]}, "an event has either fail or complete"),
        ({"events": [{"fail": -2}]}, "events[0].fail is -2; use a whole number from -1 on"),
        ({"events": [{"fail": "1"}]}, 'events[0].fail is "1";'),
        ({"events": [{"complete": -1}]}, "events[0].complete is -1;"),
        ({"events": [{"fail": 1, "reason": "BAD_LUCK"}]}, 'reason is "BAD_LUCK"; use one of PERIODIC_SCHEDULER_SHUTD'),
        ({"events": [{"fail": 1, "from_task": 0}]}, "events[0].from_task is 0; use true or false"),
        ({"events": [{"complete": 1, "reason": "IO_EXCEPTION"}]}, 'there is no field "events[0].reason" here'),
    ],
)
def test_a_failures_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("failures", **script)


# --- plan ------------------------------------------------------------------------------------------------------------


V0_PARTLY_FINISHED = {"id": "v0", "parallelism": 4, "finished": [0, 1]}
V1 = {"id": "v1", "parallelism": 4}


def test_l3_a_subtask_whose_own_inputs_have_finished_is_triggered() -> None:
    outcome = replay("plan", vertices=[V0_PARTLY_FINISHED, V1], edges=[["v0", "v1", "pointwise"]])
    assert outcome == {
        "trigger": {"v0": [2, 3], "v1": [0, 1]},
        "wait": {"v0": [2, 3], "v1": [0, 1, 2, 3]},
        "error": None,
    }


def test_vertices_without_subtasks_in_the_plan_are_left_out() -> None:
    all_to_all = [["v0", "v1", "all"]]
    outcome = replay("plan", vertices=[V0_PARTLY_FINISHED, V1], edges=all_to_all)
    assert outcome == {"trigger": {"v0": [2, 3]}, "wait": {"v0": [2, 3], "v1": [0, 1, 2, 3]}, "error": None}
    gone = {"id": "v0", "parallelism": 1, "finished": [0]}
    outcome = replay("plan", vertices=[gone, {"id": "v1", "parallelism": 1}], edges=all_to_all)
    assert outcome == {"trigger": {"v1": [0]}, "wait": {"v1": [0]}, "error": None}


def test_no_plan_while_a_subtask_does_not_run() -> None:
    no_plan = {"trigger": {}, "wait": {}, "error": "NOT_ALL_REQUIRED_TASKS_RUNNING"}
    assert replay("plan", vertices=[V1], edges=[], not_running=[["v1", 2]]) == no_plan
    assert replay("plan", vertices=[V0_PARTLY_FINISHED], edges=[], finish=False) == no_plan
    assert replay("plan", vertices=[V0_PARTLY_FINISHED], edges=[], not_running=[["v0", 1]])["error"] is None


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "vertices is missing; use an array"),
        ({"vertices": ["v0"]}, 'vertices[0] is "v0"; use a JSON object'),
        ({"vertices": [{"id": 0, "parallelism": 1}]}, "vertices[0].id is 0; use a string"),
        ({"vertices": [{"id": "v0"}]}, "vertices[0].parallelism is missing; use a whole number from 1 to 32768"),
        ({"vertices": [{"id": "v0", "parallelism": 10**9}]}, "vertices[0].parallelism is 1000000000;"),
        ({"vertices": [{**V1, "finished": [True]}]}, "vertices[0].finished[0] is true;"),
        ({"vertices": [{**V1, "finished": [4]}]}, "v1/4: the vertex has only 4 subtasks"),
        ({"vertices": [{**V1, "paralelism": 4}]}, 'there is no field "vertices[0].paralelism" here;'),
        ({"vertices": [V1, V1]}, "two vertices have the id 'v1'"),
        ({"vertices": [V1], "edges": [["v1", "v2", "all"]]}, "there is no vertex 'v2'"),
        ({"vertices": [V1], "edges": [["v1", "v1", "all"]]}, "the graph has a cycle"),
        ({"vertices": [V1], "edges": [["v1", "v1", "some"]]}, "with the kind all or pointwise"),
        ({"vertices": [V1], "edges": [["v1", "v1"]]}, 'edges[0] is ["v1", "v1"]; use [vertex, vertex, kind]'),
        ({"vertices": [V1], "edges": ["v1"]}, 'edges[0] is "v1"; use [vertex, vertex, kind]'),
        ({"vertices": [V1], "not_running": ["v1"]}, 'not_running[0] is "v1"; use [vertex, index]'),
        ({"vertices": [V1], "not_running": [["v1", "2"]]}, 'not_running[0][1] is "2";'),
        ({"vertices": [V1], "not_running": [["v9", 0]]}, "there is no vertex 'v9'"),
    ],
)
def test_a_plan_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("plan", **script)


# --- keygroups, assign, retention, shared ----------------------------------------------------------------------------


def test_g5_key_groups_are_cut_into_ranges() -> None:
    outcome = replay("keygroups", max_parallelism=128, parallelism=3)
    assert outcome == {"ranges": [[0, 42], [43, 85], [86, 127]]}


def test_the_default_max_parallelism() -> None:
    assert replay("keygroups", default_for=[1, 85, 86, 32768]) == {"default": [128, 128, 256, 32768]}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "max_parallelism is missing"),
        ({"max_parallelism": 128}, "parallelism is missing"),
        ({"max_parallelism": 128, "parallelism": 129}, "parallelism is 129; use 1 to the max parallelism, 128"),
        ({"max_parallelism": 32769, "parallelism": 1}, "max parallelism is 32769; use 1 to 32768"),
        ({"default_for": 85}, "default_for is 85; use an array"),
        ({"default_for": [0]}, "default_for[0] is 0;"),
        ({"default_for": [1], "parallelism": 1}, 'there is no field "parallelism" here'),
    ],
)
def test_a_keygroups_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("keygroups", **script)


def test_g11_new_subtasks_replay_the_old_ones_whose_key_groups_they_share() -> None:
    assert replay("assign", mapper="range", to=2, **{"from": 3}) == {"old": [[0, 1], [1, 2]]}
    assert replay("assign", mapper="range", to=4, **{"from": 3}) == {"old": [[0], [0, 1], [1, 2], [2]]}


def test_g20_the_next_state_starts_where_the_remainder_ended() -> None:
    outcome = replay("assign", mode="split", states={"t-1": [[0, 10], []], "t-2": [[], [0, 15]]}, to=3)
    assert outcome == {"subtasks": [{"t-1": [0], "t-2": [15]}, {"t-1": [10]}, {"t-2": [0]}]}


def test_the_other_modes_and_mappers() -> None:
    states = {"s": [[1, "two"], None, [{"three": 3}]]}
    everything = {"s": [1, "two", {"three": 3}]}
    assert replay("assign", mode="union", states=states, to=2) == {"subtasks": [everything] * 2}
    one_each = {"subtasks": [{"s": [1, "two"]}, {"s": [{"three": 3}]}, {"s": [1, "two"]}]}
    assert replay("assign", mode="broadcast", states=states, to=3) == one_each
    assert replay("assign", mapper="round_robin", to=2, **{"from": 3}) == {"old": [[0, 2], [1]]}
    assert replay("assign", mapper="first", to=2, **{"from": 3}) == {"old": [[0, 1, 2], []]}
    assert replay("assign", mapper="full", to=2, **{"from": 3}) == {"old": [[0, 1, 2]] * 2}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "give either a mode with states and to, or a mapper with from and to"),
        ({"mode": "split", "mapper": "range", "to": 1}, "give either a mode"),
        ({"mode": "split", "states": {}}, "to is missing"),
        ({"mode": "shuffle", "states": {}, "to": 1}, 'mode is "shuffle"; use one of split, union, broadcast'),
        ({"mode": "split", "to": 1}, "states is missing; use an object of arrays by state name"),
        ({"mode": "split", "states": [], "to": 1}, "states is []; use an object"),
        ({"mode": "split", "states": {"s": 1}, "to": 1}, "states.s is 1; use an array"),
        ({"mode": "split", "states": {"s": [1]}, "to": 1}, "states.s[0] is 1; use an array"),
        ({"mode": "split", "states": {"s": [[1]], "t": []}, "to": 2}, "different numbers of subtasks"),
        ({"mode": "split", "states": {}, "to": 10**9}, "to is 1000000000;"),
        ({"mapper": "unsupported", "from": 1, "to": 1}, "use one of range, round_robin, first, full"),
        ({"mapper": "range", "to": 1}, "from is missing"),
        ({"mapper": "range", "from": 0, "to": 1}, "from is 0;"),
        ({"mapper": "range", "from": 1, "to": 1, "states": {}}, 'there is no field "states" here'),
    ],
)
def test_an_assign_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("assign", **script)


@pytest.mark.parametrize(
    ("retain", "added", "retained"),
    [
        (1, ["c1", "c2", "s3", "s4", "s5"], ["c2", "s5"]),
        (1, ["c1", "c2", "s3"], ["c2", "s3"]),
        (1, ["c1", "S2"], ["S2"]),
        (2, ["c1", "c2", "c3"], ["c2", "c3"]),
        (1, ["c1", "c1"], ["c1"]),
        (1, [], []),
    ],
)
def test_r1_the_newest_checkpoint_is_never_dropped_for_a_savepoint(
    retain: int, added: list[str], retained: list[str]
) -> None:
    assert replay("retention", retain=retain, added=added) == {"retained": retained}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "added is missing; use an array"),
        ({"added": [], "retain": 0}, "retain is 0; use a whole number from 1 on"),
        ({"added": ["c1", "x2"]}, 'added[1] is "x2"; use c (checkpoint), s (savepoint) or S'),
        ({"added": ["c"]}, 'added[0] is "c";'),
        ({"added": [1]}, "added[0] is 1; use a string"),
    ],
)
def test_a_retention_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("retention", **script)


NOTHING: dict[str, list[Any]] = {"deleted": [], "in_use": []}


def test_h2_what_a_retained_checkpoint_uses_is_kept() -> None:
    steps: list[dict[str, Any]] = [{"register": "a", "by": 1}, {"register": "a", "by": 2}, {"unregister_unused": 2}]
    assert replay("shared", steps=steps) == {"steps": [NOTHING] * 3}
    steps.append({"unregister_unused": 3})
    assert replay("shared", steps=steps) == {"steps": [NOTHING] * 3 + [{"deleted": ["a"], "in_use": []}]}


def test_a_restored_snapshot_that_holds_used_files_is_in_use() -> None:
    restore = {"restore": 1, "keys": ["a"], "claim": True, "sharing": False}
    use = {"register": "a", "by": 2}
    outcome = replay("shared", steps=[restore, use, {"unregister_unused": 2}, {"unregister_unused": 3}])
    assert outcome["steps"][2:] == [{"deleted": [], "in_use": [1]}, {"deleted": ["a"], "in_use": []}]
    unclaimed = {**restore, "claim": False, "sharing": True}
    outcome = replay("shared", steps=[unclaimed, use, {"unregister_unused": 2}, {"unregister_unused": 3}])
    assert outcome["steps"][2:] == [NOTHING, NOTHING]


def test_handles_and_placeholders() -> None:
    known = {"register": "a", "handle": "file-1", "by": 1}
    again = {"register": "a", "placeholder": True, "by": 2}
    outcome = replay("shared", steps=[known, again, {"unregister_unused": 2}, {"unregister_unused": 3}])
    assert outcome["steps"][2:] == [NOTHING, {"deleted": ["a"], "in_use": []}]
    error = error_of("shared", steps=[known, {"register": "a", "by": 2}])
    assert error == "steps[1]: shared state 'a': 'a' was sent, but 'file-1' is registered"
    assert "placeholder was sent" in error_of("shared", steps=[again])


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({}, "steps is missing; use an array"),
        ({"steps": [{}]}, "steps[0]: a step has exactly one of register, restore and unregister_unused"),
        ({"steps": [{"register": "a", "restore": 1}]}, "exactly one of"),
        ({"steps": [{"register": "a"}]}, "steps[0].by is missing"),
        ({"steps": [{"register": 1, "by": 1}]}, "steps[0].register is 1; use a string"),
        ({"steps": [{"restore": 1}]}, "steps[0].keys is missing"),
        ({"steps": [{"restore": 1, "keys": [1]}]}, "steps[0].keys[0] is 1; use a string"),
        ({"steps": [{"restore": 1, "keys": [], "claim": "yes"}]}, 'steps[0].claim is "yes"; use true or false'),
        ({"steps": [{"unregister_unused": -1}]}, "steps[0].unregister_unused is -1;"),
        ({"steps": [{"unregister_unused": 1, "by": 2}]}, 'there is no field "steps[0].by" here'),
    ],
)
def test_a_shared_script_that_is_not_understood(script: dict[str, Any], complaint: str) -> None:
    assert complaint in error_of("shared", **script)


# --- lines and the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "the line is not JSON"),
        ("B1@0", "the line is not JSON"),
        (b"\xff\xfe\xfd", "the line is not JSON"),
        ('{"id": NaN}', "NaN is not a JSON number"),
        ('{"id": 1e999}', "1e999 is too large"),
        ("9" * 5000, "the line is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "the line is []; use a JSON object"),
        ("null", "the line is null; use a JSON object"),
        ('{"id": ["a"]}', 'id is ["a"]; use a string or a number'),
        ('{"id": true}', "id is true; use a string or a number"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_line_that_is_no_script_has_no_id(kind: str, line: str | bytes, complaint: str) -> None:
    answered = json.loads(answer(kind, line))
    assert answered.keys() == {"id", "error"}
    assert answered["id"] is None
    assert complaint in answered["error"]


@pytest.mark.parametrize("identity", ["A2", "ä", "", 0, 7, 1.5, None])
def test_the_id_comes_back_as_it_is(identity: object) -> None:
    answered = json.loads(answer("retention", json.dumps({"id": identity, "added": ["c1"]})))
    assert answered == {"id": identity, "retained": ["c1"]}
    answered = json.loads(answer("retention", json.dumps({"id": identity})))
    assert (answered["id"], "error" in answered) == (identity, True)


def test_a_script_without_id_is_answered_all_the_same() -> None:
    assert json.loads(answer("retention", '{"added": []}')) == {"id": None, "retained": []}


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_in_the_help_are_understood(kind: str) -> None:
    assert EXAMPLES[kind]
    for line in EXAMPLES[kind]:
        answered = json.loads(answer(kind, line))
        assert answered["id"] == "x"
        assert len(answered) > 1
        assert answered.get("error") is None


def test_a_long_value_is_shortened_in_the_message() -> None:
    error = error_of("barriers", handler="a" * 1000)
    assert len(error) < 200
    assert "a..." in error


def run_main(monkeypatch: pytest.MonkeyPatch, kind: str, text: bytes) -> int:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
    return main([kind])


def test_the_tool_goes_on_after_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = b'{"id": 1, "added": ["c1"]}\n\n{"id": 2}\n  \n\xff\n{"id": 3, "added": []}'
    assert run_main(monkeypatch, "retention", lines) == 0
    captured = capsys.readouterr()
    answers = [json.loads(line) for line in captured.out.splitlines()]
    assert [(each["id"], sorted(each.keys() - {"id"})) for each in answers] == [
        (1, ["retained"]),
        (2, ["error"]),
        (None, ["error"]),
        (3, ["retained"]),
    ]
    assert captured.err == ""


def test_no_input_no_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(monkeypatch, "plan", b"") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [[], ["barrier"], ["barriers", "decider"], [""]])
def test_a_wrong_kind_ends_the_tool_with_the_kinds(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(kind in captured.err for kind in KINDS)


def test_the_help_shows_a_line_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(line in shown for lines in EXAMPLES.values() for line in lines)
    assert "An@c     announcement" in shown


def test_ctrl_c_ends_the_tool_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(BytesIO):
        def __next__(self) -> bytes:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", TextIOWrapper(Interrupted()))
    assert main(["plan"]) == 130
    assert capsys.readouterr() == ("", "")


def start(kind: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "snapline.testing.replay", kind]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_as_a_program_each_line_is_answered_at_once() -> None:
    with start("keygroups") as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in EXAMPLES["keygroups"]:
            program.stdin.write(line.encode() + b"\n")
            program.stdin.flush()
            assert json.loads(program.stdout.readline())["id"] == "x"
        assert program.communicate(b"nonsense\n", timeout=60)[1] == b""
    assert program.returncode == 0


def test_a_reader_that_leaves_ends_the_program_quietly() -> None:
    with start("keygroups") as program:
        assert program.stdout is not None
        program.stdout.close()
        program.stdout = None
        _, complaints = program.communicate(b"{}\n" * 10, timeout=60)
    assert (program.returncode, complaints) == (0, b"")


def test_a_script_may_carry_notes_that_are_not_read() -> None:
    script = {"id": "x", "max_parallelism": 4, "parallelism": 2}
    noted = {**script, "note": "two halves", "expect": [[0, 1], [2, 3]]}
    assert answer("keygroups", json.dumps(noted)) == answer("keygroups", json.dumps(script))
