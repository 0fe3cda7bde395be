"""Opens and checks the storage of a job before anything is started."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from snapline.config import Checkpoints
from snapline.errors import RestoreError, StorageError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.snapshot import Snapshot
from snapline.storage.archive import Archive
from snapline.storage.journals.journal_store import JournalStore
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import Bytes, ObjectInfo, ObjectStore
from snapline.storage.storage_factory import DRIVER_DIRECTORY, check_job_id, open_archive, open_files, open_objects
from snapline.types import JobStatus


@dataclass(frozen=True, slots=True)
class MasterStorage:
    """`given` is the snapshot the user named; None too if it was deleted and the job no longer needs it."""

    archive: Archive
    objects: ObjectStore
    given: Snapshot | None
    is_in_driver: bool
    owns_journal: bool

    def close(self) -> None:
        """Close connections; stored data stays."""
        if self.owns_journal:
            self.archive.disconnect()


class DriverObjects:
    """Checkpoints of one job in the driver's memory; everything else, such as savepoints, in files."""

    def __init__(self, directory: str, files: ObjectStore) -> None:
        self._start = f"{directory}/"
        self._memory = MemoryObjects()
        self._files = files

    def _of(self, path: str) -> ObjectStore:
        return self._memory if f"{path}/".startswith(self._start) else self._files

    def create(self, path: str, data: Bytes) -> bool:
        return self._of(path).create(path, data)

    def write(self, path: str, data: Bytes) -> None:
        self._of(path).write(path, data)

    def upload(self, source: Path, path: str) -> None:
        self._of(path).upload(source, path)

    def download(self, path: str, target: Path) -> None:
        self._of(path).download(path, target)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._of(path).read(path, offset, length)

    def open(self, path: str) -> BinaryIO:
        return self._of(path).open(path)

    def size_bytes(self, path: str) -> int | None:
        return self._of(path).size_bytes(path)

    def list(self, directory: str) -> list[ObjectInfo]:
        return self._of(directory).list(directory)

    def delete(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        self._memory.delete([path for path in paths if self._of(path) is self._memory])
        self._files.delete([path for path in paths if self._of(path) is self._files])

    def delete_tree(self, directory: str) -> None:
        self._of(directory).delete_tree(directory)

    def sweep(self, directory: str, is_waste: Callable[[str], bool]) -> None:
        self._of(directory).sweep(directory, is_waste)


def open_storage(
    spec: JobSpec,
    objects: ObjectStore | None,
    journal: JournalStore | None,
    *,
    token: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> MasterStorage:
    """Raises if storage is not writable or the snapshot to restore is missing. `token` must be unique per driver."""
    checkpoints = spec.checkpoints
    check_job_id(spec.job_id)
    savepoint_dir = checkpoints.savepoint_dir if objects is None else None
    if objects is None and checkpoints.storage is None:
        objects = DriverObjects(f"{DRIVER_DIRECTORY}/{spec.job_id}", open_files(checkpoints))
    elif objects is None:
        objects = open_objects(checkpoints)
    archive = open_archive(checkpoints, spec.job_id, token or uuid.uuid4().hex, objects, journal, sleep)
    try:
        _probe(objects, archive.directory, archive.token, "checkpoints", "storage")
        if savepoint_dir is not None:
            _probe(objects, absolute(savepoint_dir), archive.token, "savepoints", "savepoint_dir")
        if checkpoints.zookeeper is not None:
            _try_journal(archive)
        given = _given(checkpoints, archive)
    except BaseException:
        if journal is None:
            archive.disconnect()
        raise
    return MasterStorage(archive, objects, given, checkpoints.storage is None, journal is None)


def absolute(path: str) -> str:
    """A directory in a form that means the same in every process."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def _probe(objects: ObjectStore, directory: str, token: str, what: str, setting: str) -> None:
    path = f"{directory}/probe-{token}"
    try:
        objects.create(path, b"probe")
        objects.delete([path])
    except StorageError as error:
        raise StorageError(
            f"{what} cannot be kept in {directory}: {error}. The job was not started; name a directory in `{setting}` "
            "that this process and all executors may write to"
        ) from error


def _try_journal(archive: Archive) -> None:
    try:
        archive.prepare_journal()
        archive.read_journal()
    except StorageError as error:
        raise StorageError(f"the journal of the job cannot be used: {error}. The job was not started") from error


def _given(checkpoints: Checkpoints, archive: Archive) -> Snapshot | None:
    if checkpoints.restore_from is None:
        return None
    try:
        return archive.read_snapshot(absolute(checkpoints.restore_from))
    except RestoreError:
        journal = archive.read_journal()
        # A job at its end deletes what it claimed; another driver may come then, only to hear how it ended.
        if journal.recovery_points or journal.ended in (JobStatus.FINISHED, JobStatus.CANCELED):
            return None
        raise
