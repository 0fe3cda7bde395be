"""The limit on metadata; `tests/contract/test_archives.py` covers who may write it."""

from __future__ import annotations

import pytest

from snapline.errors import DamagedError, FencedError, StorageError
from snapline.protocol.snapshot import Snapshot
from snapline.storage.metadata_objects import MetadataObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.types import SnapshotKind

LOCATION = "memory://jobs/job/chk-1"


def snapshot(attempt: int = 1) -> Snapshot:
    return Snapshot(1, SnapshotKind.CHECKPOINT, attempt, 0, LOCATION, {}, {}, None)


def test_what_fits_comes_back_and_is_never_replaced() -> None:
    made = MetadataObjects(MemoryObjects(), None, 1000)
    for _ in range(2):
        made.create(snapshot(), made.encode(snapshot()))
    assert made.read(LOCATION) == snapshot()
    with pytest.raises(FencedError, match="of attempt 1"):
        made.create(snapshot(2), made.encode(snapshot(2)))


def test_the_limit_is_exact() -> None:
    objects = MemoryObjects()
    data = MetadataObjects(objects, None, 1000).encode(snapshot())
    fits, small = (MetadataObjects(objects, None, limit) for limit in (len(data), len(data) - 1))
    fits.create(snapshot(), fits.encode(snapshot()))
    assert fits.read(LOCATION) == snapshot()
    with pytest.raises(DamagedError, match="metadata_limit"):
        small.read(LOCATION)
    with pytest.raises(StorageError, match="metadata_limit"):
        small.encode(snapshot())
