"""Opens a job's storage from its settings: store, journal, directory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

from snapline.config import Checkpoints, Secret
from snapline.errors import ConfigurationError
from snapline.protocol.journal import Journal
from snapline.storage.archive import Archive
from snapline.storage.journals.journal_store import JournalStore, MemoryJournal, ObjectJournal
from snapline.storage.journals.zookeeper_journal import ZooKeeperJournal
from snapline.storage.known_roots import KnownRoots, known_directories
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_paths import directory_location
from snapline.storage.objects.object_store import ObjectStore

DRIVER_DIRECTORY = "/driver"
"""Directory of checkpoints kept in the driver's memory."""

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def check_job_id(job_id: str) -> str:
    """Returns `job_id`. Raises `ConfigurationError` if it cannot be the name of a directory."""
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
        raise ConfigurationError(
            f"{job_id!r} cannot be the id of a job; use up to 128 letters, digits, '-' and '_', starting with a letter "
            "or a digit"
        )
    return job_id


def open_objects(checkpoints: Checkpoints) -> ObjectStore:
    """Returns the object store that `storage` names, or one in the memory of this process."""
    return MemoryObjects() if checkpoints.storage is None else open_files(checkpoints)


def open_files(checkpoints: Checkpoints) -> FileObjects:
    """Returns the store of files, which follows no symbolic links within the directories of the job."""
    return FileObjects(
        options=checkpoints.storage_options,
        no_links_below=known_directories(checkpoints),
        directory_mode=checkpoints.directory_mode,
    )


def open_archive(
    checkpoints: Checkpoints,
    job_id: str,
    token: str,
    objects: ObjectStore | None = None,
    journal: JournalStore | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Archive:
    """Returns the storage of a job for the driver `token`.

    Without `storage` it lives in this process. Otherwise the job's directory is `<storage>/<job_id>`, or `storage`
    itself without `create_subdirectory`; the journal is in `<storage>/<job_id>/journal`, or in ZooKeeper. `objects`
    and `journal` replace what the settings name.
    """
    check_job_id(job_id)
    roots, limit = KnownRoots(known_directories(checkpoints)), checkpoints.metadata_limit_bytes
    objects = objects or open_objects(checkpoints)
    if checkpoints.storage is None:
        journal = journal or MemoryJournal()
        directory = f"{DRIVER_DIRECTORY}/{job_id}"
        return Archive(objects, journal, directory, token, sleep=sleep, roots=roots, metadata_limit_bytes=limit)
    root = _root(checkpoints.storage)
    is_own = checkpoints.create_subdirectory
    directory = f"{root}/{job_id}" if is_own else root
    if journal is None and checkpoints.zookeeper is not None:
        journal = ZooKeeperJournal(
            checkpoints.zookeeper,
            f"/snapline/{job_id}",
            auth=None if checkpoints.zookeeper_auth is None else _scheme_and_credential(checkpoints.zookeeper_auth),
            acl=checkpoints.zookeeper_acl,
        )
    elif journal is None:
        journal = ObjectJournal(objects, f"{root}/{job_id}/journal")
    return Archive(
        objects,
        journal,
        directory,
        token,
        exclusive=is_own,
        sleep=sleep,
        roots=roots,
        metadata_limit_bytes=limit,
    )


def monitor_directory(checkpoints: Checkpoints, job_id: str) -> str | None:
    """Where what people look at is kept: the job's history and its address. None without `storage`."""
    return None if checkpoints.storage is None else f"{_root(checkpoints.storage)}/{check_job_id(job_id)}/monitor"


def _root(storage: str) -> str:
    """The directory in a form every process resolves alike."""
    is_local_path = directory_location(storage).scheme == "file" and "://" not in storage
    return (os.path.abspath(storage) if is_local_path else storage).rstrip("/")


def _scheme_and_credential(auth: Secret) -> tuple[str, str]:
    """The scheme, digest unless another is named, and its credential."""
    first, _, rest = (value := auth.resolve()).partition(" ")
    scheme, credential = ("digest", value) if ":" in first else (first, rest.strip())
    if not credential or (scheme == "digest" and not all(credential.partition(":")[::2])):
        raise ConfigurationError(
            f"zookeeper_auth={auth!r}: must hold user:password, or another scheme and its credential after a space"
        )
    return scheme, credential


def has_ended(checkpoints: Checkpoints, job_id: str) -> bool:
    """Whether the job with this id has finished or was cancelled, according to the storage the settings name."""
    return _read_journal(checkpoints, job_id).is_closed


def has_checkpoints(checkpoints: Checkpoints, job_id: str) -> bool:
    """Whether the job with this id has checkpoints to go on from in the storage the settings name."""
    return bool(_read_journal(checkpoints, job_id).recovery_points)


def _read_journal(checkpoints: Checkpoints, job_id: str) -> Journal:
    archive = open_archive(checkpoints, job_id, "reader")
    try:
        return archive.read_journal()
    finally:
        archive.disconnect()
