"""What is remembered of checkpoints that were given up."""

from __future__ import annotations

from snapline.protocol.coordinator.aborted_checkpoints import AbortedCheckpoints
from snapline.types import SnapshotKind


def test_the_newest_are_remembered_with_their_kind_and_place() -> None:
    aborted = AbortedCheckpoints(2)
    aborted.add(1, SnapshotKind.CHECKPOINT, "chk-1")
    aborted.add(2, SnapshotKind.SAVEPOINT, None)
    aborted.add(3, SnapshotKind.CHECKPOINT, "chk-3")
    assert [aborted.kind(number) for number in (1, 2, 3)] == [None, SnapshotKind.SAVEPOINT, SnapshotKind.CHECKPOINT]
    assert [aborted.location(number) for number in (1, 2, 3)] == [None, None, "chk-3"]
