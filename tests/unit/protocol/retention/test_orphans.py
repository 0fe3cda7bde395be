"""The sweep: what older attempts left and nothing canonical needs."""

from __future__ import annotations

from snapline.protocol.retention.orphans import orphans
from snapline.protocol.snapshot import OperatorPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.types import OperatorStateMode, SnapshotKind


def snapshot(checkpoint_id: int, *paths: str) -> Snapshot:
    parts = tuple(OperatorPart(path, OperatorStateMode.SPLIT, 1, StoredObject(path, 1)) for path in paths)
    operators = {"op": OperatorState("op", 1, 128, {0: SubtaskState(operator=parts)})}
    return Snapshot(checkpoint_id, SnapshotKind.CHECKPOINT, 1, 0, f"job/chk-{checkpoint_id}", operators)


def test_objects_of_older_attempts_that_nothing_refers_to_are_swept() -> None:
    objects = [("job/shared/a-1", 1), ("job/shared/b-2", 2), ("job/chk-4/x-1", 1)]
    assert orphans(objects, [], attempt=3) == ("job/shared/a-1", "job/shared/b-2", "job/chk-4/x-1")


def test_what_a_canonical_snapshot_refers_to_is_kept_wherever_it_lies() -> None:
    objects = [("job/shared/a-1", 1), ("job/shared/b-1", 1)]
    assert orphans(objects, [snapshot(5, "job/shared/a-1")], attempt=2) == ("job/shared/b-1",)


def test_of_a_canonical_place_only_the_metadata_and_what_it_refers_to_is_kept() -> None:
    """The same id may have been tried before: what an older attempt left in the same place is waste."""
    objects = [("job/chk-5/_metadata", 1), ("job/chk-5/x-1", 1), ("job/chk-5/left-1", 1), ("job/chk-4/_metadata", 1)]
    assert orphans(objects, [snapshot(5, "job/chk-5/x-1")], attempt=2) == ("job/chk-5/left-1", "job/chk-4/_metadata")


def test_several_canonical_snapshots_all_count() -> None:
    objects = [("job/shared/a-1", 1), ("job/shared/b-1", 1), ("job/shared/c-1", 1)]
    canonical = [snapshot(4, "job/shared/a-1"), snapshot(5, "job/shared/b-1")]
    assert orphans(objects, canonical, attempt=2) == ("job/shared/c-1",)


def test_objects_of_this_attempt_and_of_newer_ones_are_left_alone() -> None:
    objects = [("job/chk-9/x-3", 3), ("job/chk-9/x-4", 4), ("job/chk-9/x-2", 2)]
    assert orphans(objects, [], attempt=3) == ("job/chk-9/x-2",)


def test_once_the_job_has_ended_its_own_leftovers_go_too_but_never_a_newer_attempts() -> None:
    objects = [("job/chk-9/x-3", 3), ("job/chk-9/x-4", 4), ("job/chk-5/x-3", 3)]
    assert orphans(objects, [snapshot(5, "job/chk-5/x-3")], attempt=3, ended=True) == ("job/chk-9/x-3",)
