"""The RocksDB backend: state larger than memory, in a database on local disk, with incremental checkpoints.

Entries in use are cached in the same tables as in the memory backend. When the cache is full, what has not been used
for the longest time leaves it, and only what changed of that is written to the database.

The synchronous part of a snapshot only freezes the tables. The asynchronous part writes the changes: few of them to
the database, which then makes a checkpoint of itself out of hard links, a `Base`; many of them to a file of changes on
top of the last base, which costs a fraction. Of both, only files that no completed checkpoint has are uploaded.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import ConfigurationError, EngineError, StorageError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import StoredObject
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import KeyTypes, Rows, Space
from snapline.state.evolution import widening_obstacle
from snapline.state.keyed_backend import KeyedBackend, KeyedSnapshot, Registered
from snapline.state.map_tables import MapTable
from snapline.state.rocksdb import row_codec
from snapline.state.rocksdb.change_log import read_changes
from snapline.state.rocksdb.checkpoint_base import Backlog, Base, with_dirty
from snapline.state.rocksdb.entry_writer import copy_entries, flush_table
from snapline.state.rocksdb.recent_space import RecentSpace
from snapline.state.rocksdb.rocksdb_files import (
    NATIVE,
    Listing,
    StateEntry,
    decode_listing,
    fetch_files,
    open_database,
    read_state,
)
from snapline.state.rocksdb.rocksdb_snapshot import Change, RocksDbSnapshot
from snapline.state.rocksdb.row_codec import ValueCodec
from snapline.state.rocksdb.state_memory import StateMemory
from snapline.state.rocksdb.stored_state import StoredState
from snapline.state.rocksdb.sweeper import Sweeper
from snapline.state.shared_objects import SharedObjects
from snapline.state.stable_hash import key_groups as groups_of
from snapline.state.state_shape import Shape
from snapline.state.state_types import StateType
from snapline.state.value_tables import Clock, FrozenTable, Layout
from snapline.storage.snapshot_reader import SnapshotReader

if TYPE_CHECKING:
    from rocksdict import Rdict

MAX_CACHED_ENTRIES = 2_000_000
LEAST_LOGGED = 100_000
"""From this many changes on, a checkpoint writes them to a file instead of the database."""

_MOST_LOGGED = 4
"""Files of changes have at most this many times the entries of the cache: a restore reads them all."""

_MOST_FILES = 64
_STAMPED = 0.25
"""The cache notes when entries are used once it is fuller than this."""

_KEPT = 0.5
"""How full the cache is after it has made room."""

_MEASURED_ROWS = 4096
"""The memory that tables take is measured each time this many rows have come."""


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
        least_logged: int = LEAST_LOGGED,
        memory: StateMemory | None = None,
    ) -> None:
        super().__init__(key, max_parallelism=max_parallelism, key_groups=key_groups, clock=clock, uid=uid)
        if directory.exists() and any(directory.iterdir()):
            raise ConfigurationError(f"{directory} is not empty; a RocksDB backend needs a directory of its own")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._max_cached_entries = max_cached_entries
        self._least_logged = least_logged
        self._memory = memory
        self._unmeasured = 0
        self._db: Rdict | None = None
        self._ids: dict[str, int] = {}
        self._next_id = 0
        self._is_closed = False
        self._lock = Lock()
        self._opening = Lock()
        self._unflushed: deque[RocksDbSnapshot] = deque()
        self._base: Base | None = None
        self._backlogs: dict[str, Backlog] = {}
        self._epoch = 0
        self._broken: BaseException | None = None
        self.has_everything_cached = True
        """Whether all entries are in the cache: nothing was restored or evicted yet."""
        self._is_written = False
        """Whether the database has entries, or will have once waiting snapshots are flushed."""
        self._numbers = count()
        self._sweeper = Sweeper()
        self._shared = SharedObjects[str]()

    @property
    def db(self) -> Rdict:
        if self._db is None:
            # The task and a snapshot may get here at the same time.
            with self._opening:
                if self._is_closed:
                    raise EngineError("a closed backend was used")
                if self._db is None:
                    options = None if self._memory is None else self._memory.options()
                    self._db = open_database(self._directory / "db", options=options)
        return self._db

    # Between two batches is the time to make room.

    def keys(self, values: Any) -> Rows:
        rows = super().keys(values)
        self._make_room(len(rows))
        return rows

    def _space(self, namespace: KeyTypes | None) -> Space:
        kind = None if namespace is None else namespace.kind
        if kind not in self._spaces:
            layout = Layout(self.key, namespace)
            self._spaces[kind] = RecentSpace([part for _, types in layout.parts() for part in types.kinds])
        return self._spaces[kind]

    def _check_not_broken(self) -> None:
        if self._broken is not None:
            raise StorageError(f"state could not be written to {self._directory}: {self._broken}") from self._broken

    def _make_room(self, rows: int = _MEASURED_ROWS) -> None:
        """Called before so many rows are processed."""
        self._check_not_broken()
        spaces = [*self._spaces.values(), *self._entry_spaces()]
        entries = sum(space.size for space in spaces)
        fullness = entries / self._max_cached_entries
        self._unmeasured += rows
        if self._memory is not None and self._unmeasured >= _MEASURED_ROWS:
            fullness = max(fullness, self._measure(self._memory, spaces))
        if fullness > _STAMPED:
            self._epoch += 1
            for space in self._spaces.values():
                assert isinstance(space, RecentSpace)
                space.epoch = self._epoch
        if fullness > 1:
            self._evict(_KEPT / fullness)
            if self._memory is not None:
                self._memory.take(self, sum(space.nbytes for space in spaces))

    def _measure(self, memory: StateMemory, spaces: Sequence[Space]) -> float:
        """How full memory is, or will be once spaces that are nearly full have doubled. Above 1 is too much."""
        taken = sum(space.nbytes for space in spaces)
        memory.take(self, taken)
        growth = sum(space.nbytes for space in spaces if space.size + self._unmeasured > space.capacity)
        self._unmeasured = 0
        return memory.excess(self, taken + growth)

    def evict(self) -> None:
        """Flush all changes and empty the cache."""
        self._evict(0.0)

    def _evict(self, kept_share: float) -> None:
        """Drop what was not used for the longest time, except for a share; what changed of it is flushed before."""
        self.has_everything_cached = False
        self._is_written = True
        self._forget_base()
        kept = {space: self._hottest(space, kept_share) for space in self._spaces.values()}
        with self._lock:
            self._flush_snapshots()
            for name, state in self._states.items():
                owners = self._space(state.shape.layout.namespace)
                is_kept = np.zeros(owners.size + 1, dtype=np.bool_)
                is_kept[kept[owners]] = True
                if isinstance(state.table, MapTable):
                    # The entries of an owner stay or go together. Those of none, which were removed, have place -1.
                    is_kept = is_kept[state.table.entry_owners()]
                    kept[state.values.space] = np.flatnonzero(is_kept)
                self._flush_dropped(name, state, is_kept)
        for space, slots in kept.items():
            space.keep(slots)

    def _hottest(self, space: Space, share: float) -> Ints:
        assert isinstance(space, RecentSpace)
        weights = np.ones(space.size, dtype=np.int64)
        for state in self._states.values():
            if isinstance(state.table, MapTable) and state.table.owners is space:
                owners = state.table.entry_owners()
                weights += np.bincount(owners[owners >= 0], minlength=space.size)
        return space.hottest(weights, int(weights.sum() * share))

    def _flush_dropped(self, name: str, state: Registered, is_kept: Bools) -> None:
        changes = state.values.freeze()
        try:
            changed = self._backlogs[name].flags(changes.dirty)
            self._flush(self._ids[name], state.values.kind.stored, changes, changed & ~is_kept[: len(changed)])
        except BaseException as error:
            self._broken = error
            raise
        finally:
            changes.release()

    def _entry_spaces(self) -> list[Space]:
        return [state.values.space for state in self._states.values() if isinstance(state.table, MapTable)]

    # Flushing changes: only with the lock held, and in the order in which they were frozen.

    def _flush_snapshots(self, last: RocksDbSnapshot | None = None) -> None:
        """Write the changes of waiting snapshots, up to and including `last`. None writes all."""
        while self._unflushed and not (last is not None and last.is_flushed):
            snapshot = self._unflushed.popleft()
            try:
                self._write_changes(snapshot)
            except BaseException as error:
                # These changes exist nowhere else: the database cannot be trusted from now on.
                self._broken = error
                raise
            snapshot.flushed()

    def _write_changes(self, snapshot: RocksDbSnapshot) -> None:
        # As the states were then: meanwhile the task may have dropped some.
        states = {entry.info.state: (entry.id, entry.schema.field("value").type) for entry in snapshot.listing.states}
        if snapshot.is_logged:
            snapshot.base.log([(*states[name], change.table) for name, change in snapshot.changes.items()])
            return
        for name, change in snapshot.changes.items():
            self._flush(*states[name], change.table, with_dirty(change.logged, change.table.dirty))
        for entry in snapshot.listing.states:
            self._sweeper.sweep(self.db, entry, snapshot.now_ms)
        snapshot.base.link(self.db)

    def _flush(self, number: int, kind: pa.DataType, changes: FrozenTable, chosen: Bools) -> None:
        scratch = self._directory / "flush.sst"
        flush_table(self.db, scratch, number, ValueCodec(kind), changes, chosen, self.max_parallelism)

    # Snapshots.

    def snapshot(self, *, full: bool = False, canonical: bool = False) -> KeyedSnapshot:
        self._check_not_broken()
        self.selection.settle()
        replaced: Base | None = None
        frozen = {name: state.values.freeze_changes() for name, state in self._states.items()}
        changed = sum(int(np.count_nonzero(table.dirty)) for table in frozen.values())
        is_logged = not full and not canonical and self._can_log(changed)
        if is_logged:
            for name, table in frozen.items():
                self._backlogs[name].add(table.dirty)
            changes = {name: Change(table) for name, table in frozen.items()}
        else:
            self._is_written = True
            replaced, self._base = self._base, Base(self._directory / f"base-{next(self._numbers)}")
            changes = {name: Change(table, self._backlogs[name].take()) for name, table in frozen.items()}
        assert self._base is not None
        self._base.logged += changed if is_logged else 0
        self._base.join()
        timers = None if self._timers is None else self._timers.freeze()
        reusable = {} if full or canonical else self._shared.reusable()
        snapshot = RocksDbSnapshot(
            self, changes, self.listing(), timers, self._clock(), self._base, is_logged, reusable, canonical, replaced
        )
        self._unflushed.append(snapshot)
        return snapshot

    def _can_log(self, changed: int) -> bool:
        """Whether a file of changes is cheaper than the database for this many, and the last base may have one more."""
        if self._base is None and not self._is_written and changed >= self._least_logged:
            self._base = Base(self._directory / f"base-{next(self._numbers)}")
        base = self._base
        if base is None or changed + base.logged < self._least_logged:
            return False
        entries = sum(state.values.space.size for state in self._states.values())
        return base.logged + changed <= _MOST_LOGGED * entries and len(base.changes) < _MOST_FILES

    def _forget_base(self) -> None:
        """The database has, or will have, what the base has not: the next snapshot makes another."""
        if self._base is not None:
            self._base.leave()
            self._base = None

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
        self._shared.offer(checkpoint_id, files)

    def confirm(self, checkpoint_id: int) -> None:
        self._shared.confirm(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        self._shared.abort(checkpoint_id)

    def close(self) -> None:
        with self._lock, self._opening:
            self._is_closed = True
            if self._memory is not None:
                self._memory.leave(self)
            self._unflushed.clear()
            if self._db is not None:
                self._db.close()
                self._db = None
        shutil.rmtree(self._directory, ignore_errors=True)

    # The database below the cache.

    def _backing(self, name: str, layout: Layout, declared: StateType, ttl_ms: int | None) -> StoredState:
        if name not in self._ids:
            self._ids[name] = self._next_id
            self._next_id += 1
        return StoredState(self, self._ids[name], layout, declared, has_times=ttl_ms is not None)

    def _register(self, name: str, shape: Shape, ttl_ms: int | None) -> Registered:
        state = super()._register(name, shape, ttl_ms)
        backlog = self._backlogs[name] = Backlog(state.table)
        state.values.space.attach(backlog)
        return state

    def _restored_some(self) -> None:
        self._make_room()

    def _stored_tables(self, name: str) -> Iterator[pa.Table]:
        self.evict()
        return read_state(self.db, self._entry(name), self.key_groups, now_ms=self._clock())

    def _detached(self, name: str) -> Callable[[], None]:
        state = self._ids.pop(name)
        del self._backlogs[name]
        self._forget_base()
        return lambda: self.db.delete_range(row_codec.head(state, 0), row_codec.head(state + 1, 0))

    # Restoring the backend's own files.

    def _restore_native(self, part: KeyedRestore, source: SnapshotReader) -> None:
        if part.part.native != NATIVE:
            super()._restore_native(part, source)
        listing_item, *files = part.part.objects
        listing = decode_listing(source.read(listing_item), listing_item.path)
        self._sequence = max(self._sequence, listing.sequence)
        is_first = self._db is None and not self._states
        directory = self._directory / ("db" if is_first else f"restored-{next(self._numbers)}")
        fetch_files(directory, listing.files, files, source)
        has_database = len(listing.files) > len(listing.changes)
        self._is_written = self._is_written or has_database
        self.has_everything_cached = self.has_everything_cached and not has_database
        if is_first:
            self._adopt(listing, files, part)
        elif has_database:
            self._copy_states(directory, listing, part.key_groups)
        for name in listing.changes:
            for number, table in read_changes(directory / name, name):
                self._restore_changes(listing, number, table, part.key_groups)
            (directory / name).unlink()
        if not is_first:
            shutil.rmtree(directory)

    def _adopt(self, listing: Listing, files: Sequence[StoredObject], part: KeyedRestore) -> None:
        """Use the restored database as it is; what it has for key groups of other subtasks is deleted."""
        for entry in listing.states:
            self._ids[entry.info.state] = entry.id
            self._register(entry.info.state, entry.shape(self.key), entry.info.ttl_ms)
            if part.part.key_groups != part.key_groups:
                start, end = row_codec.head(entry.id, part.key_groups.start), part.key_groups.end + 1
                self.db.delete_range(row_codec.head(entry.id, 0), start)
                self.db.delete_range(row_codec.head(entry.id, end), row_codec.head(entry.id + 1, 0))
        self._next_id = max(self._ids.values(), default=-1) + 1
        # Files of changes are not kept here, and new ones may get the same names.
        named = [pair for pair in zip(listing.files, files, strict=True) if pair[0] not in listing.changes]
        self._shared.restored({name: item for name, item in named if item.shared_key is not None})

    def _copy_states(self, directory: Path, listing: Listing, groups: KeyGroupRange) -> None:
        database = open_database(directory, read_only=True)
        try:
            for entry in listing.states:
                self._copy(database, entry, groups)
        finally:
            database.close()

    def _copy(self, database: Rdict, entry: StateEntry, groups: KeyGroupRange) -> None:
        """Copy the entries of some key groups. Bytes stay the same, except for the number of the state."""
        known = self._known(entry)
        if known.values.kind != entry.shape(self.key).values or known.values.ttl_ms != entry.info.ttl_ms:
            for table in read_state(database, entry, groups, now_ms=self._clock()):
                known.table.restore(table)
                self._make_room()
            return
        start, end = row_codec.head(entry.id, groups.start), row_codec.head(entry.id, groups.end + 1)
        copy_entries(database, start, end, self.db, self._ids[entry.info.state], self._directory / "copied.sst")

    def _known(self, entry: StateEntry) -> Registered:
        """The state that a restored one belongs to; a new one if there is none."""
        name, shape = entry.info.state, entry.shape(self.key)
        known = self._states.get(name)
        if known is None:
            known = self._register(name, shape, entry.info.ttl_ms)
        self._check_restored(name, shape, known.shape, widening_obstacle(shape.values, known.shape.values))
        return known

    def _restore_changes(self, listing: Listing, number: int, table: pa.Table, groups: KeyGroupRange) -> None:
        """Make the changes of some key groups, in the cache."""
        entry = next((entry for entry in listing.states if entry.id == number), None)
        if entry is None:
            # The state was dropped after these changes.
            return
        known = self._known(entry)
        layout = known.values.layout
        places = groups_of(layout.rows(table).key_hashes, self.max_parallelism)
        table = table.filter(pa.array((places >= groups.start) & (places <= groups.end)))
        is_present = pc.is_valid(table.column("value"))
        known.table.restore(table.filter(is_present))
        known.values.erase(layout.rows(table.filter(pc.invert(is_present))).slots(known.values.space, add=True))
        self._make_room()
