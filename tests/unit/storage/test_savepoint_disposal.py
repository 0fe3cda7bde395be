"""Savepoints are deleted with their own files only, and nothing else ever is."""

from __future__ import annotations

import pytest

from snapline.errors import ConfigurationError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.storage import snapshot_metadata
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.savepoint_disposal import dispose_savepoint
from snapline.types import SavepointFormat, SnapshotKind

ROOT = "memory://savepoints"
LOCATION = f"{ROOT}/savepoint-job-1"


@pytest.fixture
def objects() -> MemoryObjects:
    """A savepoint of one file, and a neighbour."""
    objects = MemoryObjects()
    store(objects, LOCATION)
    store(objects, f"{LOCATION}2")
    return objects


def store(objects: MemoryObjects, location: str, kind: SnapshotKind = SnapshotKind.SAVEPOINT) -> None:
    objects.write(f"{location}/state", b"12345")
    part = KeyedPart(KeyGroupRange(0, 127), (StoredObject(f"{location}/state", 5),))
    operators = {"a": OperatorState("a", 1, 128, {0: SubtaskState(keyed=(part,))})}
    form = SavepointFormat.CANONICAL if kind.is_savepoint else None
    made = Snapshot(7, kind, 1, 0, location, operators, {}, form)
    objects.write(made.metadata_path, snapshot_metadata.encode(made))


def names(objects: MemoryObjects) -> list[str]:
    return [info.path.removeprefix(f"{ROOT}/") for info in objects.list(ROOT)]


@pytest.mark.parametrize("path", [LOCATION, f"{LOCATION}/", f"{LOCATION}/_metadata"])
def test_a_savepoint_goes_and_its_neighbour_stays(objects: MemoryObjects, path: str) -> None:
    assert dispose_savepoint(objects, path).id == 7
    assert names(objects) == ["savepoint-job-12/_metadata", "savepoint-job-12/state"]
    with pytest.raises(ConfigurationError, match="no savepoint"):
        dispose_savepoint(objects, path)


def test_what_somebody_else_put_there_goes_with_it(objects: MemoryObjects) -> None:
    objects.write(f"{LOCATION}/_fork-x", b"")
    dispose_savepoint(objects, LOCATION)
    assert not objects.list(LOCATION)


def test_a_checkpoint_is_not_a_savepoint(objects: MemoryObjects) -> None:
    store(objects, f"{ROOT}/job/chk-7", SnapshotKind.CHECKPOINT)
    with pytest.raises(ConfigurationError, match="is checkpoint 7, no savepoint"):
        dispose_savepoint(objects, f"{ROOT}/job/chk-7")
    assert "job/chk-7/_metadata" in names(objects)


def test_what_cannot_be_read_is_not_deleted(objects: MemoryObjects) -> None:
    objects.write(f"{LOCATION}/_metadata", b"?")
    with pytest.raises(ConfigurationError, match="not deleted"):
        dispose_savepoint(objects, LOCATION)
    assert f"{LOCATION}/state".removeprefix(f"{ROOT}/") in names(objects)


def test_a_directory_that_is_not_allowed_is_not_even_read(objects: MemoryObjects) -> None:
    before = names(objects)
    asked: list[str] = []

    def is_allowed(location: str) -> bool:
        asked.append(location)
        return False

    with pytest.raises(ConfigurationError, match="in no directory of this job"):
        dispose_savepoint(objects, f"{LOCATION}/_metadata", is_allowed)
    assert (asked, names(objects)) == ([LOCATION], before)


def test_files_that_its_metadata_names_elsewhere_stay(objects: MemoryObjects) -> None:
    """Anybody may have written the metadata: it must not make us delete other people's files."""
    objects.write("memory://other/precious", b"12345")
    part = KeyedPart(KeyGroupRange(0, 127), (StoredObject("memory://other/precious", 5),))
    operators = {"a": OperatorState("a", 1, 128, {0: SubtaskState(keyed=(part,))})}
    made = Snapshot(7, SnapshotKind.SAVEPOINT, 1, 0, LOCATION, operators, {}, SavepointFormat.CANONICAL)
    objects.write(made.metadata_path, snapshot_metadata.encode(made))
    with pytest.raises(ConfigurationError):
        dispose_savepoint(objects, LOCATION)
    assert objects.read("memory://other/precious") == b"12345"
