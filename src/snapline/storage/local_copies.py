"""Copies of snapshot files on this machine, so that a task that returns to it need not fetch them."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from snapline.storage.object_store import Bytes

_log = logging.getLogger(__name__)


class LocalCopies:
    """The copies one subtask keeps of its own snapshots, in a directory of its own.

    A copy is a convenience: one that cannot be kept is only logged, and whoever reads one checks it and falls back to
    storage.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, checkpoint_id: int, path: str, data: Bytes) -> None:
        """Keep a copy of what is written to `path`."""
        self._make(checkpoint_id, path, lambda copy: copy.write_bytes(data))

    def link(self, checkpoint_id: int, path: str, source: Path) -> None:
        """Keep a file that never changes as the copy of `path`; without copying it where the file system allows."""
        self._make(checkpoint_id, path, lambda copy: link_or_copy(source, copy))

    def find(self, checkpoint_id: int, path: str) -> Path | None:
        """The copy of `path` that belongs to this very checkpoint, if there is one."""
        copy = self._checkpoint(checkpoint_id) / _name(path)
        return copy if copy.is_file() else None

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: copies of older ones will not be needed."""
        for older in self._ids():
            if older < checkpoint_id:
                self.abort(older)

    def abort(self, checkpoint_id: int) -> None:
        """A checkpoint will not be, or is not needed any more."""
        shutil.rmtree(self._checkpoint(checkpoint_id), ignore_errors=True)

    def retain_only(self, checkpoint_id: int | None) -> None:
        """Forget everything but one checkpoint: the one a task is restored from, none for a fresh start."""
        for other in self._ids():
            if other != checkpoint_id:
                self.abort(other)

    def _ids(self) -> list[int]:
        if not self._directory.is_dir():
            return []
        names = (entry.name for entry in self._directory.iterdir() if entry.is_dir())
        return sorted(int(name.removeprefix("chk-")) for name in names if name.removeprefix("chk-").isdecimal())

    def _checkpoint(self, checkpoint_id: int) -> Path:
        return self._directory / f"chk-{checkpoint_id}"

    def _make(self, checkpoint_id: int, path: str, make: Callable[[Path], object]) -> None:
        """Make a copy; one that fails half-way leaves nothing behind."""
        directory = self._checkpoint(checkpoint_id)
        copy = directory / _name(path)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            # Never written over: it may be a second name of somebody's file.
            copy.unlink(missing_ok=True)
            make(copy)
        except OSError as error:
            _log.warning("no local copy of %s is kept (%s)", path, error)
            with suppress(OSError):
                copy.unlink(missing_ok=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a second name of a file that never changes, or a copy where the file system has no second names."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _name(path: str) -> str:
    """One file name for each path, however long it is."""
    return hashlib.sha256(path.encode()).hexdigest()
