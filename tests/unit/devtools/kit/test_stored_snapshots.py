"""Snapshots in storage: damage and leftovers are found. tests/integration/test_crash_points.py lives on it."""

from __future__ import annotations

from snapline.devtools.kit.stored_snapshots import JOURNAL, damage, leftovers, store_objects
from snapline.storage.archive import Archive
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.objects.memory_objects import MemoryObjects

DIRECTORY = "/jobs/counts"


def test_damage_and_leftovers() -> None:
    objects = MemoryObjects()
    archive = Archive(objects, ObjectJournal(objects, f"{DIRECTORY}/{JOURNAL}"), DIRECTORY, "driver")
    first = store_objects(objects, archive, 1, 1, shared=["a"])
    assert damage(objects, first) == [first.metadata_path]
    archive.write_metadata(first)
    assert damage(objects, first) == []
    objects.write(f"{DIRECTORY}/{JOURNAL}/1", b"record")
    objects.write(f"{DIRECTORY}/forgotten", b"")
    assert leftovers(objects, DIRECTORY, [first]) == [f"{DIRECTORY}/forgotten"]

    shared = [item for item in first.objects() if item.shared_key is not None]
    second = store_objects(objects, archive, 1, 2, reused=shared)
    archive.write_metadata(second)
    assert damage(objects, second) == []
    objects.write(shared[0].path, b"x" * shared[0].size_bytes)
    assert damage(objects, first) == damage(objects, second) == [shared[0].path]
