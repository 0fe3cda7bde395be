"""The counting job without a runtime; tests/integration/test_killed_writer.py kills it."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.devtools.kit.counting_job import CountingJob
from snapline.storage.objects.memory_objects import MemoryObjects


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_the_next_driver_goes_on_from_the_last_checkpoint(backend: str, tmp_path: Path) -> None:
    objects = MemoryObjects()
    first = CountingJob(objects, "/jobs/words", tmp_path / "1", backend=backend, driver="one")
    first.count(["a", "b", "a"])
    snapshot = first.checkpoint()
    first.count(["a"])
    first.close()
    second = CountingJob(objects, "/jobs/words", tmp_path / "2", backend=backend, driver="two")
    assert second.attempt > first.attempt
    assert second.latest is not None
    assert second.latest.id == snapshot.id
    assert second.counts(["a", "b", "c"]) == [2, 1, None]
    second.close()
