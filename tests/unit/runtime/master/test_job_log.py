"""What a master reports of its job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.runtime.master.job_log import MAX_EVENTS, MAX_TEXT_CHARACTERS, EventLog, note_metrics
from snapline.types import ExecutionId, SubtaskId


def test_only_the_latest_events_are_kept() -> None:
    events = EventLog()
    for number in range(MAX_EVENTS + 5):
        events.add(str(number))
    assert [text for _, text in events.all()][:: MAX_EVENTS - 1] == ["5", str(MAX_EVENTS + 4)]


def test_events_have_their_time_and_a_limit() -> None:
    times = iter([7, 9])
    events = EventLog(lambda: next(times))
    events.add("one")
    events.add("x" * 10_000)
    assert events.all() == [(7, "one"), (9, "x" * MAX_TEXT_CHARACTERS)]


def test_what_was_read_does_not_grow() -> None:
    events = EventLog(lambda: 0)
    events.add("one")
    read = events.all()
    events.add("two")
    assert read == [(0, "one")]


def test_events_of_earlier_drivers_come_first_as_far_as_there_is_room() -> None:
    events = EventLog(lambda: 9)
    events.add("now")
    events.preceded_by([(1, "before"), (2, "then")])
    assert events.all() == [(1, "before"), (2, "then"), (9, "now")]
    events.preceded_by([(0, str(number)) for number in range(MAX_EVENTS)])
    assert events.all()[-3:] == [(1, "before"), (2, "then"), (9, "now")]
    assert (len(events.all()), events.all()[0]) == (MAX_EVENTS, (0, "3"))


def test_metrics_are_kept_and_bad_rows_reported(caplog: pytest.LogCaptureFixture) -> None:
    events, known = EventLog(lambda: 0), dict[str, TaskMetrics]()
    metrics = TaskMetrics(ExecutionId(SubtaskId("map", 1), 3), 10, 8, 100, 80, 1_000, 600, 300, 100, 5, 6)
    for count in (0, 1, 2, 3):
        note_metrics(known, replace(metrics, bad_rows=count, last_bad_row="too large"), events, "clicks")
    assert known["map/1"].bad_rows == 3
    text = "map/1: bad rows so far: 1, and the last one: too large"
    assert events.all() == [(0, text)]
    assert caplog.messages == [f"job clicks: {text}"]
