"""Snapshots of the RocksDB backend: its own files, or the open format."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from snapline.protocol.snapshot import KeyedPart, StoredObject
from snapline.state import state_files
from snapline.state.keyed_backend import KeyedSnapshot
from snapline.state.rocksdb.rocksdb_files import NATIVE, Listing, encode_listing, open_database, read_state
from snapline.state.timers import FrozenTimers, timers_info
from snapline.state.value_tables import FrozenTable
from snapline.storage.snapshot_writer import SnapshotWriter

if TYPE_CHECKING:
    from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend


@dataclass(slots=True, eq=False)
class RocksDbSnapshot(KeyedSnapshot):
    """Changes to be flushed, and after that a directory of hard links, `links`, to the database's files.

    `reusable` are the uploaded files that this snapshot may refer to.
    """

    backend: RocksDbBackend
    changes: dict[str, FrozenTable]
    listing: Listing
    timers: FrozenTimers | None
    now_ms: int
    links: Path
    reusable: dict[str, StoredObject]
    is_canonical: bool
    is_flushed: bool = False
    is_wanted: bool = True

    def link(self) -> None:
        """Link the database's files as they are now. Called once, when the changes are flushed."""
        from rocksdict import Checkpoint

        for changes in self.changes.values():
            changes.release()
        self.changes = {}
        self.is_flushed = True
        if self.is_wanted:
            self.backend.db.flush()
            Checkpoint(self.backend.db).create_checkpoint(str(self.links))

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
        self.is_wanted = False
        self.backend.flush_until(self)
        shutil.rmtree(self.links, ignore_errors=True)

    def _write_files(self, target: SnapshotWriter) -> tuple[StoredObject, ...]:
        """Upload the database's files. Tables never change and are shared; the rest is small and not shared."""
        files: dict[str, StoredObject] = {}
        for path in sorted(self.links.iterdir()):
            target.check()
            if path.name.startswith("OPTIONS"):
                # Databases are always opened with the options of this version.
                continue
            if path.suffix != ".sst":
                files[path.name] = target.write(f"rocksdb-{path.name}", path.read_bytes())
            elif path.name in self.reusable:
                files[path.name] = target.reuse(self.reusable[path.name], path)
            else:
                files[path.name] = target.share(f"{target.checkpoint_id}-{path.name}", path)
        listing = encode_listing(self.listing, list(files))
        shared = {name: item for name, item in files.items() if item.shared_key is not None}
        self.backend.offer(target.checkpoint_id, shared)
        return (target.write("rocksdb.json", listing), *files.values())

    def _write_canonical(self, target: SnapshotWriter) -> Iterator[StoredObject]:
        groups = self.backend.key_groups
        database = open_database(self.links, read_only=True)
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
