"""The rows of a state in a snapshot."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.state.inspection.snapshot_kit import write_checkpoint

from snapline.errors import ConfigurationError, DamagedError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import Snapshot
from snapline.state.inspection.state_rows import select_state, state_rows
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


def _shown(snapshot: Snapshot, objects: MemoryObjects, name: str, **filters: Any) -> list[tuple[int, Any]]:
    source = SnapshotReader(objects)
    operator, state = select_state(snapshot, source, name)
    return [
        (part.subtask, row.get("key", row["value"]))
        for part in state_rows(operator, state, source, **filters)
        for row in part.table.to_pylist()
    ]


def test_the_rows_of_a_state(objects: MemoryObjects) -> None:
    snapshot = write_checkpoint(objects)
    assert _shown(snapshot, objects, "a/b/one") == [(0, "k0"), (0, "k4"), (0, "x"), (1, "k5"), (1, "k9"), (1, "x")]
    assert _shown(snapshot, objects, "a/b/x/two") == [(1, "k5")]
    assert _shown(snapshot, objects, "a/b/one", subtask=1) == [(1, "k5"), (1, "k9"), (1, "x")]
    assert _shown(snapshot, objects, "a/b/one", key_groups=KeyGroupRange(4, 5)) == [(0, "k4"), (1, "k5")]
    assert _shown(snapshot, objects, "a/b/seen") == [(0, 0), (0, 0), (1, 1), (1, 1)]


def test_an_unknown_state_is_answered_with_the_known_ones(objects: MemoryObjects) -> None:
    snapshot = write_checkpoint(objects)
    with pytest.raises(ConfigurationError, match="the uids are: a/b, done, native"):
        _shown(snapshot, objects, "other/one")
    with pytest.raises(ConfigurationError, match="there is: a/b/one, a/b/seen, a/b/x/two"):
        _shown(snapshot, objects, "a/b/other")
    with pytest.raises(ConfigurationError, match="no subtask 2, but 0 to 1"):
        _shown(snapshot, objects, "a/b/one", subtask=2)
    with pytest.raises(ConfigurationError, match="there is: none"):
        _shown(snapshot, objects, "native/any")


def test_a_damaged_file_is_named(objects: MemoryObjects) -> None:
    snapshot = write_checkpoint(objects)
    item = snapshot.operators["a/b"].subtasks[1].keyed[0].objects[0]
    data = bytearray(objects.read(item.path))
    data[-1] ^= 1
    objects.write(item.path, data)
    with pytest.raises(DamagedError, match=item.path):
        _shown(snapshot, objects, "a/b/one")
