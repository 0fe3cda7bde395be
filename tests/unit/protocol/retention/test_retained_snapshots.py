"""Retained checkpoints: what a new one makes superfluous, and whose snapshots are never deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots, Retirement
from snapline.protocol.snapshot import (
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
)
from snapline.types import NO_CHECKPOINT, ClaimMode, OperatorStateMode, SnapshotKind


def shared(name: str) -> StoredObject:
    return StoredObject(f"shared/{name}", 1, shared_key=name)


def snapshot(checkpoint_id: int, *names: str, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Snapshot:
    """One whose keyed state lies in shared objects of these names."""
    part = KeyedPart(KeyGroupRange(0, 127), tuple(map(shared, names)))
    operators = {"op": OperatorState("op", 1, 128, {0: SubtaskState(keyed=(part,))})}
    return Snapshot(checkpoint_id, kind, 1, 0, f"chk-{checkpoint_id}", operators)


def complete(retained: RetainedSnapshots, checkpoint_id: int, *names: str) -> Retirement:
    """What the coordinator does: register at the acknowledgement, add at the end."""
    for name in names:
        retained.register(shared(name), checkpoint_id)
    return retained.add(snapshot(checkpoint_id, *names))


def ids(retained: RetainedSnapshots) -> list[int]:
    return [entry.id for entry in retained.snapshots]


def deleted(retirement: Retirement) -> list[int]:
    return [entry.id for entry in retirement.delete]


SAVEPOINT = SnapshotKind.SAVEPOINT
NOTHING = Retirement((), ())


def test_the_newest_are_kept_up_to_the_limit() -> None:
    retained = RetainedSnapshots(2)
    assert retained.latest_id == NO_CHECKPOINT
    assert complete(retained, 1) == NOTHING
    assert complete(retained, 2) == NOTHING
    assert deleted(complete(retained, 3)) == [1]
    assert ids(retained) == [2, 3]
    assert retained.latest_id == 3


def test_shared_objects_go_with_the_last_retained_checkpoint_that_uses_them() -> None:
    retained = RetainedSnapshots(1)
    complete(retained, 1, "a", "b")
    assert complete(retained, 2, "b", "c").shared == (shared("a"),)
    assert complete(retained, 3, "c").shared == (shared("b"),)


def test_shared_objects_are_kept_for_every_retained_checkpoint() -> None:
    retained = RetainedSnapshots(2)
    complete(retained, 1, "a")
    assert complete(retained, 2, "b").shared == ()
    assert complete(retained, 3, "c").shared == (shared("a"),)


def test_objects_registered_for_a_newer_checkpoint_on_its_way_are_kept() -> None:
    retained = RetainedSnapshots(1)
    complete(retained, 1, "a")
    retained.register(shared("a"), 3)
    assert complete(retained, 2, "b").shared == ()


def test_objects_of_a_checkpoint_that_came_to_nothing_go_with_the_next_complete_one() -> None:
    retained = RetainedSnapshots(1)
    retained.register(shared("a"), 1)
    assert complete(retained, 2).shared == (shared("a"),)


def test_one_that_may_be_in_the_journal_stays_until_it_would_be_subsumed_and_counts_for_nothing() -> None:
    retained = RetainedSnapshots(2)
    complete(retained, 1, "a")
    retained.register(shared("b"), 2)
    retained.add_unclear(snapshot(2, "b"))
    assert ids(retained) == [1]
    assert retained.latest_id == 1
    assert complete(retained, 3, "c") == NOTHING
    assert [entry.id for entry in retained.needed] == [1, 3, 2]
    retirement = complete(retained, 4, "d")
    assert deleted(retirement) == [1, 2]
    assert retirement.shared == (shared("a"), shared("b"))
    assert retirement.subsumed_id == 1


# --- restored --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ClaimMode)
def test_a_job_that_starts_from_nothing_keeps_nothing(mode: ClaimMode) -> None:
    retained = RetainedSnapshots.restored(1, [], None, mode)
    assert (retained.snapshots, retained.owned, retained.latest_id) == ((), (), NO_CHECKPOINT)


def test_the_jobs_own_checkpoints_are_owned_and_deleted_when_subsumed() -> None:
    retained = RetainedSnapshots.restored(2, [snapshot(1, "a"), snapshot(2, "b")], None, ClaimMode.NO_CLAIM)
    assert ids(retained) == [1, 2]
    assert [entry.id for entry in retained.owned] == [1, 2]
    retirement = complete(retained, 3, "b")
    assert deleted(retirement) == [1]
    assert retirement.shared == (shared("a"),)


@pytest.mark.parametrize("kind", [SnapshotKind.CHECKPOINT, SAVEPOINT])
def test_a_claimed_snapshot_is_deleted_once_subsumed(kind: SnapshotKind) -> None:
    retained = RetainedSnapshots.restored(1, [], snapshot(7, "a", kind=kind), ClaimMode.CLAIM)
    assert [entry.id for entry in retained.owned] == [7]
    retirement = complete(retained, 8, "b")
    assert deleted(retirement) == [7]
    assert retirement.shared == (shared("a"),)


def test_a_claimed_savepoint_is_kept_while_a_file_inside_it_is_used() -> None:
    retained = RetainedSnapshots.restored(1, [], snapshot(7, "a", kind=SAVEPOINT), ClaimMode.CLAIM)
    assert complete(retained, 8, "a") == NOTHING
    assert complete(retained, 9, "a") == Retirement((snapshot(8, "a"),), (), 8)
    retirement = complete(retained, 10, "b")
    assert deleted(retirement) == [7, 9]
    assert retirement.shared == (shared("a"),)


@pytest.mark.parametrize("mode", [ClaimMode.NO_CLAIM, ClaimMode.LEGACY])
@pytest.mark.parametrize("kind", [SnapshotKind.CHECKPOINT, SAVEPOINT])
def test_a_snapshot_that_is_not_claimed_leaves_the_row_and_is_never_deleted(
    mode: ClaimMode, kind: SnapshotKind
) -> None:
    retained = RetainedSnapshots.restored(1, [], snapshot(7, "a", kind=kind), mode)
    assert ids(retained) == [7]
    assert retained.owned == ()
    assert complete(retained, 8, "b") == NOTHING
    assert ids(retained) == [8]
    assert complete(retained, 9, "c") == Retirement((snapshot(8, "b"),), (shared("b"),), 8)


def test_shared_objects_of_a_snapshot_that_is_not_claimed_are_never_deleted() -> None:
    retained = RetainedSnapshots.restored(1, [], snapshot(7, "a"), ClaimMode.LEGACY)
    assert complete(retained, 8, "a").shared == ()
    assert complete(retained, 9, "b").shared == ()
    assert retained.remaining_shared() == (shared("b"),)


def test_once_the_job_has_a_snapshot_of_its_own_one_that_was_not_claimed_is_forgotten() -> None:
    retained = RetainedSnapshots.restored(2, [snapshot(8, "b")], snapshot(7, "a"), ClaimMode.NO_CLAIM)
    assert ids(retained) == [8]
    assert complete(retained, 9, "c") == NOTHING
    assert complete(retained, 10, "c") == Retirement((snapshot(8, "b"),), (shared("b"),), 8)


def test_one_that_later_checkpoints_may_depend_on_is_never_forgotten() -> None:
    retained = RetainedSnapshots.restored(2, [snapshot(8, "a")], snapshot(7, "a"), ClaimMode.LEGACY)
    assert ids(retained) == [7, 8]
    complete(retained, 9, "b")
    assert complete(retained, 10, "b") == Retirement((snapshot(8, "a"),), (), 8)


def test_a_claimed_one_is_deleted_though_the_job_has_snapshots_of_its_own() -> None:
    retained = RetainedSnapshots.restored(1, [snapshot(8, "b")], snapshot(7, "a"), ClaimMode.CLAIM)
    retirement = complete(retained, 9, "b")
    assert deleted(retirement) == [7, 8]
    assert retirement.shared == (shared("a"),)


# --- reuse -----------------------------------------------------------------------------------------------------------


def reused(name: str) -> StoredObject:
    return replace(shared(name), reused=True)


def test_what_is_reused_must_still_be_there() -> None:
    retained = RetainedSnapshots(1)
    complete(retained, 1, "a")
    assert retained.register(reused("a"), 2)
    assert not retained.register(reused("never heard of"), 2)
    retained.add(snapshot(2, "a"))
    complete(retained, 3, "b")
    assert not retained.register(reused("a"), 4), "it went with checkpoint 2"
    assert retained.register(shared("a"), 4), "written anew it is a new object"


def test_all_that_a_subtask_shares_is_registered_and_what_is_gone_is_named() -> None:
    retained = RetainedSnapshots(1)
    complete(retained, 1, "a")
    own = OperatorPart("list", OperatorStateMode.SPLIT, 1, StoredObject("own", 1))
    part = KeyedPart(KeyGroupRange(0, 127), (reused("a"), shared("b")))
    assert retained.register_all([SubtaskState(keyed=(part,), operator=(own,))], 2) is None
    gone = KeyedPart(KeyGroupRange(0, 127), (reused("gone"), shared("c")))
    assert retained.register_all([SubtaskState(keyed=(gone,)), SubtaskState()], 3) == "gone"
    retained.add(snapshot(2, "a", "b"))
    assert complete(retained, 4).shared == (shared("a"), shared("b"), shared("c"))


def test_whether_it_was_reused_is_no_part_of_what_an_object_is() -> None:
    retained = RetainedSnapshots(1)
    assert retained.register(shared("a"), 1)
    assert retained.register(reused("a"), 2)
    assert reused("a") == shared("a")


# --- savepoints ------------------------------------------------------------------------------------------------------


def test_a_restored_savepoint_counts_but_never_drives_out_the_newest_checkpoint() -> None:
    retained = RetainedSnapshots.restored(1, [snapshot(8, "b")], snapshot(7, kind=SAVEPOINT), ClaimMode.CLAIM)
    assert ids(retained) == [7, 8]
    assert deleted(complete(retained, 9, "b")) == [7, 8]
    assert ids(retained) == [9]


def test_the_savepoint_the_job_was_to_stop_with_is_the_users_and_never_deleted() -> None:
    own = [snapshot(5), snapshot(6, "inside", kind=SnapshotKind.SYNC_SAVEPOINT)]
    retained = RetainedSnapshots.restored(1, own, None, ClaimMode.NO_CLAIM)
    assert retained.latest_id == 6
    assert [entry.id for entry in retained.owned] == [5]
    assert complete(retained, 7, "a") == Retirement((snapshot(5),), ())
    assert complete(retained, 8, "b") == Retirement((snapshot(7, "a"),), (shared("a"),), 7)


def test_in_the_end_all_shared_objects_go_that_are_the_jobs_own() -> None:
    retained = RetainedSnapshots.restored(1, [], snapshot(7, "foreign"), ClaimMode.NO_CLAIM)
    complete(retained, 8, "a", "b")
    assert retained.remaining_shared() == (shared("a"), shared("b"))
    assert retained.remaining_shared() == ()


def test_the_subsumed_id_is_that_of_the_newest_if_it_can_be_deleted() -> None:
    retained = RetainedSnapshots.restored(1, [], snapshot(7, "a"), ClaimMode.NO_CLAIM)
    assert complete(retained, 8, "b").subsumed_id == NO_CHECKPOINT
    assert complete(retained, 9, "b").subsumed_id == 8
