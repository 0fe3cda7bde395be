"""The contract of an object store: whole objects under paths, never half-written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
"""One contiguous buffer; pass a `pyarrow.Buffer` as `memoryview(buffer)`."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An entry of a listing."""

    path: str
    size_bytes: int


class ObjectStore(Protocol):
    """Objects under full paths: `/local/path`, `file:///path`, `s3://bucket/key`, `hdfs://host/path`, `memory://path`.

    Thread-safe. No reader sees an object before it is whole. A method that fails raises `StorageError`, after bounded
    retries where they are safe; `possibly_inconsistent` is set if the operation may have taken effect anyway.
    """

    def create(self, path: str, data: Bytes) -> bool:
        """Create an object if none exists, atomically across processes. Returns False if one exists.

        Not retried once the outcome is unclear: the caller must read what is there.
        """
        ...

    def write(self, path: str, data: Bytes) -> None:
        """Write a whole object, replacing any at this path."""
        ...

    def upload(self, source: Path, path: str) -> None:
        """Write a whole object from a local file, without loading it into memory."""
        ...

    def download(self, path: str, target: Path) -> None:
        """Copy an object to a local file, which appears only when complete."""
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Returns an object, or `length` bytes of it from `offset`. Raises `ObjectNotFoundError`."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Returns a seekable file to read parts of an object. Raises `ObjectNotFoundError`."""
        ...

    def size_bytes(self, path: str) -> int | None:
        """Returns the size of an object, or None if it does not exist."""
        ...

    def list(self, directory: str) -> list[ObjectInfo]:
        """Returns every object below a directory, at any depth, sorted by path. A missing directory is empty."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, in parallel. Missing ones are fine. Tries all before it raises."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Delete a directory and everything below it, if it exists."""
        ...

    def sweep(self, directory: str, is_waste: Callable[[str], bool]) -> None:
        """Delete what listings hide below a directory: unfinished objects, and empty directories.

        Killed processes leave them, but live writers have them too, so `is_waste` decides by path:
        `<directory>/shared/.tmp-a3-01ab` if attempt 3 was writing it, `<directory>/chk-7/` for a directory. A no-op for
        stores that have neither.
        """
        ...
