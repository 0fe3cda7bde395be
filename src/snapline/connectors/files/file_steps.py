"""How many files are read between two checkpoints, on the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from snapline.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as it was found: its path relative to the directory, its size, and when it was last changed."""

    name: str
    size_bytes: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class StepLimit:
    """What one step reads: at most this many files, and files until they have this many bytes."""

    files: int | None = None
    bytes: int | None = None
    latest_first: bool = False

    def __post_init__(self) -> None:
        for name, value in (("files_per_checkpoint", self.files), ("bytes_per_checkpoint", self.bytes)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value <= 0):
                raise ConfigurationError(f"Files({name}={value!r}): give a positive number")


class FileSteps:
    """Hands out new files step by step, the oldest first. Any thread may use it.

    A step is over when a checkpoint says that its files are read; only then is there another one. `list_files` lists
    all files there are; it is called only when nothing is left of the last listing.
    """

    def __init__(self, limit: StepLimit, list_files: Callable[[], Sequence[ListedFile]]) -> None:
        self._limit = limit
        self._list_files = list_files
        self._lock = threading.Lock()
        self._listed: list[ListedFile] = []
        self._known: list[str] = []
        """What the last call of `next` returned as known; the listing goes on from there."""
        self._open: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether files have been handed out that no checkpoint calls read yet."""
        with self._lock:
            return bool(self._open)

    def next(self, known: Sequence[str]) -> tuple[list[str], list[str]]:
        """The files of the next step, and what is known then; deleted files are forgotten.

        There are none as long as those of the last step, if still `known`, are not all read.
        """
        with self._lock:
            before = frozenset(known)
            if self._open and self._open <= before:
                return [], list(known)
            if not self._listed or list(known) != self._known:  # the job may have gone back
                found = self._list_files()
                there = {file.name for file in found}
                known = [name for name in known if name in there]
                self._listed = self._in_order([file for file in found if file.name not in before])
            taken = self._taken()
            del self._listed[: len(taken)]
            self._open = frozenset(taken)
            self._known = [*known, *taken]
            return taken, list(self._known)

    def settled(self, known: Sequence[str]) -> None:
        """A checkpoint says that all files in `known` are read."""
        with self._lock:
            if self._open <= frozenset(known):
                self._open = frozenset()

    def _in_order(self, files: Sequence[ListedFile]) -> list[ListedFile]:
        return sorted(files, key=lambda file: (file.changed_ns, file.name), reverse=self._limit.latest_first)

    def _taken(self) -> list[str]:
        names: list[str] = []
        size = 0
        for file in self._listed:
            size += file.size_bytes
            too_many = self._limit.files is not None and len(names) >= self._limit.files
            too_large = self._limit.bytes is not None and size > self._limit.bytes
            if names and (too_many or too_large):
                break
            names.append(file.name)
        return names
