"""What a path names: a snapshot, or the directory of a job with its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from snapline.errors import ConfigurationError, DamagedError, ObjectNotFoundError, RestoreError
from snapline.protocol.journal import RecordKind
from snapline.protocol.snapshot import Snapshot
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.objects.object_paths import directory_location
from snapline.storage.objects.object_store import ObjectStore

_METADATA = "_metadata"
_CHECKPOINT = re.compile(r"chk-([0-9]{1,19})")


class Condition(Enum):
    """Whether a checkpoint directory can be restored from, as far as its files tell."""

    COMPLETE = "complete"
    HALF_WRITTEN = "half-written or never completed"
    FILES_MISSING = "files missing"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """One `chk-<n>` of a job's directory. `is_published` is None if the directory has no journal.

    `problem` explains any condition other than COMPLETE.
    """

    id: int
    location: str
    condition: Condition
    is_published: bool | None
    timestamp_ms: int | None
    size_bytes: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The directory of a job. `restore_from` is the snapshot to restore, or None; `note` says why."""

    location: str
    checkpoints: tuple[CheckpointFacts, ...]
    restore_from: str | None
    note: str


def inspect_path(objects: ObjectStore, path: str) -> Snapshot | JobFacts:
    """Read what `path` names: a snapshot by its directory or its `_metadata`, or the directory of a job.

    Raises `RestoreError` if it is neither, with what it is instead; `DamagedError` if its metadata is unreadable.
    """
    if directory_location(path).is_root:
        raise ConfigurationError(f"{path} is a whole file system; name the directory of a snapshot or of a job")
    path = path.rstrip("/")
    location = path.removesuffix(f"/{_METADATA}")
    try:
        return metadata.decode(objects.read(f"{location}/{_METADATA}"), location)
    except ObjectNotFoundError:
        pass
    names = {info.path.removeprefix(f"{location}/"): info.size_bytes for info in objects.list(location)}
    if not names:
        is_file = objects.size_bytes(path) is not None
        problem = f"{path} is a file" if is_file else f"there is nothing at {path}"
        raise RestoreError(f"{problem}; name the directory of a snapshot or of a job")
    ids = sorted({int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name.partition("/")[0]))})
    if ids:
        return _job(objects, location, ids, names)
    jobs = sorted({name.split("/")[0] for name in names if _CHECKPOINT.fullmatch(f"{name}//".split("/")[1])})
    if jobs:
        raise RestoreError(f"{location} holds the jobs {', '.join(jobs)}; name the directory of one of them")
    raise RestoreError(
        f"{location} has no {_METADATA}: half-written or never completed, or no snapshot at all; name another directory"
    )


def _job(objects: ObjectStore, location: str, ids: Iterable[int], names: dict[str, int]) -> JobFacts:
    published, stopped, note = _published(objects, location, names)
    checkpoints = tuple(_checkpoint(objects, location, number, names, published) for number in ids)
    if stopped is not None:
        return JobFacts(location, checkpoints, stopped, "the savepoint that the job was stopped with")
    good = [it for it in checkpoints if it.condition is Condition.COMPLETE]
    chosen = [it for it in good if it.is_published] or good
    if not chosen:
        return JobFacts(location, checkpoints, None, "no checkpoint is complete")
    return JobFacts(location, checkpoints, chosen[-1].location, f"the newest complete one{note}")


def _published(
    objects: ObjectStore, location: str, names: Iterable[str]
) -> tuple[frozenset[int] | None, str | None, str]:
    """The ids in the journal, the savepoint the job was stopped with, and a remark for the note."""
    if not any(name.startswith("journal/") for name in names):
        return None, None, "; there is no journal here that tells which were published"
    try:
        journal = ObjectJournal(objects, f"{location}/journal").read()
    except DamagedError as error:
        return None, None, f"; the journal cannot be read ({error})"
    latest = journal.latest
    stopped = latest.location if latest is not None and latest.kind is RecordKind.STOP else None
    ids = frozenset(record.checkpoint_id for record in journal.recovery_points if record.checkpoint_id is not None)
    return ids, stopped, "" if ids else "; the journal lists none"


def _checkpoint(
    objects: ObjectStore, job: str, number: int, names: dict[str, int], published: frozenset[int] | None
) -> CheckpointFacts:
    location = f"{job}/chk-{number}"
    size_bytes = sum(size for name, size in names.items() if name.startswith(f"chk-{number}/"))
    is_published = None if published is None else number in published
    timestamp_ms: int | None = None
    problem: str | None = None
    if f"chk-{number}/{_METADATA}" not in names:
        condition, problem = Condition.HALF_WRITTEN, f"it has no {_METADATA}"
    else:
        try:
            snapshot = metadata.decode(objects.read(f"{location}/{_METADATA}"), location)
        except DamagedError as error:
            condition, problem = Condition.DAMAGED, str(error)
        else:
            timestamp_ms = snapshot.timestamp_ms
            condition, problem = _files_condition(snapshot, job, names)
    return CheckpointFacts(number, location, condition, is_published, timestamp_ms, size_bytes, problem)


def _files_condition(snapshot: Snapshot, job: str, names: dict[str, int]) -> tuple[Condition, str | None]:
    """Whether all files inside the job's directory that a snapshot refers to are there and long enough."""
    needed: dict[str, int] = {}
    for item in snapshot.objects():
        if not item.is_inline and item.path.startswith(f"{job}/"):
            needed[item.path] = max(needed.get(item.path, 0), item.offset + item.size_bytes)
    sizes = {path: names.get(path.removeprefix(f"{job}/")) for path in sorted(needed)}
    missing = [path for path, size in sizes.items() if size is None]
    if missing:
        return Condition.FILES_MISSING, f"{len(missing)} of its files are not there, {missing[0]} among them"
    cut = [path for path, size in sizes.items() if size is not None and size < needed[path]]
    if cut:
        return Condition.DAMAGED, f"{len(cut)} of its files are cut off, {cut[0]} among them"
    return Condition.COMPLETE, None
