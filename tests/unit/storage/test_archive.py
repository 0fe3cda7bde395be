"""Names of savepoints and checkpoints; `tests/contract/test_archives.py` covers the life of a job's checkpoints."""

from __future__ import annotations

from random import Random

import pytest

from snapline.errors import StorageError
from snapline.storage.archive import SAVEPOINT_NAME_TRIES, Archive
from snapline.storage.journals.journal_store import MemoryJournal
from snapline.storage.objects.memory_objects import MemoryObjects


def test_each_checkpoint_has_a_directory_beside_the_shared_one() -> None:
    archive = Archive(MemoryObjects(), MemoryJournal(), "memory://store/job/", "driver")
    assert archive.location(7) == "memory://store/job/chk-7"
    assert archive.shared_directory == "memory://store/job/shared"


def test_savepoints_get_unused_names() -> None:
    objects = MemoryObjects()

    def archive(seed: int) -> Archive:
        return Archive(objects, MemoryJournal(), "memory://store/job", "driver", random=Random(seed))

    first = archive(1).savepoint_location("memory://target/", "0123456789abcdef")
    assert first.startswith("memory://target/savepoint-012345-")
    assert len(first.rpartition("-")[2]) == 12
    objects.write(f"{first}/a1-state", b"x")
    assert archive(1).savepoint_location("memory://target", "0123456789abcdef") != first
    taken = Random(2)
    for _ in range(SAVEPOINT_NAME_TRIES):
        objects.write(f"memory://target/savepoint-012345-{taken.getrandbits(48):012x}/a1-state", b"x")
    with pytest.raises(StorageError, match="all taken"):
        archive(2).savepoint_location("memory://target", "0123456789abcdef")
