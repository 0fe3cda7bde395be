"""Reads stored objects back: from the metadata, a local copy, or storage, and verifies them."""

from __future__ import annotations

import io
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from snapline.errors import DamagedError, ObjectNotFoundError
from snapline.protocol.snapshot import StoredObject
from snapline.storage.local_copies import LocalCopies, link_or_copy
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_writer import file_crc32

_log = logging.getLogger(__name__)


class SnapshotReader:
    """Reads stored objects, from the nearest copy.

    A local copy is used only if it belongs to the checkpoint being restored and is intact; otherwise, with a warning if
    it was damaged, the object comes from storage.
    """

    def __init__(
        self, objects: ObjectStore, local: LocalCopies | None = None, checkpoint_id: int | None = None
    ) -> None:
        self._objects = objects
        self._local = local
        self._checkpoint_id = checkpoint_id

    def read(self, item: StoredObject) -> bytes:
        """Returns a whole object. Raises `DamagedError` if it is not what was written."""
        if item.data is not None:
            return _checked(item.data, item)
        copy = self._copy(item)
        if copy is not None:
            try:
                with copy.open("rb") as file:
                    file.seek(item.offset)
                    return _checked(file.read(item.size_bytes), item)
            except (OSError, DamagedError) as error:
                _warn(item, error)
        return _checked(self._objects.read(item.path, item.offset, item.size_bytes), item)

    def open(self, item: StoredObject) -> BinaryIO:
        """Returns a seekable file to read parts of an object. Content from storage is not verified here."""
        copy = self._copy(item)
        if item.data is not None or item.offset or _is_larger(copy, item):
            return io.BytesIO(self.read(item))
        if copy is not None:
            try:
                # Verified as a whole: a damaged copy must not hide an intact object in storage.
                _check_file(copy, item)
                return copy.open("rb")
            except (OSError, DamagedError) as error:
                _warn(item, error)
        file = self._objects.open(item.path)
        try:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        if size == item.size_bytes:
            return file
        file.close()
        # Damaged, or the first of several slices.
        return io.BytesIO(_checked(self._objects.read(item.path, 0, item.size_bytes), item))

    def check(self, item: StoredObject) -> None:
        """Check existence and size without reading. Raises `ObjectNotFoundError` or `DamagedError`."""
        if item.data is not None:
            _checked(item.data, item)
            return
        size = self._objects.size_bytes(item.path)
        if size is None:
            raise ObjectNotFoundError(f"no object at {item.path!r}; check the path", path=item.path)
        if size < item.offset + item.size_bytes:
            raise DamagedError(
                f"{item.path} has {size} bytes, not the {item.offset + item.size_bytes} it should have: it is damaged"
            )

    def fetch(self, item: StoredObject, target: Path) -> None:
        """Write an object to the new file `target`. Never modify that: it may be a hard link to a local copy."""
        copy = self._copy(item)
        if item.data is not None or item.offset or _is_larger(copy, item):
            target.write_bytes(self.read(item))
            return
        if copy is not None:
            try:
                _check_file(copy, item)
                link_or_copy(copy, target)
                return
            except (OSError, DamagedError) as error:
                target.unlink(missing_ok=True)
                _warn(item, error)
        self._objects.download(item.path, target)
        try:
            if _is_larger(target, item):
                # The first of several slices.
                os.truncate(target, item.size_bytes)
            _check_file(target, item)
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    def _copy(self, item: StoredObject) -> Path | None:
        if self._local is None or self._checkpoint_id is None or item.is_inline:
            return None
        return self._local.find(self._checkpoint_id, item.path)


def _warn(item: StoredObject, error: Exception) -> None:
    _log.warning("the local copy of %s is unusable (%s); reading it from storage", item.path, error)


def _is_larger(file: Path | None, item: StoredObject) -> bool:
    """Whether the object is the first of several slices in a file; the others have an offset."""
    try:
        return file is not None and file.stat().st_size > item.size_bytes
    except OSError:
        return False


def _check_file(path: Path, item: StoredObject) -> None:
    _check(item, path.stat().st_size, lambda: file_crc32(path))


def _checked(data: bytes, item: StoredObject) -> bytes:
    _check(item, len(data), lambda: zlib.crc32(data))
    return data


def _check(item: StoredObject, size: int, crc32: Callable[[], int]) -> None:
    if size != item.size_bytes:
        raise DamagedError(f"{item.path} has {size} bytes, not {item.size_bytes}: it is damaged")
    if item.crc32 is not None and crc32() != item.crc32:
        raise DamagedError(f"{item.path} is damaged: checksum mismatch")
