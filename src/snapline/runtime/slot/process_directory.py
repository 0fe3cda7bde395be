"""Directories for a process's temporary files, removed however the process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from snapline.errors import StorageError

_PREFIX = "snapline-"
_LOCK = ".lock"


class ProcessDirectory:
    """A locked directory of this process, created on first use, which removes those of dead processes next to it."""

    def __init__(self, root: str | None) -> None:
        self._root = Path(root if root is not None else tempfile.gettempdir())
        self._path: Path | None = None
        self._lock: int | None = None

    @property
    def path(self) -> Path:
        """Raises `StorageError` if it cannot be created."""
        if self._path is None:
            try:
                self._root.mkdir(parents=True, exist_ok=True)
                # Renamed once locked, or another process might take it for an abandoned one.
                made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=self._root))
            except OSError as error:
                raise StorageError(
                    f"state cannot be kept in {self._root}: {error}; set Execution(state_directory=...) to a directory "
                    "that can be written on every executor"
                ) from error
            remove_abandoned(self._root)
            self._lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path = made.rename(made.with_name(made.name.removeprefix(".")))
        return self._path

    def remove_part(self, prefix: str) -> None:
        """Remove what is in it under names that begin so."""
        for path in self._path.glob(f"{prefix}*") if self._path is not None else ():
            shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_abandoned(root: Path) -> None:
    for lock in root.glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):  # another process removes it, or it is not ours
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
