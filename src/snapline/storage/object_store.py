"""What everything above needs of a place that keeps objects: whole objects under paths, nothing half-written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
"""Anything with the buffer protocol and one contiguous block; a `pyarrow.Buffer` goes in as `memoryview(buffer)`."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object that a listing found."""

    path: str
    size_bytes: int


class ObjectStore(Protocol):
    """Objects under full paths: `/local/path`, `file:///path`, `s3://bucket/key`, `hdfs://host/path`, `memory://path`.

    Every method may be called from any thread. An object is seen by nobody until it is whole. A method that fails
    raises `StorageError`, after a bounded number of retries where it may be repeated safely; the error says so if the
    operation may have taken effect all the same (`possibly_inconsistent`).
    """

    def create(self, path: str, data: Bytes) -> bool:
        """Create an object unless there is one; atomically, also against other processes. False if there is one.

        It is not retried once its outcome is unclear: whoever calls must read what is there.
        """
        ...

    def write(self, path: str, data: Bytes) -> None:
        """Write a whole object, in place of one of the same path."""
        ...

    def upload(self, source: Path, path: str) -> None:
        """Write a whole object from a local file, without reading it into memory at once."""
        ...

    def download(self, path: str, target: Path) -> None:
        """Copy an object into a local file; the file is there only if all of the object is."""
        ...

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """All of an object, or `length` bytes from `offset`. `ObjectNotFoundError` if there is none."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A seekable file to read parts of an object from. `ObjectNotFoundError` if there is none."""
        ...

    def size_bytes(self, path: str) -> int | None:
        """How large an object is; none if there is no such object."""
        ...

    def list(self, directory: str) -> list[ObjectInfo]:
        """Every object below a directory, however deep, sorted by path. None if there is no such directory."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, in parallel. Those that are not there are fine. Tries all before it raises."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Delete a directory and everything below it. It need not be there."""
        ...

    def sweep(self, directory: str, is_waste: Callable[[str], bool]) -> None:
        """Delete below a directory what no listing shows: unfinished objects, and directories that are empty.

        A process that was killed leaves them. Others look just the same while they write, so `is_waste` is asked for
        each, by its path: `<directory>/shared/.tmp-a3-01ab` if attempt 3 was writing it, `<directory>/chk-7/` for a
        directory. A store that has no such things does nothing.
        """
        ...
