"""Calls that hang, event time that stands still and sources without rows; and jobs that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.protocol.statistics.view_kit import NOW_MS, plan_of, task_of, view_of

from snapline.protocol.statistics.flow_health import BAD_HUNG_MS, HUNG_MS, IDLE_MS, NEVER_READ_MS, STILL_MS, flow_notes
from snapline.protocol.statistics.job_health import HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_view import PlanView, SubtaskView
from snapline.types import MAX_WATERMARK, TaskStatus

PLAN = plan_of({"source": 2, "windows": 1}, ("source", "windows"))
TWO = plan_of({"orders": 1, "clicks": 1, "join": 1}, ("orders", "join"), ("clicks", "join"))
HOUR_MS = 3_600_000
LONG_AGO: dict[str, Any] = {"watermark_since_ms": NOW_MS - STILL_MS}


def notes(plan: PlanView, *tasks: SubtaskView) -> list[HealthNote]:
    return list(flow_notes(view_of(plan, *tasks)))


def the_note(plan: PlanView, *tasks: SubtaskView) -> HealthNote:
    (note,) = notes(plan, *tasks)
    assert note.advice
    return note


# Calls that hang.


@pytest.mark.parametrize(
    ("stuck_ms", "level"), [(HUNG_MS - 1, None), (HUNG_MS, HealthLevel.WARNING), (BAD_HUNG_MS, HealthLevel.BAD)]
)
def test_a_call_that_does_not_return_is_told(stuck_ms: int, level: HealthLevel | None) -> None:
    found = notes(PLAN, task_of("source"), task_of("windows", stuck_ms=stuck_ms))
    assert [note.level for note in found] == ([] if level is None else [level])
    for note in found:
        assert (note.issue, note.vertex, note.subtask) == (HealthIssue.HUNG_OPERATOR, "windows", 0)


def test_a_task_that_is_starting_does_not_hang() -> None:
    assert notes(PLAN, task_of("windows", stuck_ms=BAD_HUNG_MS, status=TaskStatus.DEPLOYING)) == []


# Event time.


def test_the_split_that_holds_event_time_back_is_named() -> None:
    note = the_note(
        PLAN,
        task_of("source", 0, watermark_ms=2 * HOUR_MS),
        task_of("source", 1, watermark_ms=HOUR_MS, slowest_split="'paris'", **LONG_AGO),
        task_of("windows", watermark_ms=HOUR_MS, **LONG_AGO),
    )
    assert (note.issue, note.vertex, note.subtask) == (HealthIssue.EVENT_TIME_STANDS_STILL, "source", 1)
    assert note.text == (
        "event time has stood still for 2 min at 1970-01-01T01:00:00Z: split 'paris' of subtask 1 of `source` holds it "
        "back, others are 60 min ahead"
    )


def test_without_splits_the_subtask_is_named() -> None:
    note = the_note(
        TWO,
        task_of("orders", watermark_ms=5, rows_since_ms=NOW_MS - STILL_MS, **LONG_AGO),
        task_of("clicks", watermark_ms=HOUR_MS),
        task_of("join", watermark_ms=5, **LONG_AGO),
    )
    assert "subtask 0 of `orders` holds it back" in note.text


def test_a_source_that_never_had_event_time_may_hold_it_back() -> None:
    note = the_note(
        TWO,
        task_of("orders", rows=0, rows_since_ms=NOW_MS - STILL_MS, **LONG_AGO),
        task_of("clicks", watermark_ms=HOUR_MS),
        task_of("join", **LONG_AGO),
    )
    assert note.text == "event time has not begun within 2 min: subtask 0 of `orders` holds it back"


def test_a_subtask_with_everything_in_one_thread_is_its_own_judge() -> None:
    alone = plan_of({"source": 2})
    note = the_note(
        alone,
        task_of("source", 0, watermark_ms=9),
        task_of("source", 1, watermark_ms=5, slowest_split="'a'", **LONG_AGO),
    )
    assert (note.vertex, note.subtask) == ("source", 1)


@pytest.mark.parametrize(
    "tasks",
    [
        [task_of("source", 0, watermark_ms=9), task_of("windows", watermark_ms=9)],
        [task_of("source", 0), task_of("windows")],
        [task_of("source", 0, **LONG_AGO), task_of("windows", **LONG_AGO)],
        [
            task_of("source", 0, watermark_ms=9, rows_since_ms=NOW_MS - STILL_MS, **LONG_AGO),
            task_of("windows", watermark_ms=9, **LONG_AGO),
        ],
        [task_of("source", 0, watermark_ms=MAX_WATERMARK, **LONG_AGO), task_of("windows", watermark_ms=MAX_WATERMARK)],
        [
            task_of("source", 0, watermark_ms=None, rows=0, **LONG_AGO),
            task_of("source", 1, watermark_ms=9),
            task_of("windows", watermark_ms=9),
        ],
    ],
    ids=["moves", "none", "no event time", "no rows", "ended", "one idle"],
)
def test_event_time_that_moves_or_has_no_reason_to_is_not_told(tasks: list[SubtaskView]) -> None:
    assert notes(PLAN, *tasks) == []


# Sources without rows.


def quiet(vertex: str, age_ms: int, **fields: Any) -> SubtaskView:
    return task_of(vertex, rows_since_ms=NOW_MS - age_ms, **fields)


def test_a_source_that_has_become_quiet_is_told_while_others_are_not() -> None:
    note = the_note(TWO, quiet("orders", IDLE_MS), quiet("clicks", 0))
    assert (note.issue, note.vertex, note.subtask) == (HealthIssue.IDLE_SOURCE, "orders", None)
    assert note.text == "source `orders` has given no rows for 5 min, while others do"


@pytest.mark.parametrize(
    "tasks",
    [
        [quiet("orders", IDLE_MS - 1), quiet("clicks", 0)],
        [quiet("orders", IDLE_MS), quiet("clicks", IDLE_MS)],
        [quiet("orders", NEVER_READ_MS - 1, rows=0), quiet("clicks", 0)],
        [quiet("orders", IDLE_MS, status=TaskStatus.FINISHED), quiet("clicks", 0)],
        [quiet("orders", IDLE_MS)],
    ],
    ids=["not long", "all quiet", "right after start", "finished", "alone"],
)
def test_quiet_sources_that_are_as_they_should_be_are_not(tasks: list[SubtaskView]) -> None:
    assert notes(TWO, *tasks) == []


def test_one_subtask_with_rows_is_enough_for_a_source() -> None:
    plan = plan_of({"orders": 2, "clicks": 1})
    busy = task_of("orders", 1, rows_since_ms=NOW_MS)
    assert notes(plan, quiet("orders", IDLE_MS), busy, quiet("clicks", 0)) == []


def test_one_that_never_had_rows_is_told_after_a_long_time() -> None:
    assert the_note(TWO, quiet("orders", NEVER_READ_MS, rows=0), quiet("clicks", 0)).vertex == "orders"
