"""What is told of a job."""

from __future__ import annotations

from snapline.runtime.master.job_log import MAX_EVENTS, MAX_LOG_CHARACTERS, EventLog, Failure


def test_the_first_cause_stays_first() -> None:
    failure = Failure("slot 1 is lost", log="a").with_more("killed by signal 9", "b")
    assert failure.cause == "slot 1 is lost; killed by signal 9"
    assert failure.log == "a\nb"
    assert failure.message == failure.cause
    assert Failure("boom", "trace").message == "boom\ntrace"


def test_what_follows_has_a_limit() -> None:
    failure = Failure("boom")
    for _ in range(100):
        failure = failure.with_more("x" * 1000, "y" * 10_000)
    assert len(failure.cause) < 6000
    assert len(failure.log) == MAX_LOG_CHARACTERS


def test_only_the_latest_events_are_kept() -> None:
    events = EventLog()
    for number in range(MAX_EVENTS + 5):
        events.add(str(number))
    assert [text for _, text in events.all()][:: MAX_EVENTS - 1] == ["5", str(MAX_EVENTS + 4)]
