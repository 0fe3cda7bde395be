"""The durable storage of one job as one driver uses it: journal, snapshots, and deletion."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from snapline.errors import DamagedError, EngineError, ObjectNotFoundError, RestoreError, StorageError
from snapline.protocol.journal import Journal, Record, RecordKind
from snapline.protocol.retention.orphans import orphans
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.retention.retention_rules import keeps
from snapline.protocol.snapshot import Snapshot, StoredObject
from snapline.storage.journals.journal_client import RETRIES, RETRY_PAUSE_S, JournalClient
from snapline.storage.journals.journal_store import JournalStore
from snapline.storage.known_roots import KnownRoots
from snapline.storage.metadata_objects import METADATA, METADATA_LIMIT_BYTES, MetadataObjects
from snapline.storage.objects.object_paths import TEMPORARY
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_writer import attempt_of
from snapline.types import NO_CHECKPOINT, ExternalizedRetention, JobStatus

SAVEPOINT_NAME_TRIES = 10

_SWEEPABLE = re.compile(r"(chk-[0-9]+|shared)/")
_SHARED = "shared"
_CHECKPOINT = re.compile(r"chk-([0-9]+)")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What an attempt starts from: the journal, its recovery points oldest first, and warnings for the user."""

    journal: Journal
    snapshots: tuple[Snapshot, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Readings:
    """The snapshots of some records, and messages for records whose metadata is missing or damaged."""

    snapshots: tuple[Snapshot, ...]
    missing: Mapping[Record, str]
    damaged: Mapping[Record, str]


class Archive(JournalClient):
    """The storage of one job, as one driver uses it.

    `directory` belongs to the job: `chk-<n>/` holds what belongs to one checkpoint, `shared/` what several refer to.
    Unless it is `exclusive`, other jobs use it as well: then nothing is swept, and only objects known to be this job's
    are deleted. `random` names savepoints. Of what metadata and journal name, only files in `directory` and in the
    `roots` are read or deleted; without `roots`, all are. Larger metadata than `metadata_limit_bytes` is neither
    written nor read.
    """

    def __init__(
        self,
        objects: ObjectStore,
        journal: JournalStore,
        directory: str,
        token: str,
        *,
        retries: int = RETRIES,
        retry_pause_s: float = RETRY_PAUSE_S,
        sleep: Callable[[float], None] = time.sleep,
        exclusive: bool = True,
        random: Random | None = None,
        roots: KnownRoots | None = None,
        metadata_limit_bytes: int = METADATA_LIMIT_BYTES,
    ) -> None:
        super().__init__(
            journal, token, retries=retries, retry_pause_s=retry_pause_s, sleep=sleep, place=directory.rstrip("/")
        )
        self._is_exclusive = exclusive
        self.directory = directory.rstrip("/")
        self._objects = objects
        self._roots = roots
        self._metadata = MetadataObjects(objects, roots, metadata_limit_bytes)
        if roots is not None:
            roots.add(self.directory)
        self._random = random or Random(token)  # noqa: S311  # a name that nobody else has, no secret

    # Places.

    @property
    def shared_directory(self) -> str:
        return f"{self.directory}/{_SHARED}"

    def location(self, checkpoint_id: int) -> str:
        return f"{self.directory}/chk-{checkpoint_id}"

    def savepoint_location(self, target_directory: str, job_id: str) -> str:
        """Returns an unused directory for a savepoint."""
        if self._roots is not None:
            self._roots.add(target_directory)
        for _ in range(SAVEPOINT_NAME_TRIES):
            name = f"savepoint-{job_id[:6]}-{self._random.getrandbits(48):012x}"
            location = f"{target_directory.rstrip('/')}/{name}"
            if not self._repeat(partial(self._objects.list, location)):
                return location
        raise StorageError(
            f"{SAVEPOINT_NAME_TRIES} names for a savepoint in {target_directory} are all taken; use another directory"
        )

    def covers(self, path: str) -> bool:
        """Whether a path is in a directory of the job, or in one that a savepoint of this driver went to."""
        return self._roots is not None and self._roots.cover(path)

    # Metadata.

    def write_metadata(self, snapshot: Snapshot) -> int:
        """Write the metadata of a snapshot whose objects are all stored. Returns its size in bytes.

        Never replaces other metadata: raises `FencedError` if there is some.
        """
        data = self._metadata.encode(snapshot)
        self._repeat(lambda: self._metadata.create(snapshot, data))
        return len(data)

    def read_snapshot(self, path: str) -> Snapshot:
        """Returns the snapshot in a directory; `path` may also be its `_metadata` file. Raises `RestoreError`."""
        location = path.rstrip("/").removesuffix(f"/{METADATA}")
        try:
            return self._read_metadata(location)
        except ObjectNotFoundError as error:
            raise RestoreError(
                f"no checkpoint there: {location} has no {METADATA}: it was never completed, was deleted, or the "
                "path is wrong"
            ) from error

    def _read_metadata(self, location: str) -> Snapshot:
        return self._repeat(lambda: self._metadata.read(location))

    def _read_all(self, records: Iterable[Record]) -> _Readings:
        """Read the snapshots of records. Missing and damaged ones are results; a failing store raises."""
        snapshots: list[Snapshot] = []
        missing: dict[Record, str] = {}
        damaged: dict[Record, str] = {}
        for record in records:
            location = str(record.location)
            if self._roots is not None and not self._roots.cover(location):
                damaged[record] = (
                    f"{location} is in the journal, but in no directory of this job; if it belongs to the job, name "
                    "its directory in Checkpoints(trusted_directories=[...])"
                )
                continue
            try:
                snapshots.append(self._read_metadata(location))
            except ObjectNotFoundError:
                missing[record] = f"{location} is in the journal, but its {METADATA} is gone; it can't be restored from"
            except DamagedError as error:
                damaged[record] = f"{location} can't be restored from: {error}"
        return _Readings(tuple(snapshots), missing, damaged)

    def _has_snapshot(self, record: Record) -> bool:
        return self._repeat(lambda: self._objects.size_bytes(f"{record.location}/{METADATA}")) is not None

    # Recovery.

    def recover(self, attempt: int) -> Recovered:
        """Read the snapshots the job can recover from, and sweep leftovers of older attempts.

        Call it after claiming `attempt` and before writing anything. Raises `FencedError` if a newer one has taken
        over, and `DamagedError`, without sweeping, if a snapshot can't be read. Only an older one that is gone
        completely is skipped with a warning: its record may have reappeared after both were deleted.
        """
        journal = self._journal_of(attempt)
        readings = self._read_all(journal.recovery_points)
        problems = {**readings.missing, **readings.damaged}
        if problems:
            # A fenced driver that does not know it yet may be deleting some; it deletes their records first.
            journal = self._journal_of(attempt)
            problems = {record: text for record, text in problems.items() if record in journal.recovery_points}
        for record, problem in problems.items():
            if record in readings.damaged or self._is_lost(record, journal):
                raise self._unrecoverable(problem)
        for warning in problems.values():
            _log.warning("%s", warning)
        swept = self._sweep(readings, attempt, journal)
        return Recovered(journal, readings.snapshots, (*problems.values(), *swept))

    def check_whole(self, snapshot: Snapshot, attempt: int) -> None:
        """Raises `DamagedError` if files of a snapshot are missing or too short, and `FencedError` after a takeover.

        Compares sizes with listings, so it costs a call for each directory and reads nothing.
        """
        items = [item for item in snapshot.objects() if not item.is_inline]
        sizes: dict[str, int] = {}
        for directory in sorted({item.path.rpartition("/")[0] for item in items}):
            listing = self._repeat(partial(self._objects.list, directory))
            sizes.update((info.path, info.size_bytes) for info in listing)
        harmed = sorted({item.path for item in items if sizes.get(item.path, -1) < item.offset + item.size_bytes})
        if not harmed:
            return
        self._journal_of(attempt)
        what = "is missing" if harmed[0] not in sizes else "is cut off"
        more = f", and {len(harmed) - 1} more files" if len(harmed) > 1 else ""
        raise self._unrecoverable(f"{harmed[0]} {what}{more}, and {snapshot.location} needs it")

    def _unrecoverable(self, problem: str) -> DamagedError:
        return DamagedError(
            f"the job can't recover: {problem}. Nothing was changed. Restore it from a backup; or submit the job under "
            "a new id, restored from another checkpoint or a savepoint"
        )

    def _is_lost(self, record: Record, journal: Journal) -> bool:
        """Whether the job needs this snapshot without metadata: it is the latest, or some of it is left."""
        return record == journal.latest or bool(self._repeat(lambda: self._objects.list(str(record.location))))

    def _journal_of(self, attempt: int) -> Journal:
        journal = self.read_journal()
        if not journal.owns(attempt, self.token):
            raise self._fenced(attempt, journal)
        return journal

    def _sweep(self, needed: _Readings, attempt: int, journal: Journal, *, ended: bool = False) -> tuple[str, ...]:
        """Delete what earlier attempts made and `needed` does not refer to. Returns warnings if it did not.

        File names and metadata carry their attempt; whatever carries none stays. So does everything beside damaged
        metadata, and savepoints, which are elsewhere.
        """
        self._repeat(self._journal.sweep)
        if not self._is_exclusive:
            return ()
        listing = self._repeat(lambda: self._objects.list(self.directory))
        listed = [info.path for info in listing if self._top(info.path) is not None]
        kept = {snapshot.metadata_path: snapshot for snapshot in needed.snapshots if not snapshot.kind.is_savepoint}
        if not kept.keys() <= set(listed):
            # Somebody is deleting them, or the directory is spelled differently: nothing can be compared.
            warning = f"nothing was swept: the job's checkpoints are not among the objects found in {self.directory}"
            _log.warning("%s", warning)
            return (warning,)
        spared = {str(record.location) for record in needed.damaged}
        made: list[tuple[str, int]] = []
        for path in listed:
            directory, _, name = path.rpartition("/")
            if path in kept or self._top(path) in spared:
                continue
            if name != METADATA:
                made_by = attempt_of(path)
            elif (found := self._whole_snapshot(directory)) is None:
                made_by = None
            else:
                made_by = found.attempt
                if not self._journal.outlives_driver:
                    # A journal that began with this driver does not know earlier runs in the same directory.
                    kept[path] = found
            if made_by is not None:
                made.append((path, made_by))
        doomed = orphans(made, tuple(kept.values()), attempt, ended=ended)
        self._repeat(lambda: self._delete_listed(doomed, listed))
        ids = [record.checkpoint_id or 0 for record in journal.records if record.kind is RecordKind.ID]
        last_id = max(ids, default=NO_CHECKPOINT)
        self._repeat(lambda: self._objects.sweep(self.directory, lambda path: self._is_waste(path, attempt, last_id)))
        return ()

    def _is_waste(self, path: str, attempt: int, last_id: int) -> bool:
        """Whether an unfinished object or empty directory belongs to an earlier attempt.

        Earlier attempts reserved the ids up to `last_id`, and only they write there.
        """
        top = self._top(path)
        if top is None:
            return False
        checkpoint = _CHECKPOINT.fullmatch(top.rpartition("/")[2])
        if checkpoint is not None:
            return int(checkpoint[1]) <= last_id
        made_by = attempt_of(path.replace(f"/{TEMPORARY}", "/"))
        return made_by is not None and made_by < attempt

    def _whole_snapshot(self, location: str) -> Snapshot | None:
        try:
            return self._read_metadata(location)
        except (ObjectNotFoundError, DamagedError):
            return None

    def _delete_listed(self, doomed: Sequence[str], listed: Sequence[str]) -> None:
        """Delete objects, and the directories of checkpoints that are then empty."""
        is_metadata = [path for path in doomed if path.endswith(f"/{METADATA}")]
        self._delete(is_metadata)
        self._delete(sorted(set(doomed) - set(is_metadata)))
        staying = {self._top(path) for path in set(listed) - set(doomed)} | {self.shared_directory}
        for directory in sorted({top for path in doomed if (top := self._top(path)) is not None} - staying):
            self._objects.delete_tree(directory)

    def _top(self, path: str) -> str | None:
        """Returns the top directory of an object in the job's directory, or None if a sweep must not touch it."""
        match = _SWEEPABLE.match(path.removeprefix(f"{self.directory}/"))
        return f"{self.directory}/{match.group(1)}" if match and path.startswith(f"{self.directory}/") else None

    # Deletion. Every method can be repeated until it succeeds; a later recovery sweeps the rest.

    def delete_snapshot(self, snapshot: Snapshot, retained: RetainedSnapshots) -> None:
        """Delete the record first, then the snapshot: a journal never names a half-deleted checkpoint.

        `retained` is what the coordinator keeps, without this snapshot. Shared objects stay.
        """
        journal = self._journal.read()
        kept = _retained_ids(journal, retained)
        obsolete = journal.obsolete(kept)
        if any(record.location == snapshot.location for record in journal.recovery_points if record not in obsolete):
            raise EngineError(f"{snapshot.location} was to be deleted while the job may still recover from it")
        self._journal.delete(obsolete)
        self._delete_data(snapshot)

    def delete_shared(self, objects: Iterable[StoredObject], retained: RetainedSnapshots | None = None) -> None:
        """Delete unreferenced shared objects; a file stays while `retained` refers to another slice of it."""
        used = set() if retained is None else _paths(item for entry in retained.needed for item in entry.objects())
        self._delete(sorted(_paths(objects) - used))

    def discard(self, objects: Iterable[StoredObject], location: str | None, attempt: int) -> None:
        """Delete the rest of a failed checkpoint, with its directory if it belongs to this attempt."""
        paths = _paths(objects)
        if location is None:
            self._delete(sorted(paths))
            return
        try:
            is_own = self._read_metadata(location).attempt == attempt
        except ObjectNotFoundError:
            is_own = True
        except DamagedError:
            is_own = False
        if is_own:
            self._delete([f"{location}/{METADATA}"])
        self._delete(sorted(paths))
        if is_own and self._is_own_checkpoint(location):
            self._objects.delete_tree(location)
        else:
            self._remove_if_empty(location)

    def finish(
        self,
        attempt: int,
        status: JobStatus,
        policy: ExternalizedRetention,
        retained: RetainedSnapshots | None = None,
        claimed: Snapshot | None = None,
        *,
        limit: int,
    ) -> None:
        """Record the end, and keep or delete the job's checkpoints according to the policy. Savepoints always stay.

        Does nothing if the job is only suspended. If checkpoints are kept, then the newest, at most `limit`. `retained`
        is what the last attempt of this driver keeps, None if none got that far; `claimed` is the snapshot of another
        job that this one owns. Idempotent, also for a driver that finds the job ended (with attempt 0 and the status
        in the journal). The record of the end stays, and with it the records of checkpoints that are kept: a job that
        failed goes on from them.
        """
        if not status.is_globally_terminal:
            return
        journal = self.close(attempt, status)
        if journal.ended is not status:
            raise self._fenced(attempt, journal)
        keep = keeps(policy, status)
        shared = () if keep or retained is None else retained.remaining_shared()
        self._repeat(lambda: self._tidy(journal.attempt, keep, limit, retained, claimed, shared))

    def _tidy(
        self,
        end: int,
        keep: bool,
        limit: int,
        retained: RetainedSnapshots | None,
        claimed: Snapshot | None,
        shared: Sequence[StoredObject],
    ) -> None:
        journal = self._journal.read()
        if journal.attempt != end:
            return  # a driver has gone on with a job that failed; what it recovers and writes is not to be swept here
        own = [record for record in journal.recovery_points if record.kind is RecordKind.CHECKPOINT]
        kept_ids = set[int]() if not keep else _retained_ids(journal, retained)
        # One may have been published that the last attempt did not hear of, or had no time to delete another for.
        own_ids = sorted(record.checkpoint_id or 0 for record in own)
        kept_ids -= set(own_ids[:-limit])
        kept = self._read_all(record for record in own if record.checkpoint_id in kept_ids)
        dropped = [record for record in own if record.checkpoint_id not in kept_ids]
        deleted = self._read_all(dropped)
        obsolete = {*journal.obsolete(kept_ids), *dropped}
        self._journal.delete(record for record in journal.records if record in obsolete)
        for snapshot in deleted.snapshots:
            self._delete_data(snapshot)
        self.delete_shared(shared)
        if kept.missing or kept.damaged:
            return  # another job has claimed and deleted one, or nobody knows what it shares with others
        if claimed is not None and retained is not None:
            is_retained = any(entry.id == claimed.id for entry in retained.snapshots)
            if not (keep and is_retained and len(kept.snapshots) < limit):
                self._delete_claimed(claimed, kept.snapshots)
        self._sweep(kept, journal.attempt, journal, ended=True)

    def _delete_claimed(self, claimed: Snapshot, needed: Iterable[Snapshot]) -> None:
        """Delete a snapshot of another job, except what `needed` refers to.

        Its metadata goes last: no sweep finds what another job left, so a driver that repeats this has to read it.
        """
        used = _paths(item for snapshot in needed for item in snapshot.objects())
        self._delete(sorted(_paths(claimed.objects()) - used))
        self._delete([claimed.metadata_path])
        self._remove_if_empty(claimed.location)

    def _delete_data(self, snapshot: Snapshot) -> None:
        """Delete metadata first: a snapshot with metadata is whole."""
        self._delete([snapshot.metadata_path])
        if not snapshot.kind.is_savepoint and self._is_own_checkpoint(snapshot.location):
            self._objects.delete_tree(snapshot.location)
        else:
            self._delete(sorted(_paths(item for item in snapshot.objects() if item.shared_key is None)))
            self._remove_if_empty(snapshot.location)

    def _is_own_checkpoint(self, location: str) -> bool:
        """Whether only this job uses the directory, so that all of it may be deleted."""
        return self._is_exclusive and self._top(f"{location}/") == location != self.shared_directory

    def _remove_if_empty(self, location: str) -> None:
        if not self._objects.list(location):
            self._objects.delete_tree(location)

    def _delete(self, paths: Sequence[str]) -> None:
        if self._roots is not None:
            for path in paths:
                if not self._roots.cover(path):
                    raise EngineError(f"{path} was to be deleted, and is in no directory of this job")
        if paths:
            self._objects.delete(paths)


def _paths(objects: Iterable[StoredObject]) -> set[str]:
    """Returns the files of objects: several may be slices of one, and inline ones have none."""
    return {item.path for item in objects if not item.is_inline}


def _retained_ids(journal: Journal, retained: RetainedSnapshots | None) -> set[int]:
    """Returns the ids of the checkpoints to keep, including any published since `retained` was known."""
    published = {record.checkpoint_id or 0 for record in journal.canonical}
    if retained is None:
        return published
    kept = {snapshot.id for snapshot in retained.snapshots}
    newest = max(kept, default=NO_CHECKPOINT)
    return kept | {checkpoint_id for checkpoint_id in published if checkpoint_id > newest}
