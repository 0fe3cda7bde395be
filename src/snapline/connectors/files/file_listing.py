"""Finds the files of a path: one file, everything below a directory, or the matches of a pattern."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from snapline.config import Path as AnyPath
from snapline.config import StorageOptions
from snapline.connectors.files.file_steps import ListedFile
from snapline.errors import ConfigurationError, StorageError
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_paths import directory_location

MAX_STORES = 16
"""Object stores of a process that keep their clients, one for each set of options."""

NO_OPTIONS = StorageOptions()

_WILDCARD = re.compile(r"[*?\[]")
_PARTITIONS = r"(?:[^/=]+=[^/]*/)*"
_HIDDEN = re.compile(r"(^|/)[._]")
_PIECE = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|[^*?\[]+|\[")
_EXPRESSIONS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class FileSet:
    """The files of a path, local or with any scheme that checkpoints can use.

    In a pattern `*` and `?` match anything but a slash, `**` anything, `[abc]` one of these characters. Files whose
    name starts with a dot or an underscore are skipped, as is everything in such directories below `root`. With
    `directories` a pattern may match directories, too, for all files in them, and of directories below only those count
    whose name is a column and its value, as in `country=se`.
    """

    def __init__(self, path: AnyPath, options: StorageOptions = NO_OPTIONS, *, directories: bool = False) -> None:
        text = os.fspath(path)
        self.options = options
        self.is_local = "://" not in text
        # Executors have another working directory.
        self._path = os.path.abspath(text) if self.is_local else text.rstrip("/")
        wildcard = _WILDCARD.search(self._path)
        self.is_single = wildcard is None and self._is_file()
        if wildcard is not None:
            self.root = self._path[: wildcard.start()].rpartition("/")[0]
        else:
            self.root = self._path.rpartition("/")[0] if self.is_single else self._path
        directory_location(self.root)
        below = self._path[len(self.root) + 1 :]
        pattern = _expression(below) if wildcard else re.escape(below) if self.is_single else ".*"
        if directories and not self.is_single:
            inside = f"{_PARTITIONS}[^/]+"
            pattern = f"(?:{pattern})(?:/{inside})?" if wildcard else inside
        self._pattern = re.compile(pattern)
        if self.is_local and not os.path.isdir(self.root):
            raise ConfigurationError(f"Files({text!r}): no such file or directory: {self.root!r}; check the path")

    def __str__(self) -> str:
        return self._path

    def find_dated(self) -> list[ListedFile]:
        """The current files with their sizes and times; files of remote storage have none and count as equally old."""
        return [ListedFile(name, size, self._changed_ns(name)) for name, size in self._listed()]

    def _changed_ns(self, name: str) -> int:
        if not self.is_local:
            return 0
        try:
            return os.stat(f"{self.root}/{name}").st_mtime_ns
        except FileNotFoundError:  # its reader reports it
            return 0

    def find(self) -> list[str]:
        """The current files as paths relative to `root`, sorted."""
        return [self._path[len(self.root) + 1 :]] if self.is_single else [name for name, _ in self._listed()]

    def _listed(self) -> list[tuple[str, int]]:
        """All files of a directory or a pattern, with their sizes."""
        if self.is_local and not os.path.isdir(self.root):
            # Otherwise all its files would count as deleted, and as new when it comes back.
            raise StorageError(f"the watched directory {self.root!r} is gone; restore it")
        infos = stored_objects(self.options).list(self.root)
        found = [(info.path[len(self.root) + 1 :], info.size_bytes) for info in infos]
        return [entry for entry in found if self._pattern.fullmatch(entry[0]) and not _HIDDEN.search(entry[0])]

    def _is_file(self) -> bool:
        if self.is_local:
            return os.path.isfile(self._path)
        return stored_objects(self.options).size_bytes(self._path) is not None


@lru_cache(MAX_STORES)
def stored_objects(options: StorageOptions = NO_OPTIONS) -> FileObjects:
    """The object store of this process with these options; caches the clients of remote storage."""
    return FileObjects(options=options)


def _expression(pattern: str) -> str:
    """The regular expression equivalent to a pattern."""
    result = []
    for piece in _PIECE.findall(pattern):
        if piece in _EXPRESSIONS:
            result.append(_EXPRESSIONS[piece])
        elif piece.startswith("[") and len(piece) > 2:
            inside = piece[1:-1].replace("\\", "\\\\")
            result.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            result.append(re.escape(piece))
    return "".join(result)
