"""The same error again and again is told from errors between which the job moves on."""

from __future__ import annotations

import zlib

import pytest

from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.job.repeated_errors import MAX_ERRORS, RepeatedErrors, has_moved
from snapline.protocol.snapshot import OperatorPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.types import OperatorStateMode, SnapshotKind

ALL = frozenset({0})
ONE, OTHER = ErrorIdentity("map", "ValueError"), ErrorIdentity("map", "KeyError")


def test_the_first_error_is_nothing_to_speak_of() -> None:
    errors = RepeatedErrors(10)
    assert (errors.count, errors.note) == (0, "")
    errors.failed(ONE, ALL)
    assert (errors.count, errors.note, errors.is_too_many) == (1, "", False)


@pytest.mark.parametrize(
    ("times", "ordinal"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (113, "113th")]
)
def test_a_repetition_says_how_often(times: int, ordinal: str) -> None:
    errors = RepeatedErrors(None)
    for _ in range(times):
        errors.failed(ONE, ALL)
    assert errors.count == times
    assert errors.note == f"the same error for the {ordinal} time"
    assert not errors.is_too_many


def test_the_limit_is_reached_at_that_many_errors() -> None:
    errors = RepeatedErrors(3)
    for _ in range(2):
        errors.failed(ONE, ALL)
        assert not errors.is_too_many
    errors.failed(ONE, ALL)
    assert errors.is_too_many
    assert errors.note.startswith("the same error for the 3rd time without a completed checkpoint in between")
    assert "same_error_limit=3" in errors.note


def test_a_limit_of_one_gives_its_reason_too() -> None:
    errors = RepeatedErrors(1)
    errors.failed(ONE, ALL)
    assert errors.is_too_many
    assert "same_error_limit=1" in errors.note


def test_a_completed_checkpoint_begins_a_new_count() -> None:
    errors = RepeatedErrors(2)
    errors.failed(ONE, ALL)
    errors.checkpoint_completed(ALL)
    errors.failed(ONE, ALL)
    assert (errors.count, errors.is_too_many) == (1, False)


def test_two_errors_that_alternate_are_counted_each() -> None:
    errors = RepeatedErrors(3)
    for _ in range(2):
        errors.failed(ONE, ALL)
        errors.failed(OTHER, ALL)
    assert errors.count == 2
    errors.failed(ONE, ALL)
    assert errors.is_too_many


def test_a_failure_of_the_environment_counts_for_nothing_and_interrupts_nothing() -> None:
    errors = RepeatedErrors(2)
    errors.failed(ONE, ALL)
    errors.failed(None, ALL)
    assert (errors.count, errors.note, errors.is_too_many) == (0, "", False)
    errors.failed(ONE, ALL)
    assert errors.is_too_many


def test_only_so_many_different_errors_are_remembered() -> None:
    errors = RepeatedErrors(2)
    for number in range(MAX_ERRORS + 1):
        errors.failed(ErrorIdentity("map", f"Error{number}"), ALL)
    errors.failed(ErrorIdentity("map", "Error0"), ALL)
    assert errors.count == 1, "it was the oldest"
    errors.failed(ErrorIdentity("map", f"Error{MAX_ERRORS}"), ALL)
    assert errors.count == 2


def snapshot(number: int, positions: bytes, splits: bytes = b"splits", sink: bytes = b"") -> Snapshot:
    def stored(name: str, data: bytes) -> StoredObject:
        return StoredObject(f"chk-{number}/{name}", len(data), crc32=zlib.crc32(data))

    def state(data: bytes) -> dict[int, SubtaskState]:
        part = OperatorPart("splits", OperatorStateMode.SPLIT, 1, stored("state", data))
        return {0: SubtaskState(operator=(part,))}

    operators = {
        "read": OperatorState("read", 1, 128, state(positions), stored("coordinator", splits)),
        "write": OperatorState("write", 1, 128, state(sink)),
    }
    return Snapshot(number, SnapshotKind.CHECKPOINT, 1, 0, f"chk-{number}", operators)


@pytest.mark.parametrize(
    ("later", "is_moved"),
    [
        (snapshot(2, b"at 7"), False),
        (snapshot(2, b"at 7", sink=b"more"), False),
        (snapshot(2, b"at 8"), True),
        (snapshot(2, b"at 7", splits=b"fewer"), True),
    ],
)
def test_a_job_has_moved_when_a_source_has(later: Snapshot, is_moved: bool) -> None:
    assert has_moved(snapshot(1, b"at 7"), later, ["read"]) is is_moved


def test_the_first_checkpoint_of_all_is_a_move_and_so_is_a_source_that_was_not_there() -> None:
    assert has_moved(None, snapshot(1, b"at 0"), ["read"])
    assert not has_moved(snapshot(1, b"at 0"), snapshot(2, b"at 0"), ["read", "another"])
    bare = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "chk-1", {})
    assert has_moved(bare, snapshot(2, b"at 0"), ["read"])


def test_errors_of_two_regions_that_fail_in_turns_are_counted_apart() -> None:
    errors = RepeatedErrors(3)
    one, other = frozenset({0}), frozenset({1})
    errors.failed(ONE, one)
    errors.failed(OTHER, other)
    errors.checkpoint_completed(other)
    errors.failed(ONE, one)
    assert errors.count == 2, "the region of the first has not moved"
    errors.failed(OTHER, other)
    assert errors.count == 1
    errors.failed(ONE, one)
    assert errors.is_too_many
