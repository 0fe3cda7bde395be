"""Copies of snapshot files on this machine: a task restored here need not fetch them."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from snapline.storage.objects.object_store import Bytes

_log = logging.getLogger(__name__)


def job_directory(local_directory: str, job_id: str) -> Path:
    """Where the copies of all subtasks of a job are, on any machine."""
    return Path(local_directory) / job_id


def subtask_directory(directory: Path, vertex: str, index: int) -> Path:
    """Where the copies of one subtask are, in the directory of its job."""
    return directory / f"{hashlib.sha256(vertex.encode()).hexdigest()[:32]}-{index}"


def remove_strangers(directory: Path, vertices: Mapping[str, int], index: int) -> None:
    """Delete copies of subtasks that the job no longer has, on one slot's turn; `vertices` have their parallelism.

    Slot `index` deletes those of its own index, and all that are beyond every slot.
    """
    if not directory.is_dir():
        return
    known = {subtask_directory(directory, vertex, index).name for vertex, count in vertices.items() if index < count}
    slots = max(vertices.values())
    for entry in directory.iterdir():
        number = entry.name.rpartition("-")[2]
        is_ours = number.isdecimal() and (int(number) == index or int(number) >= slots)
        if is_ours and entry.name not in known:
            shutil.rmtree(entry, ignore_errors=True)


class LocalCopies:
    """One subtask's copies of its own snapshots, in its own directory.

    Best effort: a copy that cannot be kept is only logged, and readers verify a copy and fall back to storage.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, checkpoint_id: int, path: str, data: Bytes) -> None:
        self._make(checkpoint_id, path, lambda copy: copy.write_bytes(data))

    def link(self, checkpoint_id: int, path: str, source: Path) -> None:
        """Keep an immutable file as the copy of `path`, by hard link where possible."""
        self._make(checkpoint_id, path, lambda copy: link_or_copy(source, copy))

    def find(self, checkpoint_id: int, path: str) -> Path | None:
        """Returns the copy of `path` that belongs to this checkpoint, or None."""
        copy = self._checkpoint(checkpoint_id) / _name(path)
        return copy if copy.is_file() else None

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint completed: drop the copies of older ones."""
        for older in self._ids():
            if older < checkpoint_id:
                self.abort(older)

    def abort(self, checkpoint_id: int) -> None:
        """The checkpoint failed or is no longer needed: drop its copies."""
        shutil.rmtree(self._checkpoint(checkpoint_id), ignore_errors=True)

    def retain_only(self, checkpoint_id: int | None) -> None:
        """Drop all but the checkpoint the task is restored from; None drops all."""
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
        """Make a copy; a failure leaves nothing behind."""
        directory = self._checkpoint(checkpoint_id)
        copy = directory / _name(path)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            # Never overwrite: it may be a hard link to a live file.
            copy.unlink(missing_ok=True)
            make(copy)
        except OSError as error:
            _log.warning("could not keep a local copy of %s (%s)", path, error)
            with suppress(OSError):
                copy.unlink(missing_ok=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a hard link to an immutable file, or a copy where links are not possible."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _name(path: str) -> str:
    """A unique file name for a path of any length."""
    return hashlib.sha256(path.encode()).hexdigest()
