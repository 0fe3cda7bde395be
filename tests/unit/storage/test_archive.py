"""Names of savepoints and checkpoints; `tests/contract/test_archives.py` covers the life of a job's checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from snapline.config import Checkpoints
from snapline.errors import DamagedError, EngineError, StorageError
from snapline.protocol.journal import Record, RecordKind
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.archive import SAVEPOINT_NAME_TRIES, Archive
from snapline.storage.journals.journal_store import MemoryJournal
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_paths import TEMPORARY
from snapline.storage.storage_factory import monitor_directory, open_archive, open_objects
from snapline.types import ClaimMode, JobStatus, SnapshotKind


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


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED])
def test_what_people_look_at_outlives_the_checkpoints(tmp_path: Path, status: JobStatus) -> None:
    settings = Checkpoints(storage=tmp_path, externalized="NO_EXTERNALIZED")
    directory = Path(str(monitor_directory(settings, "job")))
    directory.mkdir(parents=True)
    for name in ("history-1-me.json.gz", "address.json", f"{TEMPORARY}half-written"):
        (directory / name).write_text("kept")
    archive = open_archive(settings, "job", "me")
    journal, _ = archive.claim()
    archive.recover(journal.attempt)
    made = holding(f"{archive.location(1)}/a1-state", archive.location(1))
    archive.write_metadata(made)
    archive.publish(made)
    retained = RetainedSnapshots.restored(1, [made], None, ClaimMode.NO_CLAIM)
    archive.finish(journal.attempt, status, settings.externalized, retained, limit=1)
    assert not Path(archive.location(1)).exists()
    assert len(list(directory.iterdir())) == 3


# Directories that others can write to.


def holding(path: str, location: str, checkpoint_id: int = 1) -> Snapshot:
    """A checkpoint whose state is in the file `path`."""
    coordinator = StoredObject(path, 4)
    operator = OperatorState("op", 1, 1, {0: SubtaskState()}, coordinator)
    return Snapshot(checkpoint_id, SnapshotKind.CHECKPOINT, 1, 0, location, {"op": operator}, {}, None)


def plant(location: str, path: str) -> None:
    Path(location).mkdir(parents=True)
    Path(location, "_metadata").write_bytes(metadata.encode(holding(path, location)))


def test_a_snapshot_that_names_files_elsewhere_is_refused(tmp_path: Path) -> None:
    treasure, location = tmp_path / "home" / "treasure", f"{tmp_path}/jobs/other/chk-1"
    treasure.parent.mkdir()
    treasure.write_text("mine")
    plant(location, str(treasure))
    settings = Checkpoints(storage=tmp_path / "jobs", restore_from=location, claim_mode="CLAIM")
    with pytest.raises(DamagedError, match=r"names the file .*treasure.*trusted_directories"):
        open_archive(settings, "job", "me").read_snapshot(location)
    trusting = Checkpoints(storage=tmp_path / "jobs", trusted_directories=[tmp_path / "home"])
    (read,) = open_archive(trusting, "job", "me").read_snapshot(location).objects()
    assert read.path == str(treasure)


def test_nothing_elsewhere_is_deleted_whoever_asks_for_it(tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.write_text("mine")
    archive = open_archive(Checkpoints(storage=tmp_path / "jobs"), "job", "me")
    snapshot = holding(str(treasure), f"{tmp_path}/jobs/other/chk-1")
    deletions: list[Callable[[], None]] = [
        lambda: archive.delete_shared([StoredObject(str(treasure), 4)]),
        lambda: archive.discard([StoredObject(str(treasure), 4)], None, 1),
        lambda: archive.delete_snapshot(snapshot, RetainedSnapshots.restored(1, (), None, ClaimMode.NO_CLAIM)),
    ]
    for delete in deletions:
        with pytest.raises(EngineError, match="in no directory of this job"):
            delete()
    assert treasure.read_text() == "mine"


def test_a_journal_that_names_a_checkpoint_elsewhere_is_refused(tmp_path: Path) -> None:
    plant(f"{tmp_path}/home/chk-1", f"{tmp_path}/home/chk-1/state")
    settings, journal = Checkpoints(storage=tmp_path / "jobs"), MemoryJournal()
    attempt = open_archive(settings, "job", "first", journal=journal).claim()[0].attempt
    assert journal.create(Record(RecordKind.CHECKPOINT, attempt, "first", 0, 1, f"{tmp_path}/home/chk-1"))
    second = open_archive(settings, "job", "second", journal=journal)
    attempt = second.claim()[0].attempt
    with pytest.raises(DamagedError, match=r"in no directory of this job.*trusted_directories"):
        second.recover(attempt)
    assert Path(tmp_path, "home", "chk-1", "_metadata").exists()


def test_metadata_above_the_limit_is_neither_read_nor_written(tmp_path: Path) -> None:
    settings = Checkpoints(storage=tmp_path / "jobs", metadata_limit="1MB")
    archive = open_archive(settings, "job", "me")
    location = archive.location(1)
    large = StoredObject("state", 2 << 20, data=b"x" * (2 << 20))
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, location, {}, {"hook": large}, None)
    with pytest.raises(StorageError, match=r"more than metadata_limit \(1048576\); raise the limit"):
        archive.write_metadata(snapshot)
    Path(location).mkdir(parents=True)
    with open(f"{location}/_metadata", "wb") as file:
        os.truncate(file.fileno(), 1 << 40)  # a terabyte, of which nothing may be allocated
    with pytest.raises(DamagedError, match=r"more than 1048576 bytes \(metadata_limit\)"):
        archive.read_snapshot(location)


@pytest.mark.parametrize("name", ["job", "job/chk-1", "job/shared", "job/chk-1/_metadata", "job/journal"])
def test_symbolic_links_in_the_storage_of_a_job_lead_nowhere(tmp_path: Path, name: str) -> None:
    storage, target = tmp_path / "jobs", tmp_path / "home"
    target.mkdir()
    (target / "_metadata").write_text("mine")
    link = storage / name
    link.parent.mkdir(parents=True)
    link.symlink_to(target if not name.endswith("_metadata") else target / "_metadata")
    objects = open_objects(Checkpoints(storage=storage))
    inside = f"{link}/_metadata" if not name.endswith("_metadata") else str(link)
    for use in (
        lambda: objects.read(inside),
        lambda: objects.size_bytes(inside),
        lambda: objects.open(inside),
        lambda: objects.create(f"{link}/new", b"x"),
        lambda: objects.write(inside, b"x"),
        lambda: objects.delete([inside]),
        lambda: objects.list(str(link)),
        lambda: objects.delete_tree(str(link)),
        lambda: objects.sweep(str(link), lambda path: True),
    ):
        with pytest.raises(StorageError, match="is a symbolic link"):
            use()
    assert (target / "_metadata").read_text() == "mine"
    assert [path.name for path in target.iterdir()] == ["_metadata"]


def test_the_storage_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "jobs").symlink_to(tmp_path / "disk")
    archive = open_archive(Checkpoints(storage=tmp_path / "jobs"), "job", "me")
    assert archive.claim()[1]


def test_directories_and_files_get_the_mode_of_the_settings(tmp_path: Path) -> None:
    objects = open_objects(Checkpoints(storage=tmp_path / "jobs", directory_mode="0750"))
    objects.create(f"{tmp_path}/jobs/job/chk-1/a", b"x")
    objects.write(f"{tmp_path}/jobs/job/chk-1/b", b"x")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "jobs").rglob("*")}
    assert modes == {"job": 0o750, "chk-1": 0o750, "a": 0o640, "b": 0o640}
    assert (tmp_path / "jobs").stat().st_mode & 0o777 == 0o750
