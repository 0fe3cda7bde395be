"""What checkpoints are made of: the database's files at one moment, and the changes of the checkpoints since."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Attached
from snapline.state.rocksdb.change_log import write_changes
from snapline.state.value_tables import FrozenTable

if TYPE_CHECKING:
    from rocksdict import Rdict


class Base:
    """Hard links to the files of a database, and files of changes, in a `directory` of its own.

    The name of the directory is unique among the bases of a backend. Whoever needs the files takes part with `join` and
    leaves with `leave`; the last one deletes them. The maker takes part from the beginning.
    """

    def __init__(self, directory: Path) -> None:
        self.changes: list[Path] = []
        """The files of changes, oldest first. Appended to with the backend's lock held."""
        self.logged = 0
        """How many changes checkpoints since have had; kept by the task's thread."""
        self._directory = directory
        self._users = 1
        self._lock = Lock()
        directory.mkdir()

    @property
    def links(self) -> Path:
        """The database's files; does not exist if the base is the empty state."""
        return self._directory / "db"

    def link(self, database: Rdict) -> None:
        from rocksdict import Checkpoint

        database.flush()
        Checkpoint(database).create_checkpoint(str(self.links))

    def log(self, tables: Sequence[tuple[int, pa.DataType, FrozenTable]]) -> None:
        """Add the dirty entries of tables."""
        # Uploaded files are known by their names, so no other base of the backend may have the same ones.
        path = self._directory / f"{self._directory.name}-changes-{len(self.changes)}.arrow"
        if write_changes(path, tables):
            self.changes.append(path)

    def join(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            is_last = not self._users
        if is_last:
            shutil.rmtree(self._directory, ignore_errors=True)


class Backlog(Attached):
    """The entries of a table whose last value is in a file of changes, but not in the database."""

    def __init__(self, table: object) -> None:
        self.owner = table
        self._parts: list[Bools] = []

    def add(self, dirty: Bools) -> None:
        """These entries have been logged."""
        self._parts.append(dirty)

    def take(self) -> list[Bools]:
        """All entries, for `with_dirty`; none are left."""
        parts, self._parts = self._parts, []
        return parts

    def flags(self, dirty: Bools) -> Bools:
        """Which entries are dirty or logged."""
        return with_dirty(self._parts, dirty)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def keep(self, slots: Ints) -> None:
        if self._parts:
            size = max(len(part) for part in self._parts)
            logged = with_dirty(self._parts, np.zeros(max(size, int(slots.max(initial=-1)) + 1), dtype=np.bool_))
            self._parts = [logged[slots]]


def with_dirty(parts: Sequence[Bools], dirty: Bools) -> Bools:
    """`dirty` and all of the parts, none of which is longer."""
    result = dirty.copy()
    for part in parts:
        result[: len(part)] |= part
    return result
