"""The RocksDB backend: state larger than memory, in a database on local disk, with incremental checkpoints.

Entries in use are cached in the same tables as in the memory backend. Changes are flushed to the database when a
snapshot is written, or when the cache is full. The synchronous part of a snapshot only freezes the tables. The
asynchronous part flushes the changes, has RocksDB make a checkpoint of itself out of hard links, and uploads the files
that no completed checkpoint has uploaded.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from snapline.errors import ConfigurationError, EngineError, StorageError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import StoredObject
from snapline.state.arrays import Ints, Values
from snapline.state.batch_keys import Space
from snapline.state.evolution import widening_obstacle
from snapline.state.keyed_backend import KeyedBackend, KeyedSnapshot
from snapline.state.map_tables import MapTable, Scanned
from snapline.state.pickles import unpickled
from snapline.state.rocksdb import row_codec
from snapline.state.rocksdb.rocksdb_files import (
    NATIVE,
    Listing,
    StateEntry,
    decode_listing,
    entries_between,
    fetch_files,
    open_database,
    read_state,
)
from snapline.state.rocksdb.rocksdb_snapshot import RocksDbSnapshot
from snapline.state.rocksdb.row_codec import ValueCodec
from snapline.state.stable_hash import encode, key_groups
from snapline.state.state_types import StateType
from snapline.state.value_tables import Clock, FrozenTable, Layout
from snapline.storage.snapshot_reader import SnapshotReader

if TYPE_CHECKING:
    from rocksdict import Rdict

MAX_CACHED_ENTRIES = 2_000_000
_BATCH_ENTRIES = 64 << 10
_SWEPT_ENTRIES = 10_000
"""How many entries of a state with a time to live each snapshot checks for expiry."""


class RocksDbBackend(KeyedBackend):
    """Keyed state in RocksDB, in a `directory` that must be empty or not exist."""

    def __init__(
        self,
        key: object,
        *,
        max_parallelism: int,
        key_groups: KeyGroupRange,
        clock: Clock,
        directory: Path,
        uid: str = "",
        max_cached_entries: int = MAX_CACHED_ENTRIES,
    ) -> None:
        super().__init__(key, max_parallelism=max_parallelism, key_groups=key_groups, clock=clock, uid=uid)
        if directory.exists() and any(directory.iterdir()):
            raise ConfigurationError(f"{directory} is not empty; a RocksDB backend needs a directory of its own")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._max_cached_entries = max_cached_entries
        self._db: Rdict | None = None
        self._ids: dict[str, int] = {}
        self._next_id = 0
        self._is_closed = False
        self._lock = Lock()
        self._opening = Lock()
        self._unflushed: deque[RocksDbSnapshot] = deque()
        self._broken: BaseException | None = None
        self.has_everything_cached = True
        """Whether all entries are in the cache: nothing was restored or evicted yet."""
        self._snapshots = count()
        self._swept: dict[int, bytes] = {}
        self._shared: dict[str, StoredObject] = {}
        self._offered: dict[int, dict[str, StoredObject]] = {}

    @property
    def db(self) -> Rdict:
        if self._db is None:
            # The task and a snapshot may get here at the same time.
            with self._opening:
                if self._is_closed:
                    raise EngineError("a closed backend was used")
                if self._db is None:
                    self._db = open_database(self._directory / "db")
        return self._db

    # Between two batches is the time to make room.

    def keys(self, values: Any) -> Any:
        self._make_room()
        return super().keys(values)

    def _check_not_broken(self) -> None:
        if self._broken is not None:
            raise StorageError(f"state could not be written to {self._directory}: {self._broken}") from self._broken

    def _make_room(self) -> None:
        self._check_not_broken()
        spaces = [*self._spaces.values(), *self._entry_spaces()]
        if sum(space.size for space in spaces) > self._max_cached_entries:
            self.evict()

    def evict(self) -> None:
        """Flush all changes and empty the cache."""
        self.has_everything_cached = False
        with self._lock:
            self._flush_snapshots()
            for name, state in self._states.items():
                changes = state.values.freeze_changes()
                try:
                    self._flush(name, changes)
                except BaseException as error:
                    self._broken = error
                    raise
                finally:
                    changes.release()
        nothing = np.zeros(0, dtype=np.int64)
        for space in [*self._entry_spaces(), *self._spaces.values()]:
            space.keep(nothing)

    def _entry_spaces(self) -> list[Space]:
        return [state.values.space for state in self._states.values() if isinstance(state.table, MapTable)]

    # Flushing changes: only with the lock held, and in the order in which they were frozen.

    def _flush_snapshots(self, last: RocksDbSnapshot | None = None) -> None:
        """Flush the changes of waiting snapshots, up to and including `last`. None flushes all."""
        while self._unflushed and not (last is not None and last.is_flushed):
            snapshot = self._unflushed.popleft()
            try:
                for name, changes in snapshot.changes.items():
                    self._flush(name, changes)
                self._sweep(snapshot.listing, snapshot.now_ms)
                snapshot.link()
            except BaseException as error:
                # These changes exist nowhere else: the database cannot be trusted from now on.
                self._broken = error
                raise

    def _flush(self, name: str, changes: FrozenTable) -> None:
        from rocksdict import WriteBatch

        codec = ValueCodec(self._states[name].values.kind.stored)
        all_slots = np.flatnonzero(changes.dirty)
        all_groups = key_groups(changes.key_hashes.take(all_slots), self.max_parallelism)
        order = row_codec.in_order(all_groups, [changes.keys[0].take(all_slots)])
        for start in range(0, len(all_slots), _BATCH_ENTRIES):
            part: Any = slice(start, start + _BATCH_ENTRIES)
            if order is not None:
                part = order[part]
            slots, groups = all_slots[part], all_groups[part]
            present = changes.present[slots]
            keys = row_codec.encode_keys(
                row_codec.heads(self._ids[name], groups), [column.take(slots) for column in changes.keys]
            )
            written = slots[present]
            values = codec.encode(changes.values.encode(written))
            if changes.updated is not None:
                values = row_codec.stamp(values, changes.updated[written])
            batch = WriteBatch(raw_mode=True)
            remaining = iter(values)
            for key, is_present in zip(keys, present.tolist(), strict=True):
                if is_present:
                    batch.put(key, next(remaining))
                else:
                    batch.delete(key)
            self.db.write(batch)

    def _sweep(self, listing: Listing, now_ms: int) -> None:
        """Delete expired entries, some at a time: they may never be read again."""
        from rocksdict import WriteBatch

        for entry in listing.states:
            if entry.info.ttl_ms is None:
                continue
            start, end = self._swept.pop(entry.id, row_codec.head(entry.id, 0)), row_codec.head(entry.id + 1, 0)
            batch = WriteBatch(raw_mode=True)
            for looked_at, (key, value) in enumerate(entries_between(self.db, start, end)):
                if looked_at >= _SWEPT_ENTRIES:
                    self._swept[entry.id] = key
                    break
                if row_codec.updated_ms(value) <= now_ms - entry.info.ttl_ms:
                    batch.delete(key)
            self.db.write(batch)

    # Snapshots.

    def snapshot(self, *, full: bool = False, canonical: bool = False) -> KeyedSnapshot:
        self._check_not_broken()
        changes = {name: state.values.freeze_changes() for name, state in self._states.items()}
        timers = None if self._timers is None else self._timers.freeze()
        links = self._directory / f"links-{next(self._snapshots)}"
        reusable = {} if full or canonical else dict(self._shared)
        snapshot = RocksDbSnapshot(self, changes, self.listing(), timers, self._clock(), links, reusable, canonical)
        self._unflushed.append(snapshot)
        return snapshot

    def listing(self) -> Listing:
        return Listing([self._entry(name) for name in self._states], self._sequence)

    def _entry(self, name: str) -> StateEntry:
        state = self._states[name]
        schema = pa.schema([*state.shape.layout.types(), ("value", state.values.kind.stored)])
        return StateEntry(self._ids[name], state.info(self.uid, name, self.max_parallelism), schema)

    def flush_until(self, snapshot: RocksDbSnapshot) -> None:
        """Flush the changes of a snapshot and of those before it. Called from any thread."""
        with self._lock:
            self._flush_snapshots(snapshot)

    def offer(self, checkpoint_id: int, files: dict[str, StoredObject]) -> None:
        """Record the files a checkpoint has shared. They can be reused once the checkpoint is complete."""
        self._offered[checkpoint_id] = files

    def confirm(self, checkpoint_id: int) -> None:
        if checkpoint_id in self._offered:
            self._shared = self._offered[checkpoint_id]
            # A copy, because another thread may offer files meanwhile.
            for other in list(self._offered):
                if other <= checkpoint_id:
                    self._offered.pop(other, None)

    def abort(self, checkpoint_id: int) -> None:
        self._offered.pop(checkpoint_id, None)

    def close(self) -> None:
        with self._lock, self._opening:
            self._is_closed = True
            self._unflushed.clear()
            if self._db is not None:
                self._db.close()
                self._db = None
        shutil.rmtree(self._directory, ignore_errors=True)

    # The database below the cache.

    def _backing(self, name: str, layout: Layout, declared: StateType, ttl_ms: int | None) -> _StoredState:
        if name not in self._ids:
            self._ids[name] = self._next_id
            self._next_id += 1
        return _StoredState(self, self._ids[name], layout, declared, has_times=ttl_ms is not None)

    def _restored_some(self) -> None:
        self.has_everything_cached = False
        self._make_room()

    def _stored_tables(self, name: str) -> Iterator[pa.Table]:
        self.evict()
        return read_state(self.db, self._entry(name), self.key_groups, now_ms=self._clock())

    def _detached(self, name: str) -> Callable[[], None]:
        state = self._ids.pop(name)
        return lambda: self.db.delete_range(row_codec.head(state, 0), row_codec.head(state + 1, 0))

    # Restoring the backend's own files.

    def _restore_native(self, part: KeyedRestore, source: SnapshotReader) -> None:
        if part.part.native != NATIVE:
            super()._restore_native(part, source)
        listing_item, *files = part.part.objects
        self.has_everything_cached = False
        listing = decode_listing(source.read(listing_item), listing_item.path)
        self._sequence = max(self._sequence, listing.sequence)
        is_whole = self._db is None and part.part.key_groups == part.key_groups == self.key_groups
        directory = self._directory / ("db" if is_whole and not self._states else f"restored-{next(self._snapshots)}")
        fetch_files(directory, listing.files, files, source)
        if directory.name == "db":
            self._adopt(listing, files)
            return
        database = open_database(directory, read_only=True)
        try:
            for entry in listing.states:
                self._copy(database, entry, part.key_groups)
        finally:
            database.close()
            shutil.rmtree(directory)

    def _adopt(self, listing: Listing, files: Sequence[StoredObject]) -> None:
        """Use the restored database as it is."""
        for entry in listing.states:
            self._ids[entry.info.state] = entry.id
            self._register(entry.info.state, entry.shape(self.key), entry.info.ttl_ms)
        self._next_id = max(self._ids.values(), default=-1) + 1
        named = zip(listing.files, files, strict=True)
        self._shared = {name: item for name, item in named if item.shared_key is not None}

    def _copy(self, database: Rdict, entry: StateEntry, groups: KeyGroupRange) -> None:
        """Copy the entries of some key groups. Bytes stay the same, except for the number of the state."""
        from rocksdict import WriteBatch

        name, shape = entry.info.state, entry.shape(self.key)
        known = self._states.get(name)
        if known is None:
            known = self._register(name, shape, entry.info.ttl_ms)
        self._check_restored(name, shape, known.shape, widening_obstacle(shape.values, known.shape.values))
        if known.values.kind != shape.values or known.values.ttl_ms != entry.info.ttl_ms:
            for table in read_state(database, entry, groups, now_ms=self._clock()):
                known.table.restore(table)
                self._make_room()
            return
        number = self._ids[name].to_bytes(2, "big")
        batch = WriteBatch(raw_mode=True)
        for key, value in entries_between(
            database, row_codec.head(entry.id, groups.start), row_codec.head(entry.id, groups.end + 1)
        ):
            batch.put(number + key[2:], value)
            if len(batch) >= _BATCH_ENTRIES:
                self.db.write(batch)
                batch = WriteBatch(raw_mode=True)
        self.db.write(batch)


class _StoredState:
    """The entries of one state in the database, as the backing of its table."""

    def __init__(
        self, backend: RocksDbBackend, state: int, layout: Layout, declared: StateType, *, has_times: bool
    ) -> None:
        self._backend = backend
        self._state = state
        self._layout = layout
        self._is_object = declared.is_object
        self._codec = ValueCodec(declared.stored)
        self._has_times = has_times

    def load(self, space: Space, slots: Ints) -> tuple[Ints, Values, Ints | None]:
        if self._backend.has_everything_cached:
            return slots[:0], *self._decode([])
        groups = key_groups(space.key_hashes().take(slots), self._backend.max_parallelism)
        order = row_codec.in_order(groups, [space.columns()[0].take(slots)])
        if order is not None:
            slots = slots[order]
        found: Any = self._backend.db[cast(Any, self._keys(space, slots))]
        exists = np.array([value is not None for value in found], dtype=np.bool_)
        values, updated = self._decode([value for value in found if value is not None])
        return slots[exists], values, updated

    def scan(self, space: Space, slots: Ints) -> Scanned:
        inner = self._layout.inner
        assert inner is not None
        owners: list[int] = []
        keys: list[bytes] = []
        values: list[bytes] = []
        if self._backend.has_everything_cached:
            slots = slots[:0]
        entries = self._backend.db.iter()
        for owner, prefix in enumerate(self._keys(space, slots)):
            entries.seek(prefix)
            while entries.valid() and (key := entries.key()).startswith(prefix):
                owners.append(owner)
                keys.append(key[len(prefix) :])
                values.append(entries.value())
                entries.next()
        columns = row_codec.decode_keys(keys, 0, inner.kinds) if keys else [pa.array([], kind) for kind in inner.kinds]
        encoded = [encode(column) for column in columns]
        return Scanned(np.array(owners, dtype=np.int64), encoded, *self._decode(values))

    def _keys(self, space: Space, slots: Ints) -> list[bytes]:
        groups = key_groups(space.key_hashes()[slots], self._backend.max_parallelism)
        return row_codec.encode_keys(
            row_codec.heads(self._state, groups), [column.take(slots) for column in space.columns()]
        )

    def _decode(self, stored: list[bytes]) -> tuple[Values, Ints | None]:
        updated = None
        if self._has_times:
            stored, updated = row_codec.unstamp(stored)
        values = self._codec.decode(stored)
        if self._is_object:
            return [unpickled(data) for data in values.to_pylist()], updated
        return values, updated
