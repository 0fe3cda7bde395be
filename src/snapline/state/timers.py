"""Timers of keys, in event time or processing time; at most one per key, namespace and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.errors import RestoreError, UserCodeError
from snapline.state.arrays import MAX_INT64, Bools, Ints, Words
from snapline.state.batch_keys import Attached, KeyTypes, Rows
from snapline.state.columns import CopyOnWrite
from snapline.state.exact_cast import converted
from snapline.state.key_index import FrozenKeys
from snapline.state.key_scope import Scope
from snapline.state.selection import Cells, Owner
from snapline.state.slot_queue import SlotQueue
from snapline.state.stable_hash import encode, key_groups
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.state.value_tables import Layout
from snapline.text import shortened

TIMERS_STATE = "_timers"
"""The name timers are stored under."""


class TimeDomain(Enum):
    """The clock of a timer."""

    EVENT = "event"
    PROCESSING = "processing"


@dataclass(frozen=True, slots=True)
class DueTimers:
    """Due timers, ordered by time. `rows` are their keys, for vectorised calls."""

    rows: Rows
    keys: pa.Array
    namespaces: pa.Array | None
    times: Ints

    def __len__(self) -> int:
        return len(self.times)


class Timers:
    """The timers of one operator in one subtask, with the key columns of `layout`."""

    def __init__(self, layout: Layout, scope: Scope) -> None:
        self._owners = layout
        self._layout = Layout(layout.key, layout.namespace, KeyTypes(pa.int64(), "time"))
        self._scope = scope
        self._domains = {domain: _DomainTimers(self._layout) for domain in TimeDomain}
        self._cells = _TimerCells(scope, self._domains)

    # For the current key.

    def register(self, domain: TimeDomain, time_ms: int) -> None:
        """Register a timer; does nothing if there is one at this time already."""
        self._cells.change(domain, _checked(time_ms), is_set=True)

    def delete(self, domain: TimeDomain, time_ms: int) -> None:
        """Delete the timer at this time, if there is one."""
        self._cells.change(domain, _checked(time_ms), is_set=False)

    # For all keys of a batch.

    def register_all(self, domain: TimeDomain, keys: Any, times_ms: Any, namespace: Any = None) -> None:
        """Register a timer for each row. `times_ms` is an array, or one time for all."""
        rows = self._scope.rows(keys, namespace)
        self._of(domain).add(rows, _times(times_ms, len(rows)))

    def delete_all(self, domain: TimeDomain, keys: Any, times_ms: Any, namespace: Any = None) -> None:
        rows = self._scope.rows(keys, namespace)
        self._of(domain).remove(rows, _times(times_ms, len(rows)))

    def _of(self, domain: TimeDomain) -> _DomainTimers:
        """The timers of a domain, with all changes."""
        self._scope.settle()
        timers = self._domains.get(domain)
        if timers is None:
            raise _unknown_domain(domain)
        return timers

    # Time passing.

    def next_ms(self, domain: TimeDomain) -> int | None:
        """A lower bound of the time of the next timer, or None if there is none."""
        return self._of(domain).queue.next_ms()

    def due(self, domain: TimeDomain, now_ms: int, limit: int | None = None) -> DueTimers | None:
        """Remove and return timers up to and including a time, about `limit` at most, or None if none is due.

        Firing a timer may register more that are due: call until it returns None.
        """
        return self._of(domain).due(now_ms, limit)

    def __len__(self) -> int:
        self._scope.settle()
        return sum(timers.count for timers in self._domains.values())

    # Snapshots and restores.

    def freeze(self) -> FrozenTimers:
        self._scope.settle()
        return FrozenTimers(self._layout, [(domain, *timers.freeze()) for domain, timers in self._domains.items()])

    def restore(self, stored: pa.Table) -> None:
        rows = self._owners.rows(stored)
        times = stored.column("time").to_numpy()
        domains = stored.column("domain").to_numpy()
        for domain, timers in self._domains.items():
            chosen = np.flatnonzero(domains == domain.value)
            if chosen.size:
                timers.add(rows.take(chosen), times[chosen])

    def check_namespace(self, namespace: KeyTypes | None) -> None:
        """Raise `RestoreError` if these timers have another namespace: it can never change."""
        mine = self._layout.namespace
        if (mine and mine.kind) != (namespace and namespace.kind):
            raise RestoreError(
                f"the timers of this operator have the namespace {mine and mine.kind}, as they were saved or asked for "
                f"before, and now {namespace and namespace.kind}; all timers of an operator share one namespace"
            )


class _DomainTimers(Attached):
    """The timers of one domain: a slot for each, and a queue of slots by time."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._space = layout.space()
        self._present = CopyOnWrite(np.bool_)
        self.queue = SlotQueue()
        self.count = 0
        self._space.attach(self)

    def grow(self, capacity: int) -> None:
        self._present.grow(capacity)

    def is_used(self, size: int) -> Bools:
        return np.asarray(self._present.array[:size])

    def keep(self, slots: Ints) -> None:
        self._present.keep(slots)
        self.queue = SlotQueue()
        present = np.flatnonzero(self._present.array[: len(slots)])
        self.queue.add(present, self._space.columns()[-1].take(present).to_arrow().to_numpy())

    def add(self, rows: Rows, times: Ints) -> None:
        if not len(rows):
            return
        entries = rows.inside([encode(pa.array(times))])
        slots = entries.slots(self._space, add=True)
        slots, firsts = np.unique(slots, return_index=True)
        times = times[firsts]
        is_new = ~self._present.array[slots]
        slots, times = slots[is_new], times[is_new]
        self._present.own()[slots] = True
        self.count += len(slots)
        self.queue.add(slots, times)

    def remove(self, rows: Rows, times: Ints) -> None:
        slots = rows.inside([encode(pa.array(times))]).slots(self._space, add=False)
        slots = np.unique(slots[slots >= 0])
        slots = slots[self._present.array[slots]]
        self._present.own()[slots] = False
        self.count -= len(slots)

    def due(self, now_ms: int, limit: int | None) -> DueTimers | None:
        while (taken := self.queue.take(now_ms, limit)) is not None:
            slots, times = taken
            is_present = self._present.array[slots]
            # A timer that was deleted and registered again is in the queue twice.
            is_present[1:] &= slots[1:] != slots[:-1]
            slots, times = slots[is_present], times[is_present]
            if slots.size:
                self._present.own()[slots] = False
                self.count -= len(slots)
                arrays = self._layout.arrays([column.take(slots) for column in self._space.columns()])
                rows = Rows.of(self._layout.key.encode(arrays["key"]))
                return DueTimers(rows, arrays["key"], arrays.get("namespace"), times)
        return None

    def freeze(self) -> tuple[list[FrozenKeys], Words, Bools]:
        return self._space.columns(), self._space.key_hashes(), self._present.freeze()[: self._space.size]


class _TimerCells(Cells):
    """The timers that calls for single keys have set and deleted in the current batch: the last call counts."""

    def __init__(self, scope: Scope, domains: Mapping[TimeDomain, _DomainTimers]) -> None:
        self._cursor = scope.cursor
        self._domains = domains
        self._changed: dict[TimeDomain, dict[tuple[Owner, int], bool]] = {domain: {} for domain in domains}
        scope.attach(self)

    def change(self, domain: TimeDomain, time_ms: int, *, is_set: bool) -> None:
        owner = self._cursor.owner
        if owner is None:
            self._cursor.refuse()
        changed = self._changed.get(domain)
        if changed is None:
            raise _unknown_domain(domain)
        changed[owner, time_ms] = is_set

    def settle(self) -> None:
        for domain, changed in self._changed.items():
            timers = self._domains[domain]
            for is_set, change in ((False, timers.remove), (True, timers.add)):
                some = [timer for timer, was_set in changed.items() if was_set is is_set]
                if some:
                    rows = self._cursor.rows([owner for owner, _ in some])
                    change(rows, np.array([time_ms for _, time_ms in some], dtype=np.int64))
        self.discard()

    def discard(self) -> None:
        for changed in self._changed.values():
            changed.clear()
        self._cursor.forget()


@dataclass(frozen=True, slots=True)
class FrozenTimers:
    """The timers at one moment."""

    layout: Layout
    domains: list[tuple[TimeDomain, list[FrozenKeys], Words, Bools]]

    def rows(self, max_parallelism: int) -> pa.Table:
        """The timers in stored form, ordered by key group."""
        tables = []
        for domain, keys, hashes, present in self.domains:
            slots = np.flatnonzero(present)
            groups = key_groups(hashes[slots], max_parallelism).astype(np.int32)
            columns = {"key_group": pa.array(groups)} | self.layout.arrays([column.take(slots) for column in keys])
            columns["time"] = columns.pop("map_key")
            columns["domain"] = pa.repeat(domain.value, len(slots))
            tables.append(pa.table(columns))
        table = pa.concat_tables(tables)
        return table.take(pa.array(np.argsort(table.column("key_group").to_numpy(), kind="stable")))


def timers_info(uid: str, max_parallelism: int) -> StateInfo:
    return StateInfo(uid, TIMERS_STATE, StateKind.TIMERS, max_parallelism, ValueEncoding.ARROW)


def _unknown_domain(domain: object) -> UserCodeError:
    return UserCodeError(f"{domain!r} is not a time domain; use TimeDomain.EVENT or TimeDomain.PROCESSING")


def _checked(time_ms: Any) -> int:
    if type(time_ms) is int and -MAX_INT64 <= time_ms <= MAX_INT64:
        return time_ms
    if not isinstance(time_ms, int | np.integer) or isinstance(time_ms, bool):
        raise UserCodeError(f"{shortened(time_ms)} is not a time of a timer; give whole milliseconds since 1970")
    if not -MAX_INT64 <= time_ms <= MAX_INT64:
        raise UserCodeError(f"{time_ms} is too far away for a timer; use at most {MAX_INT64}")
    return int(time_ms)


def _times(times_ms: Any, count: int) -> Ints:
    if isinstance(times_ms, int | np.integer):
        return np.full(count, _checked(times_ms), dtype=np.int64)
    array = times_ms if isinstance(times_ms, pa.Array | pa.ChunkedArray) else converted(times_ms, pa.int64())
    if array.null_count or len(array) != count:
        raise UserCodeError(f"{len(array) - array.null_count} times for {count} timers; give one for each")
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    times: Ints = converted(array, pa.int64()).to_numpy()
    return times
