"""Two-phase commit: nothing without a permit, oldest first, and what follows from each answer."""

from __future__ import annotations

import pytest

from snapline.errors import EngineError, IllegalTransitionError
from snapline.protocol.commit import (
    AbortNewer,
    Commit,
    CommitResult,
    Committable,
    Committer,
    FailCommit,
    Permit,
    RetryWith,
)
from snapline.types import NO_CHECKPOINT

ATTEMPT = 4


def made(checkpoint_id: int, *names: str) -> list[Committable]:
    return [Committable(name, checkpoint_id) for name in names]


def names(effects: object) -> list[str]:
    assert isinstance(effects, list)
    assert all(isinstance(effect, Commit) for effect in effects)
    return [effect.committable.name for effect in effects]


@pytest.fixture
def committer() -> Committer:
    """With a and b of checkpoint 1, and c of checkpoint 2."""
    committer = Committer(ATTEMPT, max_retries=2)
    committer.prepared(1, made(1, "a", "b"), 2)
    committer.prepared(2, made(2, "c"), 1)
    return committer


def test_nothing_is_committed_before_its_checkpoint_is_complete(committer: Committer) -> None:
    assert committer.permitted_id == NO_CHECKPOINT
    assert names(committer.completed(1)) == ["a", "b"]
    assert committer.answered("a", CommitResult.COMMITTED) == []
    assert committer.answered("b", CommitResult.COMMITTED) == []
    assert [entry.name for entry in committer.pending] == ["c"]


def test_a_commit_carries_its_permit(committer: Committer) -> None:
    assert committer.completed(1) == [Commit(entry, Permit(ATTEMPT, 1)) for entry in made(1, "a", "b")]
    committer.answered("a", CommitResult.COMMITTED)
    committer.answered("b", CommitResult.COMMITTED)
    assert committer.completed(5) == [Commit(Committable("c", 2), Permit(ATTEMPT, 5))]
    assert committer.permitted_id == 5


def test_older_checkpoints_are_committed_first_and_whole(committer: Committer) -> None:
    assert names(committer.completed(2)) == ["a", "b"]
    assert committer.answered("b", CommitResult.COMMITTED) == []
    assert names(committer.answered("a", CommitResult.COMMITTED)) == ["c"]
    assert committer.answered("c", CommitResult.COMMITTED) == []
    assert committer.pending == ()


def test_a_newer_permit_waits_for_what_is_being_committed(committer: Committer) -> None:
    committer.completed(1)
    assert committer.completed(2) == []
    committer.answered("a", CommitResult.COMMITTED)
    assert names(committer.answered("b", CommitResult.COMMITTED)) == ["c"]


@pytest.mark.parametrize("checkpoint_id", [1, 2])
def test_a_repeated_or_older_completion_changes_nothing(committer: Committer, checkpoint_id: int) -> None:
    committer.completed(2)
    assert committer.completed(checkpoint_id) == []
    assert committer.permitted_id == 2


def test_a_completion_with_nothing_prepared_counts_for_what_follows() -> None:
    committer = Committer(ATTEMPT)
    assert committer.completed(3) == []
    committer.prepared(4, made(4, "x"), 1)
    assert names(committer.completed(4)) == ["x"]


@pytest.mark.parametrize("repeated", [2, 3])
def test_a_notice_that_comes_again_commits_what_is_covered_and_not_yet_under_way(repeated: int) -> None:
    committer = Committer(ATTEMPT)
    committer.completed(3)
    committer.prepared(2, made(2, "x"), 1)
    assert names(committer.completed(repeated)) == ["x"]
    assert committer.completed(repeated) == []


def test_what_is_prepared_late_for_a_complete_checkpoint_goes_with_the_next_permit() -> None:
    committer = Committer(ATTEMPT)
    committer.completed(3)
    committer.prepared(2, made(2, "x"), 1)
    assert names(committer.completed(4)) == ["x"]


def test_already_committed_is_as_good_as_committed(committer: Committer) -> None:
    committer.completed(1)
    committer.answered("a", CommitResult.ALREADY_COMMITTED)
    committer.answered("b", CommitResult.ALREADY_COMMITTED)
    assert [entry.name for entry in committer.pending] == ["c"]
    assert committer.dropped == 0


def test_a_retry_is_ordered_at_once_up_to_the_limit_and_then_fails(committer: Committer) -> None:
    committer.completed(1)
    for retries in (1, 2):
        (again,) = committer.answered("a", CommitResult.RETRY_LATER)
        assert again == Commit(Committable("a", 1, retries=retries), Permit(ATTEMPT, 1))
    (failure,) = committer.answered("a", CommitResult.RETRY_LATER)
    assert failure == FailCommit(Committable("a", 1, retries=2), "commit of a failed 3 times")


def test_no_retries_means_one_try() -> None:
    committer = Committer(ATTEMPT, max_retries=0)
    committer.prepared(1, made(1, "a"), 1)
    committer.completed(1)
    (failure,) = committer.answered("a", CommitResult.RETRY_LATER)
    assert isinstance(failure, FailCommit)


def test_ten_retries_are_the_default() -> None:
    committer = Committer(ATTEMPT)
    committer.prepared(1, made(1, "a"), 1)
    committer.completed(1)
    for _ in range(10):
        (again,) = committer.answered("a", CommitResult.RETRY_LATER)
        assert isinstance(again, Commit)
    (failure,) = committer.answered("a", CommitResult.RETRY_LATER)
    assert isinstance(failure, FailCommit)


def test_retries_are_counted_for_each_committable(committer: Committer) -> None:
    committer.completed(1)
    for _ in range(2):
        committer.answered("a", CommitResult.RETRY_LATER)
    (again,) = committer.answered("b", CommitResult.RETRY_LATER)
    assert isinstance(again, Commit)
    assert again.committable.retries == 1


def test_a_retry_uses_the_newest_permit(committer: Committer) -> None:
    committer.completed(1)
    committer.completed(2)
    assert committer.answered("a", CommitResult.RETRY_LATER) == [
        Commit(Committable("a", 1, retries=1), Permit(ATTEMPT, 2))
    ]


def test_update_and_retry_replaces_the_payload_for_good() -> None:
    committer = Committer(ATTEMPT)
    committer.prepared(1, [Committable("a", 1, payload="rows 1 to 9")], 1)
    committer.completed(1)
    (again,) = committer.answered("a", RetryWith("rows 5 to 9"))
    assert isinstance(again, Commit)
    assert again.committable.payload == "rows 5 to 9"
    (again,) = committer.answered("a", CommitResult.RETRY_LATER)
    assert isinstance(again, Commit)
    assert again.committable.payload == "rows 5 to 9"


def test_a_known_failure_is_dropped_and_counted_and_does_not_hold_up_the_rest(committer: Committer) -> None:
    committer.completed(2)
    committer.answered("a", CommitResult.FAILED_KNOWN)
    assert names(committer.answered("b", CommitResult.COMMITTED)) == ["c"]
    assert committer.dropped == 1


def test_an_unknown_failure_fails_the_job_and_nothing_newer_is_committed(committer: Committer) -> None:
    committer.completed(2)
    assert committer.answered("a", CommitResult.FAILED_UNKNOWN) == [
        FailCommit(Committable("a", 1), "commit of a failed for an unknown reason")
    ]
    assert committer.answered("b", CommitResult.COMMITTED) == []
    assert [entry.name for entry in committer.pending] == ["a", "c"]


def test_a_late_or_unknown_answer_changes_nothing(committer: Committer) -> None:
    committer.completed(1)
    committer.answered("a", CommitResult.COMMITTED)
    assert committer.answered("a", CommitResult.COMMITTED) == []
    assert committer.answered("never heard of", CommitResult.FAILED_UNKNOWN) == []
    assert committer.dropped == 0


@pytest.mark.parametrize("result", CommitResult)
def test_an_answer_to_a_commit_that_was_never_permitted_is_a_defect(committer: Committer, result: CommitResult) -> None:
    with pytest.raises(IllegalTransitionError):
        committer.answered("c", result)
    assert [entry.name for entry in committer.pending] == ["a", "b", "c"]


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_a_set_must_be_complete(expected: int) -> None:
    with pytest.raises(EngineError, match=f"has 2 committables, announced were {expected}"):
        Committer(ATTEMPT).prepared(1, made(1, "a", "b"), expected)


def test_a_committable_belongs_to_the_checkpoint_it_comes_with() -> None:
    with pytest.raises(EngineError, match="committable a of checkpoint 2 is not new here"):
        Committer(ATTEMPT).prepared(1, made(2, "a"), 1)


def test_a_name_is_prepared_once(committer: Committer) -> None:
    with pytest.raises(EngineError, match="committable a of checkpoint 3 is not new here"):
        committer.prepared(3, made(3, "a"), 1)


def test_a_checkpoint_without_committables_is_complete_too() -> None:
    committer = Committer(ATTEMPT)
    committer.prepared(1, [], 0)
    assert committer.completed(1) == []


def test_a_snapshot_holds_what_is_not_known_to_be_committed_up_to_its_id(committer: Committer) -> None:
    committer.completed(1)
    committer.answered("a", CommitResult.COMMITTED)
    stored = committer.snapshot(2)
    assert [entry.name for entry in stored] == ["b", "c"]
    assert [entry.name for entry in committer.snapshot(1)] == ["b"]
    committer.answered("b", CommitResult.COMMITTED)
    assert [entry.name for entry in stored] == ["b", "c"]


def test_a_restore_aborts_what_is_newer_and_commits_what_it_holds_at_once() -> None:
    committer = Committer(ATTEMPT)
    effects = committer.restored(7, [*made(7, "c"), *made(6, "a", "b")])
    assert effects[0] == AbortNewer(7)
    assert effects[1:] == [Commit(entry, Permit(ATTEMPT, 7)) for entry in made(6, "a", "b")]
    committer.answered("a", CommitResult.ALREADY_COMMITTED)
    assert names(committer.answered("b", CommitResult.COMMITTED)) == ["c"]


def test_a_restore_without_committables_still_aborts_what_is_newer() -> None:
    assert Committer(ATTEMPT).restored(7, []) == [AbortNewer(7)]


@pytest.mark.parametrize(("prepared_until", "spared"), [(5, 7), (7, 7), (9, 9)])
def test_a_restore_aborts_nothing_that_a_newer_savepoint_may_want(prepared_until: int, spared: int) -> None:
    committer = Committer(ATTEMPT)
    effects = committer.restored(7, made(7, "a"), prepared_until=prepared_until)
    assert effects == [AbortNewer(spared), Commit(Committable("a", 7), Permit(ATTEMPT, 7))]


def test_a_restored_committable_has_all_its_tries_again() -> None:
    committer = Committer(ATTEMPT, max_retries=1)
    committer.restored(1, [Committable("a", 1, retries=1)])
    (again,) = committer.answered("a", CommitResult.RETRY_LATER)
    assert isinstance(again, Commit)


def test_a_snapshot_cannot_hold_what_is_newer_than_itself() -> None:
    with pytest.raises(EngineError, match="checkpoint 6 holds a of the later 7"):
        Committer(ATTEMPT).restored(6, made(7, "a"))


def test_without_checkpoints_everything_is_committed_at_the_end_oldest_first(committer: Committer) -> None:
    assert names(committer.ended()) == ["a", "b"]
    committer.answered("a", CommitResult.COMMITTED)
    assert names(committer.answered("b", CommitResult.COMMITTED)) == ["c"]


def test_an_end_with_nothing_prepared_orders_nothing() -> None:
    assert Committer(ATTEMPT).ended() == []
