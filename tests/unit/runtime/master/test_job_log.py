"""What a master reports of its job."""

from __future__ import annotations

from snapline.runtime.master.job_log import MAX_EVENTS, MAX_TEXT_CHARACTERS, EventLog


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
