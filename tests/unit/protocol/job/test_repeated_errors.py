"""The same error again and again is told from errors between which the job moves on."""

from __future__ import annotations

import pytest

from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.job.repeated_errors import MAX_ERRORS, RepeatedErrors

ONE, OTHER = ErrorIdentity("map", "ValueError"), ErrorIdentity("map", "KeyError")


def test_the_first_error_is_nothing_to_speak_of() -> None:
    errors = RepeatedErrors(10)
    assert (errors.count, errors.note) == (0, "")
    errors.failed(ONE)
    assert (errors.count, errors.note, errors.is_too_many) == (1, "", False)


@pytest.mark.parametrize(
    ("times", "ordinal"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (113, "113th")]
)
def test_a_repetition_says_how_often(times: int, ordinal: str) -> None:
    errors = RepeatedErrors(None)
    for _ in range(times):
        errors.failed(ONE)
    assert errors.count == times
    assert errors.note == f"the same error for the {ordinal} time"
    assert not errors.is_too_many


def test_the_limit_is_reached_at_that_many_errors() -> None:
    errors = RepeatedErrors(3)
    for _ in range(2):
        errors.failed(ONE)
        assert not errors.is_too_many
    errors.failed(ONE)
    assert errors.is_too_many
    assert errors.note.startswith("the same error for the 3rd time without a completed checkpoint in between")
    assert "same_error_limit=3" in errors.note


def test_a_limit_of_one_gives_its_reason_too() -> None:
    errors = RepeatedErrors(1)
    errors.failed(ONE)
    assert errors.is_too_many
    assert "same_error_limit=1" in errors.note


def test_a_completed_checkpoint_begins_a_new_count() -> None:
    errors = RepeatedErrors(2)
    errors.failed(ONE)
    errors.checkpoint_completed()
    errors.failed(ONE)
    assert (errors.count, errors.is_too_many) == (1, False)


def test_two_errors_that_alternate_are_counted_each() -> None:
    errors = RepeatedErrors(3)
    for _ in range(2):
        errors.failed(ONE)
        errors.failed(OTHER)
    assert errors.count == 2
    errors.failed(ONE)
    assert errors.is_too_many


def test_a_failure_of_the_environment_counts_for_nothing_and_interrupts_nothing() -> None:
    errors = RepeatedErrors(2)
    errors.failed(ONE)
    errors.failed(None)
    assert (errors.count, errors.note, errors.is_too_many) == (0, "", False)
    errors.failed(ONE)
    assert errors.is_too_many


def test_only_so_many_different_errors_are_remembered() -> None:
    errors = RepeatedErrors(2)
    for number in range(MAX_ERRORS + 1):
        errors.failed(ErrorIdentity("map", f"Error{number}"))
    errors.failed(ErrorIdentity("map", "Error0"))
    assert errors.count == 1, "it was the oldest"
    errors.failed(ErrorIdentity("map", f"Error{MAX_ERRORS}"))
    assert errors.count == 2
