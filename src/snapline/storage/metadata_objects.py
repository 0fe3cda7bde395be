"""Reads and writes the `_metadata` of snapshots, within limits."""

from __future__ import annotations

from snapline.errors import DamagedError, FencedError, StorageError
from snapline.protocol.snapshot import Snapshot
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.known_roots import KnownRoots
from snapline.storage.objects.object_store import ObjectStore

METADATA = "_metadata"
METADATA_LIMIT_BYTES = 1 << 30


class MetadataObjects:
    """Metadata above the limit is neither written nor read. Files outside the roots belong to no snapshot."""

    def __init__(self, objects: ObjectStore, roots: KnownRoots | None, limit_bytes: int) -> None:
        self._objects = objects
        self._roots = roots
        self._limit_bytes = limit_bytes

    def encode(self, snapshot: Snapshot) -> bytes:
        """Returns the metadata of a snapshot. Raises `StorageError` if it is too large."""
        data = metadata.encode(snapshot)
        if len(data) > self._limit_bytes:
            raise StorageError(
                f"the metadata of {snapshot.location} has {len(data)} bytes, more than metadata_limit "
                f"({self._limit_bytes}); raise the limit, or store less within it with a lower inline_threshold"
            )
        return data

    def create(self, snapshot: Snapshot, data: bytes) -> None:
        """Write the metadata; never replaces other metadata: raises `FencedError` if there is some."""
        path = snapshot.metadata_path
        if self._objects.create(path, data):
            return
        there = self._objects.read(path, 0, self._limit_bytes)
        if there != data:
            other = metadata.decode(there, snapshot.location)
            raise FencedError(
                f"{path} belongs to snapshot {other.id} of attempt {other.attempt}; somebody else writes into "
                f"{snapshot.location}: give each job a directory of its own",
                attempt=snapshot.attempt,
                current=other.attempt,
            )

    def read(self, location: str) -> Snapshot:
        path, limit = f"{location}/{METADATA}", self._limit_bytes
        data = self._objects.read(path, 0, limit + 1)
        if len(data) > limit:
            raise DamagedError(f"{path} has more than {limit} bytes (metadata_limit); raise the limit if it is whole")
        return metadata.decode(data, location, None if self._roots is None else self._roots.cover)
