"""Snapshots of the RocksDB backend: its own files, or the open format."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from snapline.protocol.snapshot import KeyedPart, StoredObject
from snapline.state import state_files
from snapline.state.keyed_backend import KeyedSnapshot
from snapline.state.memory_backend import timers_info
from snapline.state.rocksdb.rocksdb_files import NATIVE, encode_listing, open_database, read_state
from snapline.state.timers import FrozenTimers
from snapline.state.value_tables import FrozenChanges
from snapline.storage.snapshot_writer import SnapshotWriter

if TYPE_CHECKING:
    from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend


class RocksDbSnapshot(KeyedSnapshot):
    """Changes that have to be written down, and from then on a directory of hard links to the database's files."""

    def __init__(
        self,
        backend: RocksDbBackend,
        changes: dict[str, FrozenChanges],
        timers: FrozenTimers | None,
        links: Path,
        reusable: dict[str, StoredObject],
        *,
        canonical: bool,
    ) -> None:
        self.changes = changes
        self.is_written_down = False
        self._backend = backend
        self.listing = backend.listing()
        self._timers = timers
        self.now_ms = backend.now_ms
        self._links = links
        self._reusable = reusable
        self._is_canonical = canonical
        self._is_wanted = True

    def link(self) -> None:
        """Hold on to the database as it is now. Called once the changes are written down."""
        from rocksdict import Checkpoint

        for changes in self.changes.values():
            changes.release()
        self.changes = {}
        self.is_written_down = True
        if self._is_wanted:
            self._backend.db.flush()
            Checkpoint(self._backend.db).create_checkpoint(str(self._links))

    def write(self, target: SnapshotWriter) -> tuple[KeyedPart, ...]:
        self._backend.write_down(self)
        target.check()
        groups = self._backend.key_groups
        timers = self._write_timers(target)
        if self._is_canonical:
            objects = (*self._write_canonical(target), *timers)
            return (KeyedPart(groups, objects),) if objects else ()
        parts = [KeyedPart(groups, self._write_files(target), native=NATIVE)]
        return (*parts, KeyedPart(groups, timers)) if timers else tuple(parts)

    def release(self) -> None:
        self._is_wanted = False
        self._backend.write_down(self)
        shutil.rmtree(self._links, ignore_errors=True)

    def _write_files(self, target: SnapshotWriter) -> tuple[StoredObject, ...]:
        """The database's files. Tables never change and are shared; the rest is small and belongs to this one."""
        files: dict[str, StoredObject] = {}
        for path in sorted(self._links.iterdir()):
            target.check()
            if path.name.startswith("OPTIONS"):
                # A database is always opened with the options of this version.
                continue
            if path.suffix != ".sst":
                files[path.name] = target.write(f"rocksdb-{path.name}", path.read_bytes())
            elif path.name in self._reusable:
                files[path.name] = target.reuse(self._reusable[path.name], path)
            else:
                files[path.name] = target.share(f"{target.checkpoint_id}-{path.name}", path)
        listing = encode_listing(self.listing, list(files))
        shared = {name: item for name, item in files.items() if item.shared_key is not None}
        self._backend.offer(target.checkpoint_id, shared)
        return (target.write("rocksdb.json", listing), *files.values())

    def _write_canonical(self, target: SnapshotWriter) -> Iterator[StoredObject]:
        backend = self._backend
        database = open_database(self._links, read_only=True)
        try:
            for entry in self.listing.states:
                tables = read_state(
                    database,
                    entry,
                    entry.shape(backend.key),
                    backend.key_groups,
                    now_ms=self.now_ms,
                    check=target.check,
                )
                for number, table in enumerate(tables):
                    data = state_files.write(entry.info, table, zstd=target.options.zstd, check=target.check)
                    yield target.write(f"{entry.info.state}-{number}.parquet", memoryview(data))
        finally:
            database.close()

    def _write_timers(self, target: SnapshotWriter) -> tuple[StoredObject, ...]:
        if self._timers is None:
            return ()
        table = self._timers.rows(self._backend.max_parallelism)
        if not table.num_rows:
            return ()
        info = timers_info(self._backend.uid, self._backend.max_parallelism)
        data = state_files.write(info, table, zstd=target.options.zstd, check=target.check)
        return (target.write(f"{info.state}.parquet", memoryview(data)),)
