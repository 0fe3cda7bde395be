"""Raw keyed state: bytes by key group."""

from __future__ import annotations

import pytest

from snapline.errors import UserCodeError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart
from snapline.state.raw_keyed_state import RawKeyedState
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter


def save(state: RawKeyedState, objects: MemoryObjects) -> tuple[KeyedPart, ...]:
    target = SnapshotWriter(objects, "memory://j/chk-1", None, attempt=1, checkpoint_id=1, uid="op", subtask=0)
    return state.snapshot().write(target)


def test_pieces_are_redistributed_by_key_group() -> None:
    objects = MemoryObjects()
    state = RawKeyedState("op", KeyGroupRange(0, 7), 8)
    for group, data in ((5, b"first"), (2, b"two"), (5, bytearray(b"second"))):
        state.write(group, data)
    parts = save(state, objects)
    assert [(part.raw, part.key_groups) for part in parts] == [(True, KeyGroupRange(0, 7))]
    found = []
    for owned in (KeyGroupRange(0, 3), KeyGroupRange(4, 7)):
        restored = RawKeyedState("op", owned, 8)
        restored.restore([KeyedRestore(part, owned) for part in parts], SnapshotReader(objects))
        found.append(restored.read())
    assert found == [[(2, b"two")], [(5, b"first"), (5, b"second")]]


def test_a_snapshot_does_not_see_later_changes() -> None:
    state = RawKeyedState("op", KeyGroupRange(0, 7), 8)
    assert save(state, MemoryObjects()) == ()
    state.write(1, b"x")
    snapshot = state.snapshot()
    state.clear()
    assert state.read() == []
    assert snapshot.pieces == ((1, b"x"),)


def test_wrong_pieces_are_refused() -> None:
    state = RawKeyedState("op", KeyGroupRange(0, 3), 8)
    with pytest.raises(UserCodeError, match="raw state for key group 4, but this subtask owns 0 to 3"):
        state.write(4, b"")
    with pytest.raises(UserCodeError, match="raw state is bytes, not str"):
        state.write(1, "x")  # type: ignore[arg-type]
