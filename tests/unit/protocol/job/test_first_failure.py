"""Which failure counts, and what is added to it."""

from __future__ import annotations

from snapline.protocol.job.first_failure import MAX_LOG_CHARACTERS, Failure, FailureDetails, FirstFailure


def test_the_loss_of_a_slot_is_explained_once_and_the_first_cause_stays_first() -> None:
    first = FirstFailure()
    first.failed("slot 1 is lost", FailureDetails(lost_slot=1))
    assert first.explained("killed by signal 9", "last words", 1)
    assert first.failure == Failure("slot 1 is lost; killed by signal 9", log="last words")
    assert not first.explained("the stage has failed", "", None)
    assert first.failure == Failure("slot 1 is lost; killed by signal 9", log="last words")


def test_only_the_slot_that_was_lost_first_is_explained() -> None:
    first = FirstFailure()
    first.failed("slot 1 is lost", FailureDetails(lost_slot=1))
    assert not first.explained("killed by signal 9", "", 0)
    assert first.explained("the stage has failed", "", None), "it ends every slot"
    assert first.failure == Failure("slot 1 is lost; the stage has failed")


def test_a_failure_that_says_why_stays_alone() -> None:
    first = FirstFailure()
    first.failed("it raised", FailureDetails("trace", "log"))
    assert not first.explained("its process ended", "more", 0)
    assert not first.explained("the stage has failed", "", None)
    assert first.failure == Failure("it raised", "trace", "log")


def test_a_log_has_a_limit_and_its_end_is_kept() -> None:
    first = FirstFailure()
    first.failed("boom", FailureDetails(log="x" * MAX_LOG_CHARACTERS + "end", lost_slot=0))
    assert first.failure is not None
    assert len(first.failure.log) == MAX_LOG_CHARACTERS
    assert first.failure.log.endswith("xend")
    first.explained("killed", "y" * MAX_LOG_CHARACTERS + "end", 0)
    assert len(first.failure.log) == MAX_LOG_CHARACTERS


def test_before_any_failure_there_is_nothing_to_explain() -> None:
    first = FirstFailure()
    assert not first.explained("killed by signal 9", "log", None)
    assert first.failure is None


def test_each_attempt_has_a_failure_of_its_own() -> None:
    first = FirstFailure()
    first.failed("one", FailureDetails("trace", "log", lost_slot=0))
    first.failed("two", FailureDetails())
    assert not first.explained("why the first slot was lost", "", 0)
    assert first.failure == Failure("two")


def test_a_job_that_ended_for_another_reason_says_so() -> None:
    first = FirstFailure()
    first.failed("one", FailureDetails("trace", "log", lost_slot=0))
    first.replaced("another driver has taken over")
    assert not first.explained("killed", "", None)
    assert first.failure == Failure("another driver has taken over")
