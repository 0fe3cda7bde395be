"""Writes one subtask's part of a snapshot."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from threading import Event
from urllib.parse import quote

from snapline.config import Checkpoints
from snapline.errors import SnaplineError, StorageError
from snapline.protocol.snapshot import StoredObject
from snapline.storage.local_copies import LocalCopies
from snapline.storage.objects.object_store import Bytes, ObjectStore

MEMORY_LIMIT_BYTES = 5 << 20
"""Largest state sent to the driver when checkpoints are kept there."""

SUBTASK_INLINE_BYTES = 128 << 20
"""Limit for all that one subtask sends to the driver in one snapshot, so that it fits a message."""

_CHUNK_BYTES = 1 << 20
_MAX_NAME_CHARACTERS = 100
_ATTEMPT = re.compile(r"a([0-9]{1,19})-")


class SnapshotCancelledError(SnaplineError):
    """The snapshot was cancelled; what was written for it has been or will be deleted."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How snapshots are written.

    Objects below `inline_bytes` go into the metadata; `zstd` compresses files. `memory_limit_bytes` limits each state
    when checkpoints are kept in the driver.
    """

    inline_bytes: int = 20 << 10
    zstd: bool = False
    memory_limit_bytes: int = MEMORY_LIMIT_BYTES

    @classmethod
    def of(cls, checkpoints: Checkpoints) -> WriteOptions:
        return cls(checkpoints.inline_threshold_bytes, checkpoints.compress, checkpoints.memory_limit_bytes)


class SnapshotWriter:
    """Writes the objects of one operator of one subtask for one snapshot, on one thread at a time.

    `location` is the directory of the snapshot, `shared` that of objects several checkpoints may refer to; None for a
    savepoint, which shares nothing. If both are None everything goes into the metadata, up to a limit per object.
    File names carry the attempt, so that a sweep recognizes leftovers. After `cancel`, from any thread, the next call
    raises `SnapshotCancelledError`.
    """

    def __init__(
        self,
        objects: ObjectStore,
        location: str | None,
        shared: str | None,
        *,
        attempt: int,
        checkpoint_id: int,
        uid: str,
        subtask: int,
        options: WriteOptions | None = None,
        local: LocalCopies | None = None,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.uid = uid
        self.subtask = subtask
        self.options = options or WriteOptions()
        self.written: list[str] = []
        self._objects = objects
        self._location = location
        self._shared = shared
        self._attempt = attempt
        self._local = local
        self._cancelled = Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Raise `SnapshotCancelledError` if cancelled; call it between the steps of long work."""
        if self._cancelled.is_set():
            raise SnapshotCancelledError(f"snapshot {self.checkpoint_id} of {self.uid}[{self.subtask}] was cancelled")

    def write(self, name: str, data: Bytes) -> StoredObject:
        """Write one object; `name` is unique among the operator's objects in this snapshot."""
        return self.write_slices(name, [data])[0]

    def write_slices(
        self, name: str, pieces: Sequence[Bytes], most_inline: int | None = None
    ) -> tuple[StoredObject, ...]:
        """Write several objects into one file, one after the other.

        `most_inline` lowers the size up to which they go into the metadata, for what is read many times.
        """
        self.check()
        sizes = [memoryview(piece).nbytes for piece in pieces]
        checksums = [zlib.crc32(piece) for piece in pieces]
        location, file_name = self._location, self._file_name(name)
        limit = self.options.inline_bytes if most_inline is None else min(most_inline, self.options.inline_bytes)
        if location is None or sum(sizes) < limit:
            self._check_inline_size(name, sizes)
            return tuple(
                StoredObject(f"inline:{file_name}#{index}", size, crc32=crc32, data=bytes(piece))
                for index, (piece, size, crc32) in enumerate(zip(pieces, sizes, checksums, strict=True))
            )
        path = f"{location}/{file_name}"
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.written.append(path)
        self._objects.write(path, data)
        if self._local is not None:
            self._local.keep(self.checkpoint_id, path, data)
        offsets = accumulate(sizes, initial=0)
        return tuple(
            StoredObject(path, size, offset=offset, crc32=crc32)
            for size, offset, crc32 in zip(sizes, offsets, checksums, strict=False)
        )

    def share(self, name: str, source: Path) -> StoredObject:
        """Upload a local file that later checkpoints may refer to; `name` is unique within the attempt."""
        self.check()
        size, crc32 = source.stat().st_size, file_crc32(source)
        file_name = self._file_name(name)
        directory = self._shared or self._location
        if directory is None:
            self._check_inline_size(name, [size])
            return StoredObject(f"inline:{file_name}", size, crc32=crc32, data=source.read_bytes())
        path = f"{directory}/{file_name}"
        self.written.append(path)
        self._objects.upload(source, path)
        if self._local is not None:
            self._local.link(self.checkpoint_id, path, source)
        return StoredObject(path, size, shared_key=None if self._shared is None else file_name, crc32=crc32)

    def share_data(self, name: str, data: Bytes) -> StoredObject:
        """Write an object that later checkpoints may refer to; `name` is unique within the attempt."""
        if self._shared is None:
            return self.write(name, data)
        self.check()
        file_name = self._file_name(name)
        path = f"{self._shared}/{file_name}"
        self.written.append(path)
        self._objects.write(path, data)
        return StoredObject(path, memoryview(data).nbytes, shared_key=file_name, crc32=zlib.crc32(data))

    def reuse(self, item: StoredObject, source: Path | None = None) -> StoredObject:
        """Refer to an object an earlier checkpoint shared; `source` is the local file it was made from, if any."""
        self.check()
        if self._local is not None and source is not None:
            self._local.link(self.checkpoint_id, item.path, source)
        return replace(item, reused=True)

    def discard(self) -> None:
        """Delete what was written, after the snapshot failed."""
        self._objects.delete(self.written)

    def _file_name(self, name: str) -> str:
        stem, dot, extension = name.rpartition(".")
        if not dot or not extension.isalpha():
            stem, dot, extension = name, "", ""
        return f"a{self._attempt}-{_safe(self.uid)}-{self.subtask}-{_safe(stem)}{dot}{extension}"

    def _check_inline_size(self, name: str, sizes: Sequence[int]) -> None:
        if sum(sizes) > self.options.memory_limit_bytes:
            raise StorageError(
                f"{name!r} of {self.uid}[{self.subtask}] has {sum(sizes)} bytes; checkpoints kept in the driver allow "
                f"{self.options.memory_limit_bytes} per state. Set `storage` to a directory that all machines reach"
            )


def attempt_of(path: str) -> int | None:
    """Returns the attempt in the name of an object, or None."""
    match = _ATTEMPT.match(path.rsplit("/", 1)[-1])
    return int(match.group(1)) if match else None


def file_crc32(path: Path) -> int:
    crc32 = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc32 = zlib.crc32(chunk, crc32)
    return crc32


def _safe(name: str) -> str:
    """`name` as part of a file name: injective, and short enough for any file system."""
    safe = quote(name, safe="").replace(".", "%2E").replace("-", "%2D")
    if len(safe) <= _MAX_NAME_CHARACTERS:
        return safe
    # Longer than any name left as it is, so that the two cannot collide.
    return f"{safe[: _MAX_NAME_CHARACTERS - 48]}~{hashlib.sha256(name.encode()).hexdigest()[:48]}"
