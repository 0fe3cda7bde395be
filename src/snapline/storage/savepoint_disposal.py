"""Deletes a savepoint that nobody needs any more."""

from __future__ import annotations

from collections.abc import Callable

from snapline.errors import ConfigurationError, DamagedError, ObjectNotFoundError
from snapline.protocol.snapshot import Snapshot
from snapline.storage.known_roots import KnownRoots
from snapline.storage.metadata_objects import METADATA, METADATA_LIMIT_BYTES, MetadataObjects
from snapline.storage.objects.object_store import ObjectStore


def dispose_savepoint(objects: ObjectStore, path: str, is_allowed: Callable[[str], bool] = lambda _: True) -> Snapshot:
    """Delete the savepoint in a directory, or whose `_metadata` this is, and only its own files. Returns what it was.

    Metadata goes first: what has metadata is whole. Raises `ConfigurationError` if there is no savepoint, or if it is
    not `is_allowed` to touch the directory.
    """
    location = path.rstrip("/").removesuffix(f"/{METADATA}")
    if not is_allowed(location):
        raise ConfigurationError(
            f"{location} is in no directory of this job; delete it with `snapline dispose` where it can be reached"
        )
    try:
        snapshot = MetadataObjects(objects, KnownRoots([location]), METADATA_LIMIT_BYTES).read(location)
    except ObjectNotFoundError:
        raise ConfigurationError(f"there is no savepoint in {location}: it has no {METADATA}") from None
    except DamagedError as error:
        raise ConfigurationError(
            f"{location} is not deleted, because its {METADATA} cannot be read: {error}"
        ) from error
    if not snapshot.kind.is_savepoint:
        raise ConfigurationError(
            f"{location} is checkpoint {snapshot.id}, no savepoint; the job deletes its checkpoints itself"
        )
    objects.delete([snapshot.metadata_path])
    objects.delete(sorted({item.path for item in snapshot.objects() if not item.is_inline}))
    objects.delete_tree(location)
    return snapshot
