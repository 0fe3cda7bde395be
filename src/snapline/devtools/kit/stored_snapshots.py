"""Snapshots in real storage, for tests, and checks that what should be intact is."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from snapline.errors import ObjectNotFoundError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.storage.archive import Archive
from snapline.storage.objects.object_store import ObjectStore
from snapline.types import OperatorStateMode, SnapshotKind

JOURNAL = "journal"
"""The subdirectory of a job where these tests keep the journal, unless it is elsewhere."""

_MAX_PARALLELISM = 128


def store_objects(
    objects: ObjectStore,
    archive: Archive,
    attempt: int,
    checkpoint_id: int,
    *,
    shared: Iterable[str] = (),
    reused: Iterable[StoredObject] = (),
    kind: SnapshotKind = SnapshotKind.CHECKPOINT,
    location: str | None = None,
) -> Snapshot:
    """Store the objects of a snapshot, but not its metadata, and return its description.

    It has two slices of one file, one inline object, a new shared object for each name in `shared`, and the objects it
    reuses.
    """
    place = archive.location(checkpoint_id) if location is None else location
    pieces = [f"{part} part of {checkpoint_id}".encode() for part in ("first", "second")]
    path = f"{place}/a{attempt}-op-0-state"
    objects.write(path, b"".join(pieces))
    first = StoredObject(path, len(pieces[0]), crc32=zlib.crc32(pieces[0]))
    second = StoredObject(path, len(pieces[1]), offset=len(pieces[0]), crc32=zlib.crc32(pieces[1]))
    small = b"small"
    inline = StoredObject(f"inline:a{attempt}-op-0-small", len(small), crc32=zlib.crc32(small), data=small)
    new = [_share(objects, archive, attempt, name) for name in shared]
    keyed = KeyedPart(
        KeyGroupRange(0, _MAX_PARALLELISM - 1), (first, *new, *(replace(item, reused=True) for item in reused))
    )
    listed = OperatorPart("offsets", OperatorStateMode.SPLIT, 1, second)
    state = SubtaskState(keyed=(keyed,), operator=(listed,))
    operator = OperatorState("op", 1, _MAX_PARALLELISM, {0: state}, coordinator=inline)
    return Snapshot(checkpoint_id, kind, attempt, 1_000 + checkpoint_id, place, {"op": operator})


def _share(objects: ObjectStore, archive: Archive, attempt: int, name: str) -> StoredObject:
    file_name, data = f"a{attempt}-op-0-{name}", f"shared {name}".encode()
    path = f"{archive.shared_directory}/{file_name}"
    objects.write(path, data)
    return StoredObject(path, len(data), shared_key=file_name, crc32=zlib.crc32(data))


def damage(objects: ObjectStore, snapshot: Snapshot) -> list[str]:
    """The objects of a snapshot, metadata included, that are missing or not what was stored."""
    found = [item.path for item in snapshot.objects() if not item.is_inline and not _is_intact(objects, item)]
    if objects.size_bytes(snapshot.metadata_path) is None:
        found.append(snapshot.metadata_path)
    return found


def _is_intact(objects: ObjectStore, item: StoredObject) -> bool:
    try:
        data = objects.read(item.path, item.offset, item.size_bytes)
    except ObjectNotFoundError:
        return False
    return zlib.crc32(data) == item.crc32


def leftovers(objects: ObjectStore, directory: str, snapshots: Sequence[Snapshot]) -> list[str]:
    """The objects in a job's directory that belong neither to its journal nor to one of these snapshots."""
    needed = {item.path for snapshot in snapshots for item in snapshot.objects()}
    needed |= {snapshot.metadata_path for snapshot in snapshots}
    listed = [info.path for info in objects.list(directory)]
    return [path for path in listed if path not in needed and not path.startswith(f"{directory}/{JOURNAL}/")]
