"""Tables: the entries of one state, in columns by slot. State handles are views of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.arrays import Bools, Ints, Values, Words, objects
from snapline.state.batch_keys import Attached, KeyTypes, Rows, Space
from snapline.state.columns import Column, CopyOnWrite, FrozenColumn
from snapline.state.exact_cast import converted
from snapline.state.fixed_columns import FixedColumn, is_fixed_width, make_fixed_column
from snapline.state.key_index import FrozenKeys
from snapline.state.log_column import LogColumn
from snapline.state.object_column import ObjectColumn
from snapline.state.pickles import pickled
from snapline.state.stable_hash import key_groups
from snapline.state.state_types import StateType
from snapline.text import shortened

_ONE_BYTE = 256

Clock = Callable[[], int]
"""Processing time in milliseconds."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The key columns of entries: the key, perhaps a namespace, perhaps a key inside the state."""

    key: KeyTypes
    namespace: KeyTypes | None = None
    inner: KeyTypes | None = None

    def parts(self) -> list[tuple[str, KeyTypes]]:
        """The columns by their stored name."""
        is_list = self.inner is not None and self.inner.kind == pa.int64() and self.inner.names == ("position",)
        inner = "position" if is_list else "map_key"
        named = (("key", self.key), ("namespace", self.namespace), (inner, self.inner))
        return [(name, types) for name, types in named if types is not None]

    def types(self) -> tuple[tuple[str, pa.DataType], ...]:
        return tuple((name, types.kind) for name, types in self.parts())

    def space(self) -> Space:
        return Space([kind for _, types in self.parts() for kind in types.kinds])

    def arrays(self, columns: list[FrozenKeys]) -> dict[str, pa.Array]:
        """The columns of entries in stored form, by name."""
        remaining = iter(columns)
        return {name: types.decode([next(remaining) for _ in types.kinds]) for name, types in self.parts()}

    def rows(self, stored: pa.Table) -> Rows:
        rows = Rows.of(self.key.encode(stored.column("key")))
        for name, types in self.parts()[1:]:
            rows = rows.inside(types.encode(stored.column(name)))
        return rows


@dataclass(frozen=True, slots=True)
class FrozenTable:
    """The entries of a state at one moment, in columns that no longer change.

    Entries that are not `present`, or not updated after `expired_until_ms`, do not count. Those of a cache that changed
    since they were last written, removed ones too, are `dirty`.
    """

    layout: Layout
    keys: list[FrozenKeys]
    key_hashes: Words
    present: Bools
    dirty: Bools
    values: FrozenColumn
    updated: Ints | None
    expired_until_ms: int | None

    def rows(self, max_parallelism: int) -> FrozenRows:
        """The entries in stored order: by key group, then in the order of arrival."""
        present = self.present
        if self.updated is not None and self.expired_until_ms is not None:
            present = present & (self.updated[: len(present)] > self.expired_until_ms)
        slots = None if present.all() else np.flatnonzero(present)
        groups = key_groups(self.key_hashes if slots is None else self.key_hashes.take(slots), max_parallelism)
        # Numpy's stable sort of small integers is a radix sort; one byte takes half the work of two.
        order = np.argsort(groups.astype(np.uint8) if max_parallelism <= _ONE_BYTE else groups, kind="stable")
        return FrozenRows(self, order if slots is None else slots.take(order), groups.take(order))

    def release(self) -> None:
        self.values.release()


@dataclass(frozen=True, slots=True)
class FrozenRows:
    """Entries of a frozen table in stored order; `slice` makes their columns piece by piece."""

    table: FrozenTable
    slots: Ints
    groups: npt.NDArray[np.uint16]

    @property
    def num_rows(self) -> int:
        return len(self.slots)

    def key_groups(self) -> npt.NDArray[np.int32]:
        return self.groups.astype(np.int32)

    def slice(self, start: int, length: int) -> pa.Table:
        table, slots = self.table, self.slots[start : start + length]
        columns: dict[str, pa.Array] = {"key_group": pa.array(self.groups[start : start + length].astype(np.int32))}
        columns |= table.layout.arrays([column.take(slots) for column in table.keys])
        columns["value"] = table.values.encode(slots)
        if table.updated is not None:
            columns["last_update_ms"] = pa.array(table.updated[slots])
        return pa.table(columns)


class Backing(Protocol):
    """The store below a table that is a cache."""

    def load(self, space: Space, slots: Ints) -> tuple[Ints, Values, Ints | None]:
        """Which of these slots have entries, in any order, their values, and their update times if those are kept."""
        ...


class ValueTable(Attached):
    """One value for each entry. Null is no value: writing null removes the entry.

    With a `backing` the table is a cache: it knows everything about a slot, or nothing and then loads it.
    """

    def __init__(
        self,
        layout: Layout,
        space: Space,
        kind: StateType,
        *,
        ttl_ms: int | None,
        clock: Clock,
        backing: Backing | None = None,
    ) -> None:
        self.layout = layout
        self.space = space
        self.kind = kind
        self.values: Column = ObjectColumn()
        if kind.arrow is not None:
            self.values = make_fixed_column(kind.arrow) if is_fixed_width(kind.arrow) else LogColumn(kind.arrow)
        self.ttl_ms = ttl_ms
        self.refresh_on_read = False
        self._present = CopyOnWrite(np.bool_)
        self._updated = None if ttl_ms is None else CopyOnWrite(np.int64)
        self._clock = clock
        self._backing = backing
        self._known = CopyOnWrite(np.bool_)
        self._dirty = CopyOnWrite(np.bool_)
        self.erasures = 0
        """How many times entries were removed."""
        space.attach(self)

    @property
    def is_cache(self) -> bool:
        """Whether entries may exist without a slot; looking one up has to make a slot first."""
        return self._backing is not None

    def now_ms(self) -> int:
        """The time that the time to live is measured by."""
        return self._clock()

    # Called by the space.

    def grow(self, capacity: int) -> None:
        self.values.grow(capacity)
        for array in self._arrays():
            array.grow(capacity)

    def is_used(self, size: int) -> Bools:
        if self._backing is not None:
            return np.asarray(self._dirty.array[:size] | self._known.array[:size])
        return np.asarray(self._present.array[:size] & self._is_alive(slice(size)))

    def keep(self, slots: Ints) -> None:
        self.erasures += 1
        self.values.keep(slots)
        for array in self._arrays():
            array.keep(slots)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> list[CopyOnWrite]:
        arrays = [self._present]
        if self._updated is not None:
            arrays.append(self._updated)
        if self._backing is not None:
            arrays += [self._known, self._dirty]
        return arrays

    # Many at once. A slot of -1 is an entry that does not exist.

    def is_present(self, slots: Ints) -> Bools:
        self._load(slots)
        present = self._present.array.take(slots)
        present &= slots >= 0
        if self._updated is not None:
            present &= self._is_alive(slots)
        return np.asarray(present)

    def read(self, slots: Ints) -> Values:
        """The values at slots; null, or None, where there is no entry."""
        return self.read_if_present(slots)[0]

    def read_if_present(self, slots: Ints) -> tuple[Values, bool]:
        """The values at slots, and whether all of them exist."""
        present = self.is_present(slots)
        all_present = bool(present.all())
        if self.refresh_on_read:
            self._touch(slots[present])
        return self.values.gather(slots, None if all_present else ~present), all_present

    def write(
        self,
        slots: Ints,
        values: Values,
        *,
        all_present: bool = False,
        is_checked: bool = False,
        at_ms: int | None = None,
    ) -> None:
        """Write values. Where a slot comes twice, the last one wins. `all_present` promises that all entries exist.

        `is_checked` promises that objects can be pickled. `at_ms` is when they were updated, by default now.
        """
        if not hasattr(values, "__len__"):
            raise UserCodeError(f"{shortened(values)} is not a column of values; give an array or a list")
        if len(values) != len(slots):
            raise UserCodeError(f"{len(values)} values for {len(slots)} keys; give one for each")
        valid: Bools | bool = True
        if self.kind.arrow is not None:
            values = converted(values, self.kind.arrow)
            if values.null_count:
                valid = values.is_valid().to_numpy(zero_copy_only=False)
                values = values.drop_null()
        else:
            values = objects(values)
            if self._backing is not None and not is_checked:
                # What cannot be pickled must fail here, not when it is flushed.
                for value in values:
                    pickled(value)
            valid = np.array([value is not None for value in values], dtype=np.bool_)
            values = [value for value in values if value is not None]
        # In order, because the last one wins where a null and a value have the same key.
        self.values.scatter(slots if valid is True else slots[valid], values)
        self._mark(slots, valid, all_present=all_present, at_ms=at_ms)

    def merge(self, reduce: str, slots: Ints, values: Values) -> bool:
        """Merge values into those at slots, in place; a slot may come more than once.

        Returns False, with nothing changed, if the column cannot do that.
        """
        column = self.values
        if not isinstance(column, FixedColumn) or not column.can_merge(reduce) or not isinstance(values, pa.Array):
            return False
        if values.null_count or len(values) != len(slots):
            return False
        values = converted(values, column.kind)
        present = self.is_present(slots)
        all_present = bool(present.all())
        if not column.merge(reduce, slots, slots[:0] if all_present else slots[~present], values):
            return False
        self._mark(slots, True, all_present=all_present)
        return True

    def erase(self, slots: Ints) -> None:
        self._mark(slots[slots >= 0], False)

    def _mark(self, slots: Ints, present: Bools | bool, *, all_present: bool = False, at_ms: int | None = None) -> None:
        if self._backing is not None:
            self._known.own()[slots] = True
            self._dirty.own()[slots] = True
        if self._updated is not None:
            self._updated.own()[slots] = self._clock() if at_ms is None else at_ms
        if present is True and (all_present or self._present.array.take(slots).all()):
            return
        self.erasures += present is not True
        self._present.own()[slots] = present

    # One at a time.

    def get(self, slot: int) -> Any:
        """The value of a slot, or None."""
        if slot < 0:
            return None
        if self._backing is not None and not self._known.array[slot]:
            self._load(np.array([slot]))
        if not self._present.array[slot] or not self._is_alive(slot):
            return None
        if self.refresh_on_read:
            self._touch(np.array([slot]))
        return self.values.get(slot)

    def set(self, slot: int, value: Any, at_ms: int | None = None) -> None:
        if value is None:
            self.erase(np.array([slot]))
            return
        self.values.set(slot, value)
        if not self._present.array[slot]:
            self._present.own()[slot] = True
        if self._updated is not None:
            self._updated.own()[slot] = self._clock() if at_ms is None else at_ms
        if self._backing is not None:
            self._known.own()[slot] = True
            self._dirty.own()[slot] = True

    def _is_alive(self, slots: Any) -> Any:
        if self._updated is None or self.ttl_ms is None:
            return True
        return self._updated.array[slots] > self._clock() - self.ttl_ms

    def _touch(self, slots: Ints) -> None:
        """Restart the time to live of entries."""
        if self._updated is not None:
            self._updated.own()[slots] = self._clock()
            if self._backing is not None:
                self._dirty.own()[slots] = True

    # Snapshots and restores.

    def freeze(self) -> FrozenTable:
        size = self.space.size
        return FrozenTable(
            self.layout,
            self.space.columns(),
            self.space.key_hashes(),
            self._present.freeze()[:size],
            self._dirty.array[:size],
            self.values.freeze(),
            None if self._updated is None else self._updated.freeze(),
            None if self.ttl_ms is None else self._clock() - self.ttl_ms,
        )

    def restore(self, stored: pa.Table) -> Ints:
        """Add stored entries. Returns their slots."""
        slots = self.layout.rows(stored).slots(self.space, add=True)
        self.values.scatter(slots, self.values.decode(stored.column("value").combine_chunks()))
        self._mark(slots, True)
        if self._updated is not None and "last_update_ms" in stored.column_names:
            self._updated.own()[slots] = stored.column("last_update_ms").to_numpy()
        return slots

    # The cache.

    def _load(self, slots: Ints) -> None:
        """Load the unknown ones of these slots."""
        if self._backing is None:
            return
        unknown = slots[(slots >= 0) & ~self._known.array[slots]]
        if not unknown.size:
            return
        unknown = np.unique(unknown)
        found, values, updated = self._backing.load(self.space, unknown)
        self._present.own()[unknown] = False
        if found.size:
            self.values.scatter(found, values)
            self._present.own()[found] = True
            if self._updated is not None and updated is not None:
                self._updated.own()[found] = updated
        self._known.own()[unknown] = True

    def learn(self, slots: Ints, values: Values, updated: Ints | None) -> None:
        """Add entries that a scan of the backing found, unless their slots are known."""
        is_new = ~self._known.array[slots]
        slots = slots[is_new]
        if slots.size:
            picked = (
                values.filter(pa.array(is_new))
                if isinstance(values, pa.Array)
                else [value for value, new in zip(values, is_new.tolist(), strict=True) if new]
            )
            self.values.scatter(slots, picked)
            if self._updated is not None and updated is not None:
                self._updated.own()[slots] = updated[is_new]
            self._present.own()[slots] = True
            self._known.own()[slots] = True

    def freeze_changes(self) -> FrozenTable:
        """Freeze a cache. Dirty entries count as written from now on."""
        frozen, self._dirty = self.freeze(), CopyOnWrite(np.bool_)
        self._dirty.grow(len(self._present.array))
        return frozen
