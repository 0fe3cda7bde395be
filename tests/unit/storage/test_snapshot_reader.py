"""`SnapshotReader` reads the nearest intact copy, and nothing damaged."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapline.errors import DamagedError, ObjectNotFoundError
from snapline.protocol.snapshot import StoredObject
from snapline.storage.local_copies import LocalCopies
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions

PIECES = [b"first slice", b"", b"the second"]


class Place:
    """Storage, local copies of checkpoint 3, and ways to read them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.objects = MemoryObjects()
        self.local = LocalCopies(directory / "copies")
        self.writer = SnapshotWriter(
            self.objects,
            "memory://job/chk-3",
            None,
            attempt=1,
            checkpoint_id=3,
            uid="op",
            subtask=0,
            options=WriteOptions(inline_bytes=0),
            local=self.local,
        )
        self._fetched = 0

    def reader(self, checkpoint_id: int | None = 3) -> SnapshotReader:
        return SnapshotReader(self.objects, self.local, checkpoint_id)

    def copy(self, item: StoredObject) -> Path:
        copy = self.local.find(3, item.path)
        assert copy is not None
        return copy

    def spoil_storage(self, item: StoredObject) -> None:
        self.objects.write(item.path, b"?" * len(self.objects.read(item.path)))

    def read(self, item: StoredObject, reader: SnapshotReader) -> bytes:
        return reader.read(item)

    def open(self, item: StoredObject, reader: SnapshotReader) -> bytes:
        with reader.open(item) as file:
            assert file.tell() == 0
            return file.read()

    def fetch(self, item: StoredObject, reader: SnapshotReader) -> bytes:
        self._fetched += 1
        target = self.directory / f"fetched-{self._fetched}"
        reader.fetch(item, target)
        return target.read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


Way = Callable[[Place, StoredObject, SnapshotReader], bytes]
every_way = pytest.mark.parametrize("way", [Place.read, Place.open, Place.fetch])


@every_way
def test_from_storage(place: Place, way: Way) -> None:
    item = place.writer.write("s", b"content")
    assert way(place, item, SnapshotReader(place.objects)) == b"content"


@every_way
def test_from_the_metadata(place: Place, way: Way) -> None:
    item = StoredObject("inline:s", 7, data=b"content")
    assert way(place, item, place.reader()) == b"content"
    with pytest.raises(DamagedError, match="has 7 bytes, not 8"):
        way(place, replace(item, size_bytes=8), place.reader())
    with pytest.raises(DamagedError, match="checksum"):
        way(place, replace(item, crc32=1), place.reader())


@every_way
@pytest.mark.parametrize("local", [True, False])
def test_slices(place: Place, way: Way, local: bool, caplog: pytest.LogCaptureFixture) -> None:
    items = place.writer.write_slices("s", PIECES)
    if local:
        place.spoil_storage(items[0])
    reader = place.reader() if local else SnapshotReader(place.objects)
    assert [way(place, item, reader) for item in items] == PIECES
    assert caplog.text == ""


@every_way
def test_the_local_copy_comes_first(place: Place, way: Way) -> None:
    item = place.writer.write("s", b"content")
    place.objects.delete([item.path])
    assert way(place, item, place.reader()) == b"content"


@every_way
@pytest.mark.parametrize("restored", [2, 4, None])
def test_a_copy_of_another_checkpoint_is_not_used(
    place: Place, way: Way, restored: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    item = place.writer.write("s", b"content")
    place.copy(item).write_bytes(b"CONTENT")
    assert way(place, item, place.reader(restored)) == b"content"
    assert caplog.text == ""


@every_way
@pytest.mark.parametrize("damage", [b"cont", b"", b"CONTENT", b"content and more"])
def test_a_damaged_copy_falls_back_to_storage_with_a_warning(
    place: Place, way: Way, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    item = place.writer.write("s", b"content")
    place.copy(item).write_bytes(damage)
    assert way(place, item, place.reader()) == b"content"
    warned = f"the local copy of {item.path} is unusable" in caplog.text
    assert warned or damage.startswith(b"content")


@every_way
def test_a_damaged_slice_of_a_copy_falls_back_to_storage(
    place: Place, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    items = place.writer.write_slices("s", PIECES)
    place.copy(items[0]).write_bytes(b"".join(PIECES).upper())
    assert [way(place, item, place.reader()) for item in items] == PIECES
    assert caplog.text.count("is unusable") == 2


@every_way
@pytest.mark.parametrize("damage", [b"cont", b"", b"CONTENT"])
def test_what_is_damaged_in_storage_is_an_error(place: Place, way: Way, damage: bytes) -> None:
    item = place.writer.write("s", b"content")
    place.local.abort(3)
    place.objects.write(item.path, damage)
    if way is Place.open and len(damage) == 7:
        assert way(place, item, place.reader()) == damage, "the caller verifies what it reads from an open file"
        return
    with pytest.raises(DamagedError, match="damaged"):
        way(place, item, place.reader())
    assert [path.name for path in place.directory.iterdir()] == ["copies"]


@every_way
def test_what_is_neither_here_nor_there(place: Place, way: Way) -> None:
    with pytest.raises(ObjectNotFoundError):
        way(place, StoredObject("memory://job/nothing", 3), place.reader())


@every_way
def test_a_copy_without_a_known_checksum_counts_by_its_size(place: Place, way: Way) -> None:
    item = replace(place.writer.write("s", b"content"), crc32=None)
    place.objects.delete([item.path])
    assert way(place, item, place.reader()) == b"content"


def test_a_copy_is_fetched_without_copying_it(place: Place) -> None:
    item = place.writer.write("s", b"content")
    target = place.directory / "file"
    place.reader().fetch(item, target)
    assert target.samefile(place.copy(item))


def test_a_copy_on_another_file_system_is_copied(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    item = place.writer.write("s", b"content")
    place.objects.delete([item.path])
    monkeypatch.setattr(os, "link", no_link)
    target = place.directory / "file"
    place.reader().fetch(item, target)
    assert target.read_bytes() == b"content"
    assert not target.samefile(place.copy(item))


def test_an_opened_object_can_be_read_in_parts(place: Place) -> None:
    item = place.writer.write("s", b"0123456789")
    for reader in (place.reader(), SnapshotReader(place.objects)):
        with reader.open(item) as file:
            file.seek(-3, os.SEEK_END)
            assert file.read(2) == b"78"
            file.seek(1)
            assert file.read(2) == b"12"
