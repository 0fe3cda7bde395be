"""The histories of a job beside its checkpoints: one file for each driver that ran it, until the next has read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from snapline.errors import DamagedError, ObjectNotFoundError
from snapline.protocol.journal import Journal, RecordKind
from snapline.protocol.snapshot import Snapshot
from snapline.protocol.statistics.job_past import JobPast, PublishedSnapshot, joined
from snapline.protocol.statistics.job_view import JobView
from snapline.storage.history_format import NewerHistoryError, decode
from snapline.storage.known_roots import KnownRoots
from snapline.storage.metadata_objects import METADATA, METADATA_LIMIT_BYTES, MetadataObjects
from snapline.storage.objects.object_store import ObjectStore
from snapline.types import SnapshotKind

MAX_FILE_BYTES = 64 << 20
"""Of a larger file only this much is read, and found to be damaged."""

MAX_ABSORBED = 100
"""Names of files that are remembered as read: a driver that was replaced may write its own once more."""

_NAME = re.compile(r"history-([0-9]{1,19})-[A-Za-z0-9_.-]{1,128}\.json\.gz")
_KINDS = {
    RecordKind.CHECKPOINT: SnapshotKind.CHECKPOINT,
    RecordKind.SAVEPOINT: SnapshotKind.SAVEPOINT,
    RecordKind.STOP: SnapshotKind.SYNC_SAVEPOINT,
}


@dataclass(frozen=True, slots=True)
class FoundHistory:
    """What drivers have left behind. `past` is None if there is nothing to read.

    `names` are the files that are read, absorbed by others or damaged, so that nobody needs them once `past` is stored
    elsewhere. `warnings` say what could not be read.
    """

    past: JobPast | None
    names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class HistoryObjects:
    """The histories in the directory `monitor` of a job. Each driver writes only its own file. Every method blocks."""

    def __init__(self, objects: ObjectStore, directory: str) -> None:
        self.directory = directory.rstrip("/")
        self._objects = objects

    @staticmethod
    def name(attempt: int, token: str) -> str:
        """The name of the file of the driver `token`, whose first attempt this is: no other driver writes it."""
        return f"history-{attempt}-{token}.json.gz"

    def contents(self) -> dict[str, bytes]:
        """All files by name, oldest first."""
        found: dict[str, bytes] = {}
        for name in self._names():
            try:
                found[name] = self._objects.read(self._path(name), 0, MAX_FILE_BYTES)
            except ObjectNotFoundError:
                continue  # its driver, or the next, has replaced it
        return found

    def exists(self, name: str) -> bool:
        return self._objects.size_bytes(self._path(name)) is not None

    def write(self, name: str, data: bytes) -> None:
        self._objects.write(self._path(name), data)

    def delete(self, names: Iterable[str]) -> None:
        self._objects.delete([self._path(name) for name in names])

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _names(self) -> list[str]:
        names = [info.path.rpartition("/")[2] for info in self._objects.list(self.directory)]
        attempts = {name: int(match[1]) for name in names if (match := _NAME.fullmatch(name))}
        return sorted(attempts, key=lambda name: (attempts[name], name))


def history_of(
    contents: Mapping[str, bytes],
    published: Callable[[int], Collection[PublishedSnapshot] | None],
    is_over: Callable[[JobView], bool] = lambda _: True,
) -> FoundHistory:
    """What files say together. `published` is called with the newest checkpoint in them: see `published_snapshots`.

    It may return None if that is not known. `is_over` says whether the driver that saw this last is gone.
    """
    pasts: dict[str, JobPast] = {}
    damaged: list[str] = []
    warnings: list[str] = []
    for name, data in contents.items():
        try:
            pasts[name] = decode(data, name)
        except DamagedError as error:
            damaged.append(name)
            warnings.append(f"{error}; it is left out")
        except NewerHistoryError as error:
            warnings.append(f"{error}; it is left out, and left in place")
    absorbed = {name for past in pasts.values() for name in past.absorbed}
    parts = [past for name, past in pasts.items() if name not in absorbed]
    if not parts:
        return FoundHistory(None, tuple(damaged), tuple(warnings))
    names = (*pasts, *damaged)
    newest = max((record.id for past in parts for record in past.view.statistics.history), default=0)
    whole = joined(parts, published(newest), is_over=is_over(parts[-1].view))
    return FoundHistory(
        replace(whole, absorbed=tuple(dict.fromkeys((*names, *whole.absorbed)))), names, tuple(warnings)
    )


def published_snapshots(
    objects: ObjectStore, journal: Journal, directory: str, known: int = 0
) -> list[PublishedSnapshot]:
    """The snapshots that a journal names and that exist, if they are in `directory`, where the job's checkpoints are.

    Of savepoints elsewhere nothing is read. Those above the id `known` come with what their metadata says.
    """
    found: list[PublishedSnapshot] = []
    roots = KnownRoots([directory])
    metadata = MetadataObjects(objects, roots, METADATA_LIMIT_BYTES)
    for record in journal.canonical:
        location, number = str(record.location), record.checkpoint_id or 0
        bare = PublishedSnapshot(number, _KINDS[record.kind], location)
        if not roots.cover(location):
            found.append(bare)
        elif objects.size_bytes(f"{location}/{METADATA}") is not None:
            snapshot = _read(metadata, location) if number > known else None
            found.append(bare if snapshot is None else _described(snapshot))
    return found


def _read(metadata: MetadataObjects, location: str) -> Snapshot | None:
    try:
        return metadata.read(location)
    except (DamagedError, ObjectNotFoundError):
        return None


def _described(snapshot: Snapshot) -> PublishedSnapshot:
    sizes = {(item.path, item.offset): item.size_bytes for item in snapshot.objects()}
    own = {(item.path, item.offset): item.size_bytes for item in snapshot.objects() if item.shared_key is None}
    return PublishedSnapshot(
        snapshot.id,
        snapshot.kind,
        snapshot.location,
        snapshot.timestamp_ms,
        snapshot.format,
        sum(sizes.values()),
        sum(own.values()),
    )
