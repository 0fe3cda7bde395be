"""Tables with many entries per key: the entries of maps and the elements of lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from snapline.state.arrays import Bools, Ints, Values
from snapline.state.batch_keys import Attached, Rows, Space
from snapline.state.columns import SlotArray
from snapline.state.stable_hash import EncodedKeys
from snapline.state.state_types import StateType
from snapline.state.value_tables import Backing, Clock, Layout, ValueTable

_SCALAR = 16
"""Up to this many chains are followed one after the other."""

_SHORT = 16
"""A chain of at most this many entries is not worth tidying."""

MOST_STEPS = 32
"""Chains with more entries, removed ones too, are not short."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """Entries that a scan found: the index of the owner of each, its key inside the owner, and its value.

    `updated` are the update times, or None if those are not kept. `skipped` are owners with too many entries.
    """

    owners: Ints
    inner: list[EncodedKeys]
    values: Values
    updated: Ints | None
    skipped: Ints


class ScanBacking(Backing, Protocol):
    """A backing that can also list the entries of an owner."""

    def scan(self, space: Space, slots: Ints, most: int | None = None) -> Scanned:
        """All entries of the owners with these slots, without those of owners that have more than `most`."""
        ...


class Chain(Attached):
    """Which entries belong to which owner: linked lists in arrays.

    Every entry refers to the one before it, every owner to its last entry. Owners and entries are slots of two spaces.
    """

    def __init__(self, owners: Space, values: ValueTable, table: object) -> None:
        self.owner = table
        self._values = values
        self._tails = SlotArray(np.int64, fill=-1)
        self._previous = SlotArray(np.int64, fill=-1)
        self._owners = SlotArray(np.int64, fill=-1)
        owners.attach(self)
        values.space.attach(_EntrySide(self))

    def link(self, entries: Ints, owners: Ints) -> None:
        """Append the entries that are not linked yet to the chains of their owners, in order."""
        is_new = self._owners.array[entries] < 0
        if not is_new.any():
            return
        entries, firsts = np.unique(entries[is_new], return_index=True)
        owners = owners[is_new][firsts]
        order = np.argsort(owners, kind="stable")
        entries, owners = entries[order], owners[order]
        is_first = np.ones(len(owners), dtype=np.bool_)
        is_first[1:] = owners[1:] != owners[:-1]
        before = np.roll(entries, 1)
        self._previous.array[entries] = np.where(is_first, self._tails.array[owners], before)
        self._owners.array[entries] = owners
        is_last = np.roll(is_first, -1)
        self._tails.array[owners[is_last]] = entries[is_last]

    def walk_one(self, owner: int) -> Ints:
        """The present entries of one owner, oldest first."""
        entries = self._chain_of(owner) if owner >= 0 else np.zeros(0, dtype=np.int64)
        if not entries.size:
            return entries
        present = self._values.is_present(entries)
        self._tidy(owner, entries, present)
        return entries[present]

    def walk(self, owners: Ints) -> tuple[Ints, Ints]:
        """The present entries of owners: for each entry the index into `owners`, and its slot; oldest first."""
        row = np.flatnonzero(owners >= 0)
        rows, entries = self._follow(owners, row)
        present = self._values.is_present(entries)
        rows, entries = rows[present], entries[present]
        order = np.argsort(rows, kind="stable")
        return rows[order], entries[order]

    def walk_short(self, owners: Ints) -> tuple[Ints, Ints, Bools]:
        """The same for different owners, without the entries of long chains; and which chains are long.

        Unlinks removed entries on the way, or walking would get slower and slower.
        """
        previous, tails, linked = self._previous.array, self._tails.array, self._owners.array
        row = np.flatnonzero(owners >= 0)
        entry = tails[owners[row]]
        # The newest present entry passed so far in each row, to which the next one is linked; -1 is the owner itself.
        last = np.full(len(owners), -1, dtype=np.int64)
        rows, entries = [row[:0]], [entry[:0]]

        def link(row: Ints, entry: Ints) -> None:
            newer = last[row]
            is_first = newer < 0
            tails[owners[row[is_first]]] = entry[is_first]
            previous[newer[~is_first]] = entry[~is_first]

        for _ in range(MOST_STEPS):
            left = entry >= 0
            if not left.all():
                link(row[~left], entry[~left])
                row, entry = row[left], entry[left]
            if not row.size:
                break
            present = self._values.is_present(entry)
            older = previous[entry]
            linked[entry[~present]] = -1
            found, kept = row[present], entry[present]
            link(found, kept)
            last[found] = kept
            rows.append(found)
            entries.append(kept)
            entry = older
        link(row, entry)
        is_long = np.zeros(len(owners), dtype=np.bool_)
        is_long[row[entry >= 0]] = True
        all_rows, all_entries = np.concatenate(rows)[::-1], np.concatenate(entries)[::-1]
        short = ~is_long[all_rows]
        all_rows, all_entries = all_rows[short], all_entries[short]
        order = np.argsort(all_rows, kind="stable")
        return all_rows[order], all_entries[order], is_long

    def _follow(self, owners: Ints, row: Ints) -> tuple[Ints, Ints]:
        """All entries of the owners in these rows, oldest first within a row, each with its row."""
        if row.size > _SCALAR:
            return self._follow_many(owners, row)
        chains = [self._chain_of(owner) for owner in owners[row].tolist()]
        return np.repeat(row, [len(chain) for chain in chains]), np.concatenate([*chains, row[:0]])

    def _follow_many(self, owners: Ints, row: Ints) -> tuple[Ints, Ints]:
        """Follow many chains in lockstep. Entries of long chains are looked up among all entries instead."""
        rows: list[Ints] = []
        entries: list[Ints] = []
        entry = self._tails.array[owners[row]]
        steps = self._worthwhile_steps() // row.size
        while (left := entry >= 0).any():
            row, entry = row[left], entry[left]
            if len(rows) > steps:
                is_long = np.zeros(len(owners), dtype=np.bool_)
                is_long[row] = True
                short = [~is_long[found] for found in rows]
                rows = [found[kept] for found, kept in zip(rows, short, strict=True)]
                entries = [found[kept] for found, kept in zip(entries, short, strict=True)]
                long_rows, long_entries = self._members(owners, row)
                rows.append(long_rows[::-1])
                entries.append(long_entries[::-1])
                break
            rows.append(row)
            entries.append(entry)
            entry = self._previous.array[entry]
        nothing = row[:0]
        return np.concatenate([nothing, *rows])[::-1], np.concatenate([nothing, *entries])[::-1]

    def _worthwhile_steps(self) -> int:
        """How many steps along a chain cost about as much as a look at all entries."""
        return 256 + self._values.space.size // 32

    def _chain_of(self, owner: int) -> Ints:
        """The entries of one owner, oldest first."""
        # Items of a memoryview are Python ints, without the cost of numpy scalars.
        previous = self._previous.array.data
        entry, found, left = int(self._tails.array[owner]), [], self._worthwhile_steps()
        while entry >= 0:
            found.append(entry)
            entry = previous[entry]
            left -= 1
            if not left:
                return np.flatnonzero(self._owners.array[: self._values.space.size] == owner)
        return np.array(found[::-1], dtype=np.int64)

    def _members(self, owners: Ints, row: Ints) -> tuple[Ints, Ints]:
        """All entries of the owners in these rows, oldest first, each with its row."""
        wanted = np.zeros(len(self._tails.array) + 1, dtype=np.bool_)
        wanted[owners[row]] = True
        entries = np.flatnonzero(wanted[self._owners.array[: self._values.space.size]])
        found = self._owners.array[entries]
        order = np.argsort(found, kind="stable")
        entries, found = entries[order], found[order]
        starts, ends = (np.searchsorted(found, owners[row], side) for side in ("left", "right"))
        counts = ends - starts
        places = np.arange(int(counts.sum())) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        return np.repeat(row, counts), entries[places]

    def owners_of_entries(self) -> Ints:
        """The owner of each entry by slot, -1 for those that are not linked."""
        return self._owners.array[: self._values.space.size]

    def unlink_all(self, owners: Ints) -> None:
        _, entries = self._follow(owners, np.arange(len(owners)))
        self._owners.array[entries] = -1
        self._tails.array[owners] = -1

    def _tidy(self, owner: int, entries: Ints, present: Bools) -> None:
        """Unlink removed entries, or walking the chain would get slower and slower."""
        if len(entries) > _SHORT and 2 * present.sum() < len(entries):
            self._owners.array[entries] = -1
            self._tails.array[owner] = -1
            self.link(entries[present], np.full(int(present.sum()), owner))

    # Called by the space of the owners.

    def grow(self, capacity: int) -> None:
        self._tails.grow(capacity)

    def is_used(self, size: int) -> Bools:
        used = np.zeros(size, dtype=np.bool_)
        entries = np.flatnonzero(self._values.is_used(self._values.space.size))
        owners = self._owners.array[entries]
        used[owners[owners >= 0]] = True
        return used

    def keep(self, slots: Ints) -> None:
        renumbered = np.full(len(self._tails.array) + 1, -1, dtype=np.int64)
        renumbered[slots] = np.arange(len(slots))
        self._owners.array = renumbered[self._owners.array]
        self._tails.keep(slots)

    @property
    def nbytes(self) -> int:
        return self._tails.nbytes + self._previous.nbytes + self._owners.nbytes

    # Called by the space of the entries.

    def grow_entries(self, capacity: int) -> None:
        self._previous.grow(capacity)
        self._owners.grow(capacity)

    def keep_entries(self, slots: Ints) -> None:
        self._owners.keep(slots)
        owners = self._owners.array[: len(slots)].copy()
        self._owners.array[:] = -1
        self._previous.keep(slots)
        self._previous.array[:] = -1
        self._tails.array[:] = -1
        linked = np.flatnonzero(owners >= 0)
        self.link(linked, owners[linked])


class _EntrySide(Attached):
    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def grow(self, capacity: int) -> None:
        self._chain.grow_entries(capacity)

    def keep(self, slots: Ints) -> None:
        self._chain.keep_entries(slots)


class MapTable(Attached):
    """Entries with a key inside a key. `owners` is the space of the keys, `values.space` that of the entries."""

    def __init__(
        self,
        layout: Layout,
        owners: Space,
        kind: StateType,
        *,
        ttl_ms: int | None,
        clock: Clock,
        backing: ScanBacking | None = None,
    ) -> None:
        self.owners = owners
        self.values = ValueTable(layout, layout.space(), kind, ttl_ms=ttl_ms, clock=clock, backing=backing)
        self._chain = Chain(owners, self.values, self)
        self._backing = backing
        # Owners whose entries are all cached: no need to scan again.
        self._complete = SlotArray(np.bool_)
        if backing is not None:
            owners.attach(self)

    # Called by the space of the owners.

    def grow(self, capacity: int) -> None:
        self._complete.grow(capacity)

    def keep(self, slots: Ints) -> None:
        self._complete.keep(slots)

    # Entries.

    def ensure(self, owners: Rows, entries: Rows) -> Ints:
        """The slots of entries, linked to their owners."""
        slots = entries.slots(self.values.space, add=True)
        self._chain.link(slots, owners.slots(self.owners, add=True))
        return slots

    def append(self, owners: Rows, entries: Rows) -> Ints:
        """The slots of entries that are certainly new, linked to their owners."""
        slots = self.values.space.append(entries)
        self._chain.link(slots, owners.slots(self.owners, add=True))
        return slots

    def walk_one(self, owners: Rows, row: int) -> Ints:
        slots = owners.slots(self.owners, add=self._backing is not None)
        if self._backing is not None and not self._complete.array[slots[row]]:
            self._complete_all(owners, slots[row : row + 1], row)
        return self._chain.walk_one(int(slots[row]))

    def walk(self, owners: Rows) -> tuple[Ints, Ints]:
        """The present entries of rows: for each entry its row, and its slot; oldest first."""
        slots = owners.slots(self.owners, add=self._backing is not None)
        self._complete_all(owners, slots)
        return self._chain.walk(slots)

    def walk_short(self, owners: Rows) -> tuple[Ints, Ints, Bools]:
        """The same for different keys, without those that have many entries; and which those are."""
        slots = owners.slots(self.owners, add=self._backing is not None)
        if self._backing is None:
            return self._chain.walk_short(slots)
        self._complete_all(owners, slots, most=MOST_STEPS)
        unknown = ~self._complete.array[slots]
        rows, entries, is_long = self._chain.walk_short(np.where(unknown, -1, slots))
        return rows, entries, is_long | unknown

    def inner_keys(self, entries: Ints) -> pa.Array:
        """The keys of entries inside their owners."""
        layout = self.values.layout
        assert layout.inner is not None
        columns = self.values.space.columns()[-len(layout.inner.kinds) :]
        return layout.inner.decode([column.take(entries) for column in columns])

    def entry_owners(self) -> Ints:
        """The slot of the owner of each entry, -1 for removed ones that no owner has."""
        return self._chain.owners_of_entries()

    def clear(self, owners: Rows) -> None:
        _, entries = self.walk(owners)
        self.values.erase(entries)
        slots = owners.slots(self.owners, add=False)
        self._chain.unlink_all(self.owners.distinct(slots[slots >= 0])[0])

    def restore(self, stored: pa.Table) -> Ints:
        layout = self.values.layout
        slots = self.values.restore(stored)
        owners = Layout(layout.key, layout.namespace).rows(stored)
        self._chain.link(slots, owners.slots(self.owners, add=True))
        return slots

    def _complete_all(self, rows: Rows, slots: Ints, first: int = 0, most: int | None = None) -> None:
        """Cache all entries of the owners of rows from `first` on; `slots` are the slots of these owners.

        Owners with more than `most` entries are left out.
        """
        if self._backing is None:
            return
        unknown, firsts = np.unique(slots, return_index=True)
        is_open = ~self._complete.array[unknown]
        unknown, firsts = unknown[is_open], firsts[is_open]
        if not unknown.size:
            return
        found = self._backing.scan(self.owners, unknown, most)
        if found.owners.size:
            entries = rows.take(first + firsts[found.owners]).inside(found.inner).slots(self.values.space, add=True)
            self.values.learn(entries, found.values, found.updated)
            self._chain.link(entries, unknown[found.owners])
        self._complete.array[np.delete(unknown, found.skipped)] = True
