"""Keyed state of one operator in one subtask: its states, snapshots and restore.

`KeyedBackend` is the contract, and nearly all of the implementation. For the task's thread only; the asynchronous part
of a snapshot may run on any other. The memory backend keeps everything in tables; for the RocksDB backend tables are a
cache.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.errors import ConfigurationError, DamagedError, EngineError, RestoreError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart, StoredObject
from snapline.state import state_files
from snapline.state.arrays import Ints
from snapline.state.batch_keys import KeyTypes, Rows, Space, key_types
from snapline.state.collection_states import ListState, MapState
from snapline.state.declaration import Declaration, namespace_types
from snapline.state.evolution import Change, Migrate, widening_obstacle
from snapline.state.key_scope import Scope
from snapline.state.list_cells import ListCells
from snapline.state.map_cells import MapCells
from snapline.state.map_tables import MapTable, ScanBacking
from snapline.state.selection import Selection
from snapline.state.stable_hash import key_groups
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.state.state_shape import Shape, check_key_type, stored_shape
from snapline.state.state_types import StateType, resolve
from snapline.state.timers import TIMERS_STATE, Timers
from snapline.state.ttl import Lifetime
from snapline.state.value_cells import ValueCells
from snapline.state.value_states import (
    AggregateFunction,
    AggregatingState,
    Reduce,
    ReducingState,
    ValueState,
    check_reducer,
)
from snapline.state.value_tables import Clock, Layout, ValueTable
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

POSITION = StateType(pa.int64())
"""The type of the position of list elements."""

_MAX_STATES = 1000


@dataclass(slots=True)
class Registered:
    """A state of this backend: declared, or restored and not declared yet."""

    shape: Shape
    table: ValueTable | MapTable
    cells: ValueCells | MapCells | ListCells
    is_declared: bool = False

    @property
    def values(self) -> ValueTable:
        return self.table.values if isinstance(self.table, MapTable) else self.table

    def info(self, uid: str, name: str, max_parallelism: int) -> StateInfo:
        values = self.values
        encoding = ValueEncoding.PICKLE if values.kind.is_object else ValueEncoding.ARROW
        return StateInfo(uid, name, self.shape.kind, max_parallelism, encoding, values.ttl_ms)


class KeyedSnapshot(ABC):
    """Keyed state at the moment of the synchronous part, to be written by the asynchronous part."""

    @abstractmethod
    def write(self, target: SnapshotWriter) -> tuple[KeyedPart, ...]:
        """Write it, once, from any thread."""

    @abstractmethod
    def release(self) -> None:
        """Free it, after `write` or instead of it. May be called more than once."""


class KeyedBackend(ABC):
    """Keyed state for the key groups of one subtask.

    `key` is the type of the key, a struct for several columns. `clock` returns processing time in milliseconds.
    """

    def __init__(
        self, key: object, *, max_parallelism: int, key_groups: KeyGroupRange, clock: Clock, uid: str = ""
    ) -> None:
        self.key = key_types(resolve(key), "key")
        self.max_parallelism = max_parallelism
        self.key_groups = key_groups
        self.uid = uid
        self._real_clock = clock
        self._held_ms: int | None = None
        self._states: dict[str, Registered] = {}
        self._spaces: dict[pa.DataType | None, Space] = {}
        self._timers: Timers | None = None
        self._sequence = 0
        self.selection = Selection(self.distinct)

    # Time.

    def hold_time(self, now_ms: int | None) -> None:
        """Measure time to live by this time instead of the clock: nothing expires between calls. None ends it."""
        self._held_ms = now_ms

    def _clock(self) -> int:
        return self._real_clock() if self._held_ms is None else self._held_ms

    # Keys.

    def keys(self, values: Any) -> Rows:
        """The keys of a batch, hashed once for the vectorised calls of all states.

        `values` is an Arrow array, a list of keys, or for composite keys also a list of arrays.
        """
        rows = Rows.of(self.key.encode(values))
        if len(self.key_groups) < self.max_parallelism and len(rows):
            groups = key_groups(rows.key_hashes, self.max_parallelism)
            for group in (int(groups.min()), int(groups.max())):
                if group not in self.key_groups:
                    raise EngineError(
                        f"a row of key group {group} came to a subtask that owns "
                        f"{self.key_groups.start} to {self.key_groups.end}"
                    )
        return rows

    def distinct(self, keys: Rows) -> tuple[Ints, Ints]:
        """The distinct keys of a batch: the last row of each, and for each row the index of its key."""
        space = self._space(None)
        _, groups = space.distinct(keys.slots(space, add=True))
        every_row = np.arange(len(keys))
        if groups is None:
            return every_row, every_row
        last_rows = np.empty(int(groups.max()) + 1, dtype=np.int64)
        last_rows[groups] = every_row
        return last_rows, groups.astype(np.int64)

    def rows(self, keys: Any) -> Rows:
        return keys if isinstance(keys, Rows) else self.keys(keys)

    def select(self, keys: Rows, row: int) -> None:
        """Make the key of a row the current key."""
        self.selection.select(keys, row)

    def select_key(self, key: Any) -> None:
        """Make this the current key."""
        self.select(self.keys([key]), 0)

    def select_none(self) -> None:
        """Have no current key: calls for one key raise until a key is selected."""
        self.selection.end()

    def select_namespace(self, namespace: Any) -> None:
        """Make this the current namespace, for states that have one."""
        self.selection.namespace = namespace

    # Declaring states.

    def value_state(
        self,
        name: str,
        kind: object = object,
        *,
        default: Any = None,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
        promotes: bool = False,
        namespace: object = None,
    ) -> ValueState:
        """One value for each key.

        Restored values of another type become values of this one where that is possible, new fields of a struct from
        the `default`. With `migrate`, each of them is passed through this function instead. With `promotes`, integers
        may become floats, and text and binary each other.
        """
        change = Change(migrate, default, promotes)
        declaration = Declaration.of(StateKind.VALUE, name, kind, ttl, namespace, change)
        return self._values(declaration, default)

    def reducing_state(
        self,
        name: str,
        kind: object,
        reduce: Reduce,
        *,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
        namespace: object = None,
    ) -> ReducingState:
        """One value for each key; every added value is merged into it."""
        check_reducer(name, reduce, resolve(kind))
        declaration = Declaration.of(StateKind.REDUCING, name, kind, ttl, namespace, Change(migrate))
        return ReducingState(self._values(declaration), reduce)

    def aggregating_state(
        self,
        name: str,
        function: AggregateFunction[Any],
        accumulator: object = object,
        *,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
        namespace: object = None,
    ) -> AggregatingState[Any]:
        """An accumulator for each key; `accumulator` is its type."""
        declaration = Declaration.of(StateKind.AGGREGATING, name, accumulator, ttl, namespace, Change(migrate))
        return AggregatingState(self._values(declaration), function)

    def list_state(
        self,
        name: str,
        kind: object = object,
        *,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
        promotes: bool = False,
        namespace: object = None,
    ) -> ListState:
        """A list for each key. `migrate` takes and returns single elements."""
        declaration = Declaration.of(StateKind.LIST, name, kind, ttl, namespace, Change(migrate, promotes=promotes))
        known = self._declare(declaration, key_types(POSITION, "position"))
        assert isinstance(known.cells, ListCells)
        return ListState(known.cells)

    def map_state(
        self,
        name: str,
        map_key: object,
        kind: object = object,
        *,
        ttl: Lifetime | None = None,
        migrate: Migrate | None = None,
        promotes: bool = False,
        namespace: object = None,
    ) -> MapState:
        """A map for each key; `map_key` is the type of its keys. `migrate` takes and returns the value of an entry."""
        declaration = Declaration.of(StateKind.MAP, name, kind, ttl, namespace, Change(migrate, promotes=promotes))
        known = self._declare(declaration, key_types(resolve(map_key), "map key"))
        assert isinstance(known.cells, MapCells)
        return MapState(known.cells)

    def drop_state(self, name: str) -> None:
        """Delete a state of all keys, declared or only restored. Does nothing if there is none.

        Handles of the state must not be used afterwards. The name may be declared again.
        """
        known = self._states.pop(name, None)
        if known is not None:
            self._detach(known)
            self._detached(name)()

    def timers(self, namespace: object = None) -> Timers:
        """The timers of this operator; always the same ones."""
        types = namespace_types(namespace)
        if self._timers is None:
            self._timers = Timers(Layout(self.key, types), Scope(self.rows, self.selection, types))
        self._timers.check_namespace(types)
        return self._timers

    def _values(self, declaration: Declaration, default: Any = None) -> ValueState:
        known = self._declare(declaration, None)
        assert isinstance(known.cells, ValueCells)
        return ValueState(known.cells, default)

    def _declare(self, declaration: Declaration, inner: KeyTypes | None) -> Registered:
        name, values, ttl_ms = declaration.name, declaration.values, declaration.ttl_ms
        shape = Shape(declaration.kind, Layout(self.key, declaration.namespace, inner), values)
        known = self._states.get(name)
        if known is None:
            known = self._register(name, shape, ttl_ms)
        elif known.is_declared:
            if not (shape.is_like(known.shape) and values == known.shape.values and known.values.ttl_ms == ttl_ms):
                raise ConfigurationError(
                    f"state {name!r} was declared before as {known.shape}, and now as {shape}, or with another time to "
                    "live; use another name for one of them"
                )
        else:
            change = declaration.change
            self._check_restored(name, known.shape, shape, change.obstacle(known.shape.values, values))
            if known.values.kind != values or known.values.ttl_ms != ttl_ms:
                known = self._convert(name, known, values, ttl_ms, change)
        known.is_declared = True
        lifetime = declaration.lifetime
        known.values.values.unseal()
        known.values.refresh_on_read = lifetime is not None and lifetime.refresh_on_read
        return known

    def _register(self, name: str, shape: Shape, ttl_ms: int | None) -> Registered:
        if len(self._states) >= _MAX_STATES:
            raise ConfigurationError(f"an operator has at most {_MAX_STATES} states; use a map state instead")
        layout, space = shape.layout, self._space(shape.layout.namespace)
        backing = self._backing(name, layout, shape.values, ttl_ms)
        scope = Scope(self.rows, self.selection, layout.namespace)
        table: ValueTable | MapTable
        cells: ValueCells | MapCells | ListCells
        if layout.inner is None:
            table = ValueTable(layout, space, shape.values, ttl_ms=ttl_ms, clock=self._clock, backing=backing)
            cells = ValueCells(scope, table)
        else:
            table = MapTable(layout, space, shape.values, ttl_ms=ttl_ms, clock=self._clock, backing=backing)
            is_list = shape.kind is StateKind.LIST
            cells = ListCells(scope, table, self._next_positions) if is_list else MapCells(scope, table)
        registered = self._states[name] = Registered(shape, table, cells)
        return registered

    def _detach(self, state: Registered) -> None:
        state.cells.scope.detach()
        self._space(state.shape.layout.namespace).detach(state.table)

    def _space(self, namespace: KeyTypes | None) -> Space:
        kind = None if namespace is None else namespace.kind
        if kind not in self._spaces:
            self._spaces[kind] = Layout(self.key, namespace).space()
        return self._spaces[kind]

    def _check_restored(self, name: str, stored: Shape, declared: Shape, obstacle: str | None) -> None:
        if not declared.is_like(stored) or obstacle is not None:
            reason = f" ({obstacle})" if obstacle is not None and obstacle not in str(declared) else ""
            raise RestoreError(
                f"state {name!r} of {self.uid!r} was saved as {stored}, and is declared as {declared}{reason}; "
                "declare it as it was, give a function that converts the values (migrate=), or use another name"
            )

    def _convert(
        self, name: str, known: Registered, declared: StateType, ttl_ms: int | None, change: Change
    ) -> Registered:
        """Convert restored state to another type, or another time to live."""
        tables = self._stored_tables(name)
        del self._states[name]
        self._detach(known)
        delete_old = self._detached(name)
        fresh = self._register(name, replace(known.shape, values=declared), ttl_ms)
        for stored in tables:
            values = change.apply(stored.column("value"), known.shape.values, declared, f"state {name!r}")
            fresh.table.restore(stored.set_column(stored.column_names.index("value"), "value", values))
            self._restored_some()
        delete_old()
        return fresh

    def _next_positions(self, count: int) -> int:
        start = self._sequence
        self._sequence += count
        return start

    # Restoring.

    def restore(self, parts: Sequence[KeyedRestore], source: SnapshotReader) -> None:
        """Add what is stored for the key groups of this subtask, before any state is used."""
        for part in parts:
            if part.part.native is not None:
                self._restore_native(part, source)
            elif not part.part.raw:
                is_whole = part.key_groups == part.part.key_groups
                for item in part.part.objects:
                    self._restore_object(item, part.key_groups, source, is_whole=is_whole)

    def _restore_object(
        self, item: StoredObject, groups: KeyGroupRange, source: SnapshotReader, *, is_whole: bool
    ) -> None:
        # A whole file is read and checked at once; of some key groups only the pages needed are.
        with io.BytesIO(source.read(item)) if is_whole else source.open(item) as file:
            described = state_files.describe(file)
            if described.info.uid != self.uid:
                raise DamagedError(f"{item.path} holds state of {described.info.uid!r}, not of {self.uid!r}")
            for table in state_files.iterate(file, groups):
                self._restore_table(described.info, table)

    def _restore_table(self, info: StateInfo, table: pa.Table) -> None:
        schema = table.schema
        if info.state == TIMERS_STATE:
            check_key_type(self.key, info, schema)
            namespace = schema.field("namespace").type if "namespace" in schema.names else None
            self.timers(namespace).restore(table)
            return
        stored = stored_shape(self.key, info, schema)
        known = self._states.get(info.state)
        if known is None:
            known = self._register(info.state, stored, info.ttl_ms)
        else:
            self._check_restored(info.state, stored, known.shape, widening_obstacle(stored.values, known.shape.values))
        if info.kind is StateKind.LIST:
            self._sequence = max(self._sequence, int(table.column("position").to_numpy().max(initial=-1)) + 1)
        known.table.restore(table)
        self._restored_some()

    def _restore_native(self, part: KeyedRestore, source: SnapshotReader) -> None:
        """Restore from a backend's own files. Backends that have such files override it."""
        raise RestoreError(
            f"{self.uid!r} was saved by the {part.part.native} backend in files of its own, which this backend cannot "
            "read; restore with that backend, or from a canonical savepoint"
        )

    # What backends do differently. Those without a store below their tables need less.

    @abstractmethod
    def snapshot(self, *, full: bool = False, canonical: bool = False) -> KeyedSnapshot:
        """The synchronous part: freeze all state.

        `full`: refer to nothing older. `canonical`: use the open format, not the backend's own.
        """

    def confirm(self, checkpoint_id: int) -> None:
        """Called when a checkpoint that this backend took part in is complete."""

    def abort(self, checkpoint_id: int) -> None:
        """Called when a checkpoint that this backend took part in has failed."""

    @abstractmethod
    def close(self) -> None:
        """Free memory and files. Nothing may be called afterwards."""

    def _backing(self, name: str, layout: Layout, declared: StateType, ttl_ms: int | None) -> ScanBacking | None:
        """The store below the table of a new state, or None."""
        return None

    @abstractmethod
    def _stored_tables(self, name: str) -> Iterable[pa.Table]:
        """All entries of a state in stored form, also while it is being replaced."""

    def _detached(self, name: str) -> Callable[[], None]:
        """Give up the name of a state in the store below. Returns a call that deletes its entries there."""
        return _nothing

    def _restored_some(self) -> None:
        """Called after each piece of a restore."""


def _nothing() -> None:
    """There is no store below the tables."""
