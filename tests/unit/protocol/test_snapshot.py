"""What a snapshot consists of, and what follows from it."""

from __future__ import annotations

import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import (
    ChannelPart,
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
    VertexInfo,
)
from snapline.types import OperatorStateMode, SnapshotKind, SubtaskId

SHARED = StoredObject("shared/a", 1, shared_key="a")
STATE = SubtaskState(
    keyed=(KeyedPart(KeyGroupRange(0, 3), (SHARED, StoredObject("k", 1))),),
    operator=(OperatorPart("list", OperatorStateMode.SPLIT, 2, StoredObject("o", 1)),),
    inputs=(ChannelPart("edge", 0, 0, StoredObject("i", 1)),),
    outputs=(ChannelPart("edge", 0, 1, StoredObject("u", 1)),),
)


def snapshot(kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Snapshot:
    operators = {"map": OperatorState("map", 1, 4, {0: STATE}, coordinator=StoredObject("c", 1))}
    return Snapshot(7, kind, 2, 1_000, "chk-7", operators, {"hook": StoredObject("h", 1)})


def test_a_snapshot_lists_every_object_once() -> None:
    assert [item.path for item in snapshot().objects()] == ["shared/a", "k", "o", "i", "u", "c", "h"]


def test_only_objects_with_a_key_are_shared() -> None:
    assert snapshot().shared() == {"a": SHARED}


@pytest.mark.parametrize("kind", SnapshotKind)
def test_only_checkpoints_share_single_objects_with_later_ones(kind: SnapshotKind) -> None:
    assert snapshot(kind).is_sharing is (kind is SnapshotKind.CHECKPOINT)


def test_the_metadata_lies_beside_the_objects() -> None:
    assert snapshot().metadata_path == "chk-7/_metadata"


def test_a_reused_or_checked_object_is_still_the_same_object() -> None:
    assert StoredObject("a", 1, reused=True, crc32=5) == StoredObject("a", 1)
    assert StoredObject("a", 1, offset=1) != StoredObject("a", 1)


def test_an_empty_object_may_be_inline() -> None:
    assert StoredObject("a", 0, data=b"").is_inline
    assert not StoredObject("a", 0).is_inline


def test_an_operator_is_partly_finished_while_some_subtasks_have_left() -> None:
    left, there = SubtaskState(finished=True), SubtaskState()
    assert OperatorState("map", 2, 4, {0: left, 1: there}).is_partly_finished
    assert not OperatorState("map", 2, 4, {0: there, 1: there}).is_partly_finished
    assert not OperatorState("map", 2, 4, fully_finished=True).is_partly_finished


def test_the_subtasks_of_a_vertex() -> None:
    assert list(VertexInfo("map", 2, 4, ("map",)).subtasks()) == [SubtaskId("map", 0), SubtaskId("map", 1)]
