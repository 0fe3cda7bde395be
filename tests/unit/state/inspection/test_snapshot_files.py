"""The files of a snapshot, with errors that name them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.state.inspection.snapshot_kit import write_checkpoint

from snapline.errors import ConfigurationError, DamagedError, ObjectNotFoundError
from snapline.protocol.snapshot import StoredObject
from snapline.state.inspection.snapshot_files import (
    check_file,
    describe_file,
    library_damage,
    native_parts,
    read_listing,
    state_objects,
)
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader


def test_the_files_of_an_operator() -> None:
    objects = MemoryObjects()
    source, operators = SnapshotReader(objects), write_checkpoint(objects).operators
    found = [(index, describe_file(item, source).info.state) for index, item in state_objects(operators["a/b"])]
    assert found == [(index, name) for index in (0, 1) for name in ("one", "x/two", "seen", "one")]
    assert list(native_parts(operators["a/b"])) == []
    ((index, part),) = native_parts(operators["native"])
    assert index == 0
    assert read_listing(part, source).files == ["000001.sst"]


def test_files_of_an_unknown_backend() -> None:
    objects = MemoryObjects()
    ((_, part),) = native_parts(write_checkpoint(objects).operators["native"])
    with pytest.raises(ConfigurationError, match="lists files of other, which cannot be shown"):
        read_listing(replace(part, native="other"), SnapshotReader(objects))


def test_a_missing_file_is_named() -> None:
    missing = StoredObject("memory://d/job/gone", 3)
    with pytest.raises(ObjectNotFoundError, match="memory://d/job/gone, a file of the snapshot, is not there"):
        check_file(missing, SnapshotReader(MemoryObjects()))


def test_whatever_a_library_raises_is_damage() -> None:
    item = StoredObject("memory://d/job/listing", 3)
    with (
        pytest.raises(DamagedError, match=r"memory://d/job/listing is damaged.*ZeroDivisionError"),
        library_damage(item),
    ):
        _ = 1 // 0
    with pytest.raises(ConfigurationError), library_damage(item):
        raise ConfigurationError("not damage")
