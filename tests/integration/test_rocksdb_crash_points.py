"""A crash at any storage call while RocksDB's files are uploaded: the next driver has the old state or the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.devtools.kit.counting_job import CountingJob
from snapline.devtools.kit.faulty_objects import FaultyObjects
from snapline.devtools.kit.stored_snapshots import damage, leftovers
from snapline.errors import StorageError
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_writer import WriteOptions

DIRECTORY = "memory://store/job"
WORDS = [f"word {number}" for number in range(50)]
OPTIONS = WriteOptions(inline_bytes=0)

FAILURES = [
    pytest.param(False, False, id="fails before its effect"),
    pytest.param(True, False, id="fails after its effect"),
    pytest.param(False, True, id="crash before its effect"),
    pytest.param(True, True, id="crash after its effect"),
]


class Place:
    """Storage with one checkpoint in it, and directories for databases."""

    def __init__(self, directory: Path, objects: MemoryObjects) -> None:
        self.directory = directory
        self.objects = MemoryObjects()
        for path, data in objects._objects.items():
            self.objects.write(path, data)

    def job(self, driver: str, objects: FaultyObjects | None = None) -> CountingJob:
        return CountingJob(
            objects or self.objects,
            DIRECTORY,
            self.directory / driver,
            backend="rocksdb",
            driver=driver,
            options=OPTIONS,
        )

    def second(self, faulty: FaultyObjects) -> int:
        """A driver that restores, counts on, and takes an incremental checkpoint; how many it saw complete."""
        completed = 0
        job = None
        try:
            job = self.job("second", faulty)
            job.count(WORDS)
            job.checkpoint()
            completed = 1
        except StorageError:
            pass
        finally:
            if job is not None:
                job.close()
        return completed

    def check(self, completed: int) -> int:
        """What a third driver finds: how often each word was counted, the same for all."""
        job = self.job("third")
        assert job.recovered.warnings == ()
        assert [damage(self.objects, snapshot) for snapshot in job.recovered.snapshots] == [
            [] for _ in job.recovered.snapshots
        ]
        assert leftovers(self.objects, DIRECTORY, job.recovered.snapshots) == []
        (count,) = set(job.counts(WORDS))
        assert count is not None
        assert 1 + completed <= count <= 2
        job.count(WORDS)
        last = job.checkpoint()
        assert damage(self.objects, last) == []
        assert leftovers(self.objects, DIRECTORY, [last]) == []
        assert set(job.counts(WORDS)) == {count + 1}
        job.close()
        assert list(self.directory.iterdir()) == [], "a database was left on the disk"
        return count


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> MemoryObjects:
    """What the first driver leaves: one checkpoint."""
    place = Place(tmp_path_factory.mktemp("first"), MemoryObjects())
    job = place.job("first")
    job.count(WORDS)
    job.checkpoint()
    job.close()
    return place.objects


@pytest.mark.slow
@pytest.mark.parametrize(("after_effect", "crash"), FAILURES)
def test_a_failure_at_any_step_leaves_the_old_state_or_the_new_and_no_waste(
    first: MemoryObjects, tmp_path: Path, after_effect: bool, crash: bool
) -> None:
    place = Place(tmp_path / "0", first)
    counting = FaultyObjects(place.objects)
    assert place.second(counting) == 1
    assert place.check(1) == 2
    calls = counting.calls
    assert {method for method, _ in calls} >= {"create", "write", "upload", "download", "read", "list", "delete"}
    assert any(method == "upload" and "/shared/" in path for method, path in calls)
    found = set()
    # Every second step: at each of them something goes wrong, before its effect or after it.
    for fail_at in range(2 if after_effect else 1, len(calls) + 1, 2):
        place = Place(tmp_path / str(fail_at), first)
        faulty = FaultyObjects(place.objects, fail_at, after_effect=after_effect, crash=crash)
        completed = place.second(faulty)
        assert len(faulty.calls) >= fail_at
        found.add(place.check(completed))
    assert found == {1, 2}
