"""Which failure counts, and what is added to it."""

from __future__ import annotations

from snapline.protocol.job.first_failure import MAX_CAUSE_CHARACTERS, MAX_LOG_CHARACTERS, Failure, FirstFailure


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
    assert len(failure.cause) < MAX_CAUSE_CHARACTERS + 1100
    assert len(failure.log) == MAX_LOG_CHARACTERS


def test_the_last_lines_of_a_log_are_the_ones_kept() -> None:
    failure = Failure("boom", log="x" * MAX_LOG_CHARACTERS).with_more("more", "the end")
    assert failure.log.endswith("x\nthe end")


def test_before_any_failure_there_is_nothing_to_explain() -> None:
    first = FirstFailure()
    assert not first.explained("killed by signal 9", "log")
    assert first.failure is None


def test_later_reports_explain_the_failure_and_keep_its_trace() -> None:
    first = FirstFailure()
    first.failed("it raised", "trace", "log")
    assert first.explained("its process ended", "more")
    assert first.failure == Failure("it raised; its process ended", "trace", "log\nmore")


def test_each_attempt_has_a_failure_of_its_own() -> None:
    first = FirstFailure()
    first.failed("one", "trace", "log")
    first.failed("two", "", "")
    assert first.failure == Failure("two")


def test_a_job_that_ended_for_another_reason_says_so() -> None:
    first = FirstFailure()
    first.failed("one", "trace", "log")
    first.replaced("another driver has taken over")
    assert first.failure == Failure("another driver has taken over")
