"""An object store that fails on purpose, for tests of recovery and of what a failure leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import BinaryIO, TypeVar

from snapline.errors import ConfigurationError, StorageError
from snapline.storage.objects.object_store import Bytes, ObjectInfo, ObjectStore

METHODS = frozenset(
    {"create", "write", "upload", "download", "read", "open", "size_bytes", "list", "delete", "delete_tree", "sweep"}
)
CHANGING_METHODS = frozenset({"create", "write", "upload", "delete", "delete_tree", "sweep"})

T = TypeVar("T")


class FaultyObjects:
    """`ObjectStore` that forwards every call to `inner` and fails one of them.

    `fail_at` is the number of the call that fails, counted from 1. None fails none; `calls` then tells how many there
    are. `only` names the methods that count; by default all do. A `delete` counts once for each path, and tries the
    other paths before it raises. Reads from a file returned by `open` do not count.

    The failing call raises `StorageError`, before it takes effect or, with `after_effect`, afterwards. In the second
    case `possibly_inconsistent` is true if the method changes the store. With `crash` every later call fails too,
    counted or not and without effect, as if the process or its network had died.

    To try a failure at every step:

        counting = FaultyObjects(MemoryObjects())
        run(counting)
        for fail_at in range(1, len(counting.calls) + 1):
            run(FaultyObjects(MemoryObjects(), fail_at))

    Every method may be called from any thread; their order then decides which call fails.
    """

    def __init__(
        self,
        inner: ObjectStore,
        fail_at: int | None = None,
        *,
        after_effect: bool = False,
        crash: bool = False,
        only: Collection[str] | None = None,
    ) -> None:
        if fail_at is not None and fail_at < 1:
            raise ConfigurationError(f"fail_at = {fail_at!r}: calls are counted from 1; use 1 or more, or None")
        counted = METHODS if only is None else frozenset(only)
        if unknown := sorted(counted - METHODS):
            raise ConfigurationError(f"only = {unknown}: no such methods; use some of {sorted(METHODS)}")
        self.calls: list[tuple[str, str]] = []
        """Method and path of every counted call in order, including the failed one."""
        self._inner = inner
        self._fail_at = fail_at
        self._after_effect = after_effect
        self._crash = crash
        self._counted = counted
        self._crashed = False
        self._lock = threading.Lock()

    def create(self, path: str, data: Bytes) -> bool:
        return self._call("create", path, lambda: self._inner.create(path, data))

    def write(self, path: str, data: Bytes) -> None:
        self._call("write", path, lambda: self._inner.write(path, data))

    def upload(self, source: Path, path: str) -> None:
        self._call("upload", path, lambda: self._inner.upload(source, path))

    def download(self, path: str, target: Path) -> None:
        self._call("download", path, lambda: self._inner.download(path, target))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._call("read", path, lambda: self._inner.read(path, offset, length))

    def open(self, path: str) -> BinaryIO:
        return self._call("open", path, lambda: self._inner.open(path))

    def size_bytes(self, path: str) -> int | None:
        return self._call("size_bytes", path, lambda: self._inner.size_bytes(path))

    def list(self, directory: str) -> list[ObjectInfo]:
        return self._call("list", directory, lambda: self._inner.list(directory))

    def delete(self, paths: Iterable[str]) -> None:
        first: StorageError | None = None
        for path in paths:
            try:
                self._delete_one(path)
            except StorageError as error:
                first = first or error
        if first is not None:
            raise first

    def delete_tree(self, directory: str) -> None:
        self._call("delete_tree", directory, lambda: self._inner.delete_tree(directory))

    def sweep(self, directory: str, is_waste: Callable[[str], bool]) -> None:
        self._call("sweep", directory, lambda: self._inner.sweep(directory, is_waste))

    def _delete_one(self, path: str) -> None:
        self._call("delete", path, lambda: self._inner.delete([path]))

    def _call(self, method: str, path: str, action: Callable[[], T]) -> T:
        with self._lock:
            crashed = self._crashed
            fails = False
            if method in self._counted:
                self.calls.append((method, path))
                fails = len(self.calls) == self._fail_at
            number = len(self.calls)
            self._crashed |= fails and self._crash
        if crashed:
            raise StorageError(f"injected: {method} of {path!r} comes after the crash")
        if not fails:
            return action()
        if self._after_effect:
            action()
        raise StorageError(
            f"injected: call {number}, {method} of {path!r}, fails {'after' if self._after_effect else 'before'} its "
            "effect",
            possibly_inconsistent=self._after_effect and method in CHANGING_METHODS,
        )
