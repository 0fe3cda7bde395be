"""Snapshots of the RocksDB backend: its own files, or the open format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from snapline.protocol.snapshot import KeyedPart, StoredObject
from snapline.state import state_files
from snapline.state.arrays import Bools
from snapline.state.keyed_backend import KeyedSnapshot
from snapline.state.rocksdb.checkpoint_base import Base
from snapline.state.rocksdb.rocksdb_files import NATIVE, Listing, encode_listing, open_database, read_state
from snapline.state.timers import FrozenTimers, timers_info
from snapline.state.value_tables import FrozenTable
from snapline.storage.snapshot_writer import SnapshotWriter

if TYPE_CHECKING:
    from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend

_UNCHANGING = (".sst", ".arrow")
"""Files that are never written to again."""


@dataclass(frozen=True, slots=True)
class Change:
    """A table with its dirty entries, and those that earlier snapshots have only logged, to go to the database too."""

    table: FrozenTable
    logged: Sequence[Bools] = ()


@dataclass(slots=True, eq=False)
class RocksDbSnapshot(KeyedSnapshot):
    """Changes to be written, and after that the files of `base` as they were then.

    `is_logged`: they go to a file of changes; otherwise to the database, of which the base has links. `reusable` are
    the uploaded files that this snapshot may refer to.
    """

    backend: RocksDbBackend
    changes: dict[str, Change]
    listing: Listing
    timers: FrozenTimers | None
    now_ms: int
    base: Base
    is_logged: bool
    reusable: dict[str, StoredObject]
    is_canonical: bool
    replaced: Base | None = None
    """The base before, to be left on the thread of the asynchronous part: deleting its files takes time."""
    is_flushed: bool = False
    is_released: bool = False
    logs: Sequence[Path] = ()

    def flushed(self) -> None:
        """The changes have been written. Called once, by the backend."""
        for change in self.changes.values():
            change.table.release()
        self.changes = {}
        self.logs = tuple(self.base.changes)
        self.is_flushed = True
        if self.replaced is not None:
            self.replaced.leave()
            self.replaced = None

    def write(self, target: SnapshotWriter) -> tuple[KeyedPart, ...]:
        self.backend.flush_until(self)
        target.check()
        groups = self.backend.key_groups
        timers = self._write_timers(target)
        if self.is_canonical:
            objects = (*self._write_canonical(target), *timers)
            return (KeyedPart(groups, objects),) if objects else ()
        parts = [KeyedPart(groups, self._write_files(target), native=NATIVE)]
        return (*parts, KeyedPart(groups, timers)) if timers else tuple(parts)

    def release(self) -> None:
        # Those after it build on its changes, so they are written even if nobody wants this snapshot.
        self.backend.flush_until(self)
        if not self.is_released:
            self.is_released = True
            self.base.leave()

    def _write_files(self, target: SnapshotWriter) -> tuple[StoredObject, ...]:
        """Upload the files. Tables and changes never change and are shared; the rest is small and not shared."""
        files: dict[str, StoredObject] = {}
        database = sorted(self.base.links.iterdir()) if self.base.links.exists() else []
        for path in (*database, *self.logs):
            target.check()
            if path.name.startswith("OPTIONS"):
                # Databases are always opened with the options of this version.
                continue
            if path.suffix not in _UNCHANGING:
                files[path.name] = target.write(f"rocksdb-{path.name}", path.read_bytes())
            elif path.name in self.reusable:
                files[path.name] = target.reuse(self.reusable[path.name], path)
            else:
                files[path.name] = target.share(f"{target.checkpoint_id}-{path.name}", path)
        listing = encode_listing(replace(self.listing, changes=[path.name for path in self.logs]), list(files))
        shared = {name: item for name, item in files.items() if item.shared_key is not None}
        self.backend.offer(target.checkpoint_id, shared)
        return (target.write("rocksdb.json", listing), *files.values())

    def _write_canonical(self, target: SnapshotWriter) -> Iterator[StoredObject]:
        groups = self.backend.key_groups
        database = open_database(self.base.links, read_only=True)
        try:
            for entry in self.listing.states:
                tables = read_state(database, entry, groups, now_ms=self.now_ms, check=target.check)
                for number, table in enumerate(tables):
                    yield state_files.store(f"{entry.info.state}-{number}.parquet", entry.info, table, target)
        finally:
            database.close()

    def _write_timers(self, target: SnapshotWriter) -> tuple[StoredObject, ...]:
        if self.timers is None:
            return ()
        table = self.timers.rows(self.backend.max_parallelism)
        if not table.num_rows:
            return ()
        info = timers_info(self.backend.uid, self.backend.max_parallelism)
        return (state_files.store(f"{info.state}.parquet", info, table, target),)
