"""Policies of the coordinator replayed: scripts with known outcomes, and scripts that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.devtools.replay.replay_kit import error_of, replay


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
