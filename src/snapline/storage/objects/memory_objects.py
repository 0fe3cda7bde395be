"""Objects in the memory of this process, for the driver and for tests."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from snapline.errors import ConfigurationError, ObjectNotFoundError, StorageError
from snapline.storage.objects.object_paths import directory_location, object_location, whole_file
from snapline.storage.objects.object_store import Bytes, ObjectInfo

DEFAULT_LIMIT_BYTES = 256 << 20


class MemoryObjects:
    """`ObjectStore` in memory, private to this instance. Paths of any scheme are plain names.

    A write that would take the total above `limit_bytes` raises `StorageError` and changes nothing.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        if limit_bytes < 0:
            raise ConfigurationError(f"limit_bytes = {limit_bytes!r}: a size cannot be negative; use 0 or more")
        self._limit_bytes = limit_bytes
        self._used_bytes = 0
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def create(self, path: str, data: Bytes) -> bool:
        object_location(path)
        with self._lock:
            if path in self._objects:
                return False
            self._put(path, bytes(data))
            return True

    def write(self, path: str, data: Bytes) -> None:
        object_location(path)
        with self._lock:
            self._put(path, bytes(data))

    def upload(self, source: Path, path: str) -> None:
        object_location(path)
        try:
            data = source.read_bytes()
        except OSError as error:
            raise StorageError(f"cannot upload {str(source)!r} to {path!r}: {error}; check the source") from error
        self.write(path, data)

    def download(self, path: str, target: Path) -> None:
        data = self._get(path)
        try:
            with whole_file(target) as temporary:
                temporary.write_bytes(data)
        except OSError as error:
            raise StorageError(
                f"cannot write {str(target)!r}, the copy of {path!r}: {error}; check the directory and its free space"
            ) from error

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self._get(path)
        if offset < 0 or (length is not None and length < 0):
            raise ConfigurationError(f"cannot read {length} bytes from {offset} of {path!r}; use 0 or more for both")
        return data[offset : None if length is None else offset + length]

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self._get(path))

    def size_bytes(self, path: str) -> int | None:
        object_location(path)
        with self._lock:
            data = self._objects.get(path)
        return None if data is None else len(data)

    def list(self, directory: str) -> list[ObjectInfo]:
        directory_location(directory)
        start = directory.removesuffix("/") + "/"
        with self._lock:
            return [
                ObjectInfo(path, len(data)) for path, data in sorted(self._objects.items()) if path.startswith(start)
            ]

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            object_location(path)
            with self._lock:
                self._used_bytes -= len(self._objects.pop(path, b""))

    def delete_tree(self, directory: str) -> None:
        self.delete([info.path for info in self.list(directory)])

    def sweep(self, directory: str, is_waste: Callable[[str], bool]) -> None:  # noqa: ARG002
        directory_location(directory)

    def _put(self, path: str, data: bytes) -> None:
        used_bytes = self._used_bytes + len(data) - len(self._objects.get(path, b""))
        if used_bytes > self._limit_bytes:
            raise StorageError(
                f"cannot write {path!r}: all objects together would take {used_bytes} bytes, more than the limit of "
                f"{self._limit_bytes} for storage in memory; set `storage` to a directory, such as s3://bucket/path"
            )
        self._objects[path] = data
        self._used_bytes = used_bytes

    def _get(self, path: str) -> bytes:
        object_location(path)
        with self._lock:
            data = self._objects.get(path)
        if data is None:
            raise ObjectNotFoundError(f"no object at {path!r}; check the path", path=path)
        return data
