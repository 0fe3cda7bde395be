"""The directories a job was given. What stored data names elsewhere is refused: anybody may have written it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from snapline.config import Checkpoints
from snapline.storage.objects.object_paths import directory_location

_CHECKPOINT = "chk-"


class KnownRoots:
    """Some directories, in any spelling."""

    def __init__(self, directories: Iterable[str] = ()) -> None:
        self._roots = {_place(directory) for directory in directories}

    def add(self, directory: str) -> None:
        self._roots.add(_place(directory))

    def cover(self, path: str) -> bool:
        """Whether a path is in one of the directories, or is one."""
        place = _place(path)
        return any(place[: len(root)] == root for root in self._roots)


def known_directories(checkpoints: Checkpoints) -> list[str]:
    """The directories that settings name for a job's own data, in a form that means the same in every process."""
    given = [checkpoints.storage, checkpoints.savepoint_dir, *checkpoints.trusted_directories]
    if checkpoints.restore_from is not None:
        # Incremental checkpoints refer to files beside them.
        location = checkpoints.restore_from.rstrip("/").removesuffix("/_metadata")
        parent, _, name = location.rpartition("/")
        given.append(parent or "." if name.startswith(_CHECKPOINT) else location)
    return [directory if "://" in directory else os.path.abspath(directory) for directory in given if directory]


def _place(path: str) -> tuple[str, ...]:
    if "://" not in path:
        path = os.path.abspath(path)
    location = directory_location(path)
    return (location.scheme, *location.parts)
