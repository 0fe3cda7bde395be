"""Keyed state against plain dicts: random calls, snapshots that are written later or never, restores, expiry."""

from __future__ import annotations

import copy
import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from snapline.errors import EngineError, StorageError, UserCodeError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart
from snapline.state import log_column
from snapline.state.groups import Groups
from snapline.state.keyed_backend import KeyedBackend, KeyedSnapshot
from snapline.state.memory_backend import MemoryBackend
from snapline.state.rocksdb import rocksdb_files
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.timers import TimeDomain
from snapline.state.ttl import Ttl
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.testing import ManualClock

ALL = KeyGroupRange(0, 127)
TTL_MS = 100
TTL = Ttl("100ms")
EVENT = TimeDomain.EVENT

SMALL = list(range(6))
"""Most calls use these keys, so that they collide."""

KEY_TYPES: dict[str, Callable[[int], Any]] = {
    "bigint": lambda number: number - 3,
    "string": lambda number: "" if number == 0 else f"key {number}",
    "a string, b bigint": lambda number: (f"{number % 3}", number // 3),
}
VALUES: dict[str, tuple[object, Callable[[int], Any]]] = {
    "number": ("bigint", lambda number: number),
    "text": ("string", lambda number: "é" * (number % 4) + str(number % 2)),
    "object": (object, lambda number: {"list": [number]}),
    "struct": ("a int, b double", lambda number: {"a": number if number % 3 else None, "b": number / 2}),
    "array": ("array<string>", lambda number: [str(number)] * (number % 3)),
    "expiring": ("bigint", lambda number: number),
    "expiring object": (object, lambda number: ("x", number)),
}
LISTS: dict[str, tuple[object, Callable[[int], Any]]] = {
    "list": ("bigint", lambda number: number),
    "expiring list": ("string", str),
    "object list": (object, lambda number: [number]),
}
MAPS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "map": ("bigint", lambda number: number),
    "expiring map": ("string", str),
}
SPACES = ["", "one", "two"]


class Expected:
    """The expected state: the value of every entry, and the time of its last update."""

    def __init__(self) -> None:
        self.values: dict[str, dict[int, tuple[Any, int]]] = {name: {} for name in VALUES}
        self.spaced: dict[tuple[int, str], tuple[Any, int]] = {}
        self.lists: dict[str, dict[int, list[tuple[Any, int]]]] = {name: {} for name in LISTS}
        self.maps: dict[str, dict[int, dict[str, tuple[Any, int]]]] = {name: {} for name in MAPS}
        self.sums: dict[int, int] = {}
        self.timers: set[tuple[int, int]] = set()

    def value(self, name: str, number: int, now_ms: int) -> Any:
        value, at = self.values[name].get(number, (None, 0))
        return value if is_alive(name, at, now_ms) else None

    def list(self, name: str, number: int, now_ms: int) -> list[Any]:
        return [value for value, at in self.lists[name].get(number, []) if is_alive(name, at, now_ms)]

    def map(self, name: str, number: int, now_ms: int) -> dict[str, Any]:
        entries = self.maps[name].get(number, {})
        return {key: value for key, (value, at) in entries.items() if is_alive(name, at, now_ms)}


def is_alive(name: str, at: int, now_ms: int) -> bool:
    return not name.startswith("expiring") or at > now_ms - TTL_MS


class States:
    """All states of a backend, by name."""

    def __init__(self, backend: KeyedBackend, key: Callable[[int], Any]) -> None:
        self.backend = backend
        self.key = key
        self.values = {name: backend.value_state(name, kind, ttl=ttl_of(name)) for name, (kind, _) in VALUES.items()}
        self.spaced = backend.value_state("spaced", "bigint", namespace="string")
        self.lists = {name: backend.list_state(name, kind, ttl=ttl_of(name)) for name, (kind, _) in LISTS.items()}
        self.maps = {
            name: backend.map_state(name, "string", kind, ttl=ttl_of(name)) for name, (kind, _) in MAPS.items()
        }
        self.sums = backend.reducing_state("sums", "bigint", "sum")
        self.timers = backend.timers()

    def keys(self, numbers: Sequence[int]) -> list[Any]:
        return [self.key(number) for number in numbers]

    def select(self, number: int) -> None:
        self.backend.select_key(self.key(number))


def ttl_of(name: str) -> Ttl | None:
    return TTL if name.startswith("expiring") else None


def plain(values: Any) -> list[Any]:
    return values if isinstance(values, list) else list(values.to_pylist())


def check(states: States, expected: Expected, numbers: Sequence[int], now_ms: int) -> None:
    """Check the state of some keys."""
    keys = states.backend.keys(states.keys(numbers))
    for name, value in states.values.items():
        assert plain(value.take(keys)) == [expected.value(name, number, now_ms) for number in numbers], name
    for space in SPACES:
        expected_values = [expected.spaced.get((number, space), (None, 0))[0] for number in numbers]
        assert plain(states.spaced.take(keys, space)) == expected_values, space
    assert plain(states.sums.take(keys)) == [expected.sums.get(number) for number in numbers]
    for name, elements in states.lists.items():
        assert plain(elements.take(keys)) == [expected.list(name, number, now_ms) for number in numbers], name
    for name, entries in states.maps.items():
        found: list[dict[str, Any]] = [{} for _ in numbers]
        rows, map_keys, values = entries.entries(keys)
        for row, key, item in zip(rows.tolist(), plain(map_keys), plain(values), strict=True):
            assert key not in found[row], "an entry comes twice"
            found[row][key] = item
        assert found == [expected.map(name, number, now_ms) for number in numbers], name


class Machine(RuleBasedStateMachine):
    """Both backends must behave like plain dicts. `bulk` is the number of keys in one large batch."""

    max_cached_entries: ClassVar[int | None] = None
    bulk: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.names = itertools.count()
        self.checkpoints = itertools.count(1)
        self.clock = ManualClock(1_000)
        self.objects = MemoryObjects()
        self.expected = Expected()
        self.waiting: list[tuple[KeyedSnapshot, Expected, bool]] = []

    def backend(self) -> KeyedBackend:
        common: dict[str, Any] = {"max_parallelism": 128, "key_groups": ALL, "clock": self.clock, "uid": "op"}
        if self.max_cached_entries is None:
            return MemoryBackend(self.kind, **common)
        directory, entries = self.directory / f"db-{next(self.names)}", self.max_cached_entries
        logged: dict[str, Any] = {"least_logged": 1} if self.is_logged else {}
        return RocksDbBackend(self.kind, directory=directory, max_cached_entries=entries, **common, **logged)

    @initialize(kind=st.sampled_from(list(KEY_TYPES)), is_logged=st.booleans())
    def start(self, kind: str, is_logged: bool) -> None:
        self.kind = kind
        self.is_logged = is_logged
        self.states = States(self.backend(), KEY_TYPES[kind])
        self.held = self.states.backend.keys(self.states.keys(SMALL))

    def teardown(self) -> None:
        try:
            if hasattr(self, "states"):
                self.check_all()
                for snapshot, *_ in self.waiting:
                    snapshot.release()
                self.states.backend.close()
        finally:
            shutil.rmtree(self.directory)

    @property
    def now(self) -> int:
        return self.clock.now_ms

    # Values.

    @rule(name=st.sampled_from(list(VALUES)), rows=st.lists(st.tuples(st.sampled_from(SMALL), st.integers(-1, 9))))
    def put(self, name: str, rows: list[tuple[int, int]]) -> None:
        numbers, made = [number for number, _ in rows], VALUES[name][1]
        values = [made(value) if value >= 0 else None for _, value in rows]
        self.states.values[name].put(self.states.keys(numbers), copy.deepcopy(values))
        self._put(name, numbers, values)

    def _put(self, name: str, numbers: Sequence[int], values: Sequence[Any]) -> None:
        for number, value in zip(numbers, values, strict=True):
            self.expected.values[name].pop(number, None)
            if value is not None:
                self.expected.values[name][number] = copy.deepcopy(value), self.now

    @rule(name=st.sampled_from(list(VALUES)), number=st.sampled_from(SMALL), value=st.integers(-1, 9))
    def set(self, name: str, number: int, value: int) -> None:
        self.states.select(number)
        made = VALUES[name][1](value) if value >= 0 else None
        self.states.values[name].set(copy.deepcopy(made))
        self._put(name, [number], [made])

    @rule(name=st.sampled_from(list(VALUES)), row=st.sampled_from(SMALL), value=st.integers(0, 9))
    def set_in_held_batch(self, name: str, row: int, value: int) -> None:
        """Keys of a batch stay valid for ever."""
        state, made = self.states.values[name], VALUES[name][1](value)
        assert plain(state.take(self.held)) == [self.expected.value(name, number, self.now) for number in SMALL]
        self.states.backend.select(self.held, row)
        assert state.get() == self.expected.value(name, row, self.now)
        state.set(made)
        self._put(name, [row], [made])
        assert state.get() == made

    @rule(name=st.sampled_from(list(VALUES)), numbers=st.lists(st.sampled_from(SMALL)))
    def delete(self, name: str, numbers: list[int]) -> None:
        self.states.values[name].delete(self.states.keys(numbers))
        self._put(name, numbers, [None] * len(numbers))

    @rule(name=st.sampled_from(list(VALUES)), number=st.sampled_from(SMALL))
    def clear(self, name: str, number: int) -> None:
        self.states.select(number)
        self.states.values[name].clear()
        self._put(name, [number], [None])

    @rule(numbers=st.lists(st.sampled_from(SMALL)), others=st.booleans())
    def update(self, numbers: list[int], others: bool) -> None:
        """Add one for each row; the function uses other states too."""
        name, distinct = "number", list(dict.fromkeys(numbers))

        def add(old: pa.Array, groups: Groups) -> pa.Array:
            if others:
                self.states.values["text"].delete(self.states.keys(distinct))
                self.states.values["expiring"].put(self.states.keys(numbers), [7] * len(numbers))
                self.states.values[name].delete(self.states.keys(SMALL))
            return groups.sum([1] * len(numbers), old)

        before = {number: self.expected.value(name, number, self.now) for number in SMALL}
        self.states.values[name].update(self.states.keys(numbers), add)
        if others:
            self._put("text", distinct, [None] * len(distinct))
            self._put("expiring", numbers, [7] * len(numbers))
            self._put(name, SMALL, [None] * len(SMALL))
        self._put(name, distinct, [(before[number] or 0) + numbers.count(number) for number in distinct])

    @rule(number=st.sampled_from(SMALL), value=st.integers(0, 9), is_set=st.booleans())
    def change_object(self, number: int, value: int, is_set: bool) -> None:
        """A value that was read may be changed and set; with a declared type the change has no effect before `set`."""
        self.states.select(number)
        found = self.states.values["object"].get()
        if found is not None:
            found["list"].append(value)
            self.states.values["object"].set(found)
            expected, _ = self.expected.values["object"][number]
            self._put("object", [number], [{"list": [*expected["list"], value]}])
        array = self.states.values["array"].get()
        if array is not None:
            array.append(str(value))
            if is_set:
                self.states.values["array"].set(array)
                self._put("array", [number], [array])

    @rule(name=st.sampled_from(["number", "text", "struct", "array", "expiring"]), number=st.sampled_from(SMALL))
    def bad_values_change_nothing(self, name: str, number: int) -> None:
        state, keys = self.states.values[name], self.states.keys([number, 0, number])
        with pytest.raises(UserCodeError):
            state.put(keys, [VALUES[name][1](1), object(), VALUES[name][1](2)])
        with pytest.raises(UserCodeError):
            state.put(keys, [VALUES[name][1](1)])
        self.states.select(number)
        with pytest.raises(UserCodeError):
            state.set(object())
        with pytest.raises(UserCodeError):
            self.states.lists["list"].set([1, "x"])
        with pytest.raises(UserCodeError):
            self.states.lists["list"].extend([1, None])
        with pytest.raises(UserCodeError):
            self.states.maps["map"].put_all(keys, ["a", "b", "c"], [1, 2, "x"])
        with pytest.raises(UserCodeError):
            self.states.maps["map"].put("a", "x")

    @rule(rows=st.lists(st.tuples(st.sampled_from(SMALL), st.sampled_from(SPACES), st.integers(-1, 9))))
    def put_spaced(self, rows: list[tuple[int, str, int]]) -> None:
        numbers, spaces = [number for number, *_ in rows], [space for _, space, _ in rows]
        values = [value if value >= 0 else None for *_, value in rows]
        self.states.spaced.put(self.states.keys(numbers), values, spaces)
        for number, space, value in zip(numbers, spaces, values, strict=True):
            self.expected.spaced.pop((number, space), None)
            if value is not None:
                self.expected.spaced[number, space] = value, 0

    @rule(number=st.sampled_from(SMALL), space=st.sampled_from(SPACES), value=st.integers(0, 9))
    def set_spaced(self, number: int, space: str, value: int) -> None:
        self.states.backend.select(self.held, number)
        self.states.backend.select_namespace(space)
        assert self.states.spaced.get() == self.expected.spaced.get((number, space), (None, 0))[0]
        self.states.spaced.set(value)
        self.expected.spaced[number, space] = value, 0

    @rule(rows=st.lists(st.tuples(st.sampled_from(SMALL), st.integers(-9, 9)), min_size=1))
    def add_up(self, rows: list[tuple[int, int]]) -> None:
        numbers = [number for number, _ in rows]
        self.states.sums.add_all(self.states.keys(numbers), pa.array([value for _, value in rows], pa.int8()))
        for number, value in rows:
            self.expected.sums[number] = self.expected.sums.get(number, 0) + value
        self.states.select(numbers[0])
        self.states.sums.add(100)
        self.expected.sums[numbers[0]] += 100

    # Lists.

    @rule(name=st.sampled_from(list(LISTS)), rows=st.lists(st.tuples(st.sampled_from(SMALL), st.integers(0, 9))))
    def append(self, name: str, rows: list[tuple[int, int]]) -> None:
        made = LISTS[name][1]
        values = [made(value) for _, value in rows]
        self.states.lists[name].append(self.states.keys([number for number, _ in rows]), values)
        for (number, _), value in zip(rows, values, strict=True):
            self._elements(name, number).append((copy.deepcopy(value), self.now))

    def _elements(self, name: str, number: int) -> list[tuple[Any, int]]:
        return self.expected.lists[name].setdefault(number, [])

    @rule(
        name=st.sampled_from(list(LISTS)),
        number=st.sampled_from(SMALL),
        values=st.lists(st.integers(0, 9), max_size=4),
        call=st.sampled_from(["extend", "set", "add", "clear", "get", "delete"]),
    )
    def change_list(self, name: str, number: int, values: list[int], call: str) -> None:
        state, made = self.states.lists[name], [LISTS[name][1](value) for value in values]
        self.states.select(number)
        elements = self._elements(name, number)
        match call:
            case "extend":
                state.extend(made)
            case "set":
                state.set(made)
                elements.clear()
            case "add":
                made = made[:1]
                for value in made:
                    state.add(value)
            case "clear" | "delete":
                state.clear() if call == "clear" else state.delete(self.states.keys([number]))
                elements.clear()
                made = []
            case "get":
                made = []
        elements += [(copy.deepcopy(value), self.now) for value in made]
        expected = self.expected.list(name, number, self.now)
        assert state.get() == expected
        assert len(state) == len(expected)

    # Maps.

    @rule(
        name=st.sampled_from(list(MAPS)),
        rows=st.lists(st.tuples(st.sampled_from(SMALL), st.sampled_from("abc"), st.integers(-1, 9))),
    )
    def put_all(self, name: str, rows: list[tuple[int, str, int]]) -> None:
        values = [MAPS[name][1](value) if value >= 0 else None for *_, value in rows]
        keys = self.states.keys([number for number, *_ in rows])
        self.states.maps[name].put_all(keys, [key for _, key, _ in rows], values)
        for (number, key, _), value in zip(rows, values, strict=True):
            self._put_entry(name, number, key, value)

    def _put_entry(self, name: str, number: int, key: str, value: Any) -> None:
        entries = self.expected.maps[name].setdefault(number, {})
        entries.pop(key, None)
        if value is not None:
            entries[key] = value, self.now

    @rule(
        name=st.sampled_from(list(MAPS)),
        number=st.sampled_from(SMALL),
        key=st.sampled_from("abc"),
        value=st.integers(0, 9),
        call=st.sampled_from(["put", "remove", "clear", "get", "items", "delete", "take"]),
    )
    def change_map(self, name: str, number: int, key: str, value: int, call: str) -> None:
        state, made = self.states.maps[name], MAPS[name][1](value)
        self.states.select(number)
        expected = self.expected.map(name, number, self.now)
        match call:
            case "put":
                state.put(key, made)
                self._put_entry(name, number, key, made)
            case "remove":
                state.remove(key)
                self._put_entry(name, number, key, None)
            case "clear" | "delete":
                state.clear() if call == "clear" else state.delete(self.states.keys([number, number]))
                self.expected.maps[name].pop(number, None)
            case "get":
                assert state.get(key) == expected.get(key)
                assert (key in state) == (key in expected)
            case "items":
                assert dict(state.items()) == expected
                assert len(state) == len(state.keys()) == len(expected)
                assert sorted(state.keys()) == sorted(state) == sorted(expected)
            case "take":
                taken = state.take(self.states.keys([number] * 3), list("abc"))
                assert plain(taken) == [expected.get(map_key) for map_key in "abc"]

    # Timers.

    @rule(rows=st.lists(st.tuples(st.sampled_from(SMALL), st.integers(1, 8))), is_new=st.booleans())
    def set_timers(self, rows: list[tuple[int, int]], is_new: bool) -> None:
        call = self.states.timers.register_all if is_new else self.states.timers.delete_all
        call(EVENT, self.states.keys([number for number, _ in rows]), [time for _, time in rows])
        self.expected.timers = self.expected.timers | {*rows} if is_new else self.expected.timers - {*rows}
        assert len(self.states.timers) == len(self.expected.timers)

    @rule(number=st.sampled_from(SMALL), time=st.integers(1, 8), is_new=st.booleans())
    def set_timer(self, number: int, time: int, is_new: bool) -> None:
        self.states.backend.select(self.held, number)
        call = self.states.timers.register if is_new else self.states.timers.delete
        call(EVENT, time)
        self.expected.timers = (
            self.expected.timers | {(number, time)} if is_new else self.expected.timers - {(number, time)}
        )

    @rule(time=st.integers(1, 8))
    def fire(self, time: int) -> None:
        due = fired(self.states, time)
        assert sorted(due) == sorted((at, number) for number, at in self.expected.timers if at <= time)
        self.expected.timers = {timer for timer in self.expected.timers if timer[1] > time}

    # Time, eviction, many keys.

    @rule(passed_ms=st.sampled_from([1, 40, TTL_MS - 1, TTL_MS]))
    def wait(self, passed_ms: int) -> None:
        self.clock.now_ms += passed_ms

    @precondition(lambda self: self.max_cached_entries is not None)
    @rule()
    def evict(self) -> None:
        backend = self.states.backend
        assert isinstance(backend, RocksDbBackend)
        backend.evict()

    @precondition(lambda self: self.bulk > 0)
    @rule(start=st.sampled_from([0, 700, 1_500]), names=st.frozensets(st.sampled_from(list(VALUES)), min_size=1))
    def put_many(self, start: int, names: frozenset[str]) -> None:
        numbers = range(start, start + self.bulk)
        keys = self.states.keys(numbers)
        for name in sorted(names):
            values = [VALUES[name][1](number) for number in numbers]
            self.states.values[name].put(keys, copy.deepcopy(values))
            self._put(name, numbers, values)

    @precondition(lambda self: self.bulk > 0)
    @rule(start=st.sampled_from([0, 700]), name=st.sampled_from([*VALUES, "all"]))
    def delete_many(self, start: int, name: str) -> None:
        numbers = range(start, start + 2 * self.bulk)
        for each in VALUES if name == "all" else [name]:
            self.states.values[each].delete(self.states.keys(numbers))
            self._put(each, numbers, [None] * len(numbers))

    @precondition(lambda self: self.bulk > 0)
    @rule(start=st.sampled_from([0, 700]), is_list=st.booleans(), is_removed=st.booleans())
    def many_entries(self, start: int, is_list: bool, is_removed: bool) -> None:
        numbers = [*SMALL, *range(start, start + self.bulk)]
        keys = self.states.keys(numbers)
        if is_removed:
            names = sorted([*LISTS, *MAPS])
            for name in names:
                (self.states.lists[name] if name in LISTS else self.states.maps[name]).delete(keys)
                for number in numbers:
                    self.expected.lists.get(name, {}).pop(number, None)
                    self.expected.maps.get(name, {}).pop(number, None)
        elif is_list:
            self.states.lists["list"].append(keys, numbers)
            for number in numbers:
                self._elements("list", number).append((number, self.now))
        else:
            self.states.maps["map"].put_all(keys, ["abc"[number % 3] for number in numbers], numbers)
            for number in numbers:
                self._put_entry("map", number, "abc"[number % 3], number)

    # Snapshots.

    @precondition(lambda self: len(self.waiting) < 3)
    @rule(canonical=st.booleans())
    def snapshot(self, canonical: bool) -> None:
        taken = self.states.backend.snapshot(canonical=canonical)
        self.waiting.append((taken, copy.deepcopy(self.expected), canonical))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), is_confirmed=st.booleans(), goes_on=st.booleans(), is_other=st.booleans())
    def restore(self, data: st.DataObject, is_confirmed: bool, goes_on: bool, is_other: bool) -> None:
        """Write a snapshot that was taken earlier, and check what it restores."""
        at = data.draw(st.integers(0, len(self.waiting) - 1))
        snapshot, expected, canonical = self.waiting.pop(at)
        checkpoint_id = next(self.checkpoints)
        parts = written(snapshot, self.objects, checkpoint_id, canonical)
        if is_confirmed:
            self.states.backend.confirm(checkpoint_id)
        else:
            self.states.backend.abort(checkpoint_id)
        fresh = self.backend()
        if canonical and is_other and not goes_on:
            fresh.close()
            fresh = MemoryBackend(self.kind, max_parallelism=128, key_groups=ALL, clock=self.clock, uid="op")
        fresh.restore([KeyedRestore(part, part.key_groups) for part in parts], SnapshotReader(self.objects))
        states = States(fresh, self.states.key)
        check(states, expected, self.numbers(expected), self.now)
        if goes_on:
            for other, *_ in self.waiting:
                other.release()
            self.waiting = []
            self.states.backend.close()
            self.states, self.expected = states, expected
            self.held = fresh.keys(states.keys(SMALL))
        else:
            assert sorted(fired(states, 10)) == sorted((at, number) for number, at in expected.timers)
            fresh.close()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        snapshot, *_ = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        snapshot.release()
        snapshot.release()

    # Always.

    def numbers(self, expected: Expected) -> list[int]:
        if not self.bulk:
            return SMALL
        return sorted(
            frozenset(SMALL).union(
                [9_999], *expected.values.values(), *expected.lists.values(), *expected.maps.values()
            )
        )

    @rule()
    def check_all(self) -> None:
        check(self.states, self.expected, self.numbers(self.expected), self.now)

    @invariant()
    def small_ones_are_right(self) -> None:
        if hasattr(self, "states"):
            name = next(iter(VALUES))
            taken = self.states.values[name].take(self.held)
            assert plain(taken) == [self.expected.value(name, number, self.now) for number in SMALL]


def fired(states: States, time: int) -> list[tuple[int, int]]:
    """Take the timers up to a time: the time and the number of the key."""
    numbers = {states.key(number): number for number in SMALL}
    result = []
    while (due := states.timers.due(EVENT, time, limit=3)) is not None:
        keys = [tuple(key.values()) if isinstance(key, dict) else key for key in due.keys.to_pylist()]
        result += list(zip(due.times.tolist(), [numbers[key] for key in keys], strict=True))
        assert result == sorted(result, key=lambda timer: timer[0]), "out of order"
    return result


def written(
    snapshot: KeyedSnapshot, objects: MemoryObjects, checkpoint_id: int, canonical: bool = False
) -> tuple[KeyedPart, ...]:
    shared = None if canonical else "/job/shared"
    location = f"/job/chk-{checkpoint_id}"
    target = SnapshotWriter(objects, location, shared, attempt=1, checkpoint_id=checkpoint_id, uid="op", subtask=0)
    try:
        return snapshot.write(target)
    finally:
        snapshot.release()


def machine(name: str, entries: int | None, bulk: int, examples: int, steps: int) -> Any:
    made: Any = type(name, (Machine,), {"max_cached_entries": entries, "bulk": bulk}).TestCase  # type: ignore[attr-defined]
    made.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    return made


TestMemory = machine("MemoryMachine", None, 0, 10, 30)
TestMemoryWithManyKeys = machine("LargeMemoryMachine", None, 900, 8, 25)
TestRocksDbWithTinyCache = machine("TinyMachine", 3, 0, 7, 25)
TestRocksDbWithSmallCache = machine("SmallMachine", 60, 0, 10, 25)


def longer(made: Any) -> Any:
    return pytest.mark.slow(made)


TestMemoryForLonger = longer(machine("MemoryMachine", None, 0, 40, 50))
TestMemoryWithManyKeysForLonger = longer(machine("LargeMemoryMachine", None, 900, 20, 50))
TestRocksDbWithTinyCacheForLonger = longer(machine("TinyMachine", 3, 0, 15, 50))
TestRocksDbWithSmallCacheForLonger = longer(machine("SmallMachine", 60, 0, 20, 50))
TestRocksDbWithManyKeysForLonger = longer(machine("LargeMachine", 3_000, 900, 12, 40))


# --- regressions ------------------------------------------------------------------------------------------------------


class Make:
    """Makes backends of one kind, and closes them at the end."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.clock = ManualClock(1_000)
        self.objects = MemoryObjects()
        self.made: list[KeyedBackend] = []
        self._directory = directory

    def __call__(self, key: object = "bigint") -> Any:
        common: dict[str, Any] = {"max_parallelism": 128, "key_groups": ALL, "clock": self.clock, "uid": "op"}
        directory = self._directory / f"db-{len(self.made)}"
        if self.kind == "memory":
            backend: KeyedBackend = MemoryBackend(key, **common)
        else:
            cache: dict[str, Any] = {"max_cached_entries": 3} if self.kind == "tiny cache" else {"least_logged": 1}
            backend = RocksDbBackend(key, directory=directory, **cache, **common)
        self.made.append(backend)
        return backend

    def again(self, backend: KeyedBackend, *, canonical: bool = False, key: object = "bigint") -> Any:
        """Another backend, restored from a snapshot of this one."""
        parts = written(backend.snapshot(canonical=canonical), self.objects, len(self.made), canonical)
        fresh = self(key)
        fresh.restore([KeyedRestore(part, part.key_groups) for part in parts], SnapshotReader(self.objects))
        return fresh


@pytest.fixture(params=["memory", "tiny cache", "large cache"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made = Make(request.param, tmp_path)
    yield made
    for backend in made.made:
        backend.close()


@pytest.fixture
def make_rocksdb(tmp_path: Path) -> Iterator[Make]:
    made = Make("large cache", tmp_path)
    yield made
    for backend in made.made:
        backend.close()


def test_keys_of_a_batch_see_what_others_have_put_meanwhile(make: Make) -> None:
    backend = make()
    state, entries = backend.value_state("v", "bigint"), backend.map_state("m", "string", "bigint")
    keys = backend.keys([1, 2, 1])
    assert plain(state.take(keys)) == [None, None, None]
    backend.select(keys, 0)
    assert len(entries) == 0
    state.put([1], [5])
    backend.select(keys, 2)
    entries.put("a", 1)
    assert plain(state.take(keys)) == [5, None, 5]
    backend.select(keys, 0)
    assert entries.items() == [("a", 1)]


def test_update_with_a_function_that_makes_slots_move(make: Make) -> None:
    backend = make()
    state, other = backend.value_state("v", "bigint"), backend.value_state("o", "bigint")
    gone = pa.array(range(1_000))
    other.put(gone, gone)
    other.delete(gone)

    def function(old: pa.Array, groups: Groups) -> pa.Array:
        other.put(pa.array(range(5_000, 5_040)), pa.array(range(40)))
        other.take([1])
        assert old.null_count == groups.count == 4
        return pa.array([7, 8, 9, 10])

    state.update([2_001, 2_002, 2_003, 2_004], function)
    assert plain(state.take([2_001, 2_002, 2_003, 2_004, 5_000])) == [7, 8, 9, 10, None]
    assert plain(other.take([5_000, 5_039, 2_001, 0])) == [0, 39, None, None]


def test_update_with_a_function_that_removes_the_same_keys(make: Make) -> None:
    state = make().value_state("v", "bigint")
    state.put([1, 2], [10, 20])

    def function(old: pa.Array, groups: Groups) -> pa.Array:
        state.delete([1, 2])
        return old

    state.update([1, 2], function)
    assert plain(state.take([1, 2])) == [10, 20]


def test_arrow_arrays_for_states_of_any_object(make: Make) -> None:
    backend = make()
    state, elements = backend.value_state("v"), backend.list_state("l")
    entries = backend.map_state("m", "string")
    state.put([1, 2], pa.array([[1], None]))
    elements.append([1, 1], pa.chunked_array([["x"], ["y"]]))
    entries.put_all([1], ["a"], pa.array([1.5]))
    assert state.take([1, 2]) == [[1], None]
    assert elements.take([1]) == [["x", "y"]]
    assert entries.take([1], ["a"]) == [1.5]
    with pytest.raises(UserCodeError, match="cannot be null"):
        elements.append([1], pa.array([None], pa.int64()))


def test_elements_without_an_equality(make: Make) -> None:
    backend = make()
    elements = backend.list_state("l")
    elements.append([1], [np.arange(3)])
    assert [element.tolist() for element in elements.take([1])[0]] == [[0, 1, 2]]


def test_a_list_keeps_its_elements_if_it_is_set_to_others_that_are_wrong(make: Make) -> None:
    backend = make()
    elements = backend.list_state("l", "bigint")
    backend.select_key(1)
    elements.extend([1, 2])
    with pytest.raises(UserCodeError):
        elements.set([3, "x"])
    assert elements.get() == [1, 2]
    elements.set(value + 1 for value in elements)
    assert elements.get() == [2, 3]


def test_a_default_is_everyones_own(make: Make) -> None:
    backend = make()
    state = backend.value_state("v", default=[])
    for key in (1, 2):
        backend.select_key(key)
        found = state.get()
        found.append(key)
        state.set(found)
    assert state.take([1, 2]) == [[1], [2]]


def test_a_value_of_a_declared_type_changes_only_when_it_is_set(make: Make) -> None:
    backend = make()
    state = backend.value_state("v", "array<int>")
    backend.select_key(1)
    state.set([1])
    state.get().append("no number")
    assert state.get() == [1]
    assert plain(make.again(backend).value_state("v", "array<int>").take([1])) == [[1]]


def test_values_to_reduce(make: Make) -> None:
    backend = make()
    wide = backend.reducing_state("wide", "bigint", "sum")
    wide.add_all([1, 1, 2], pa.array([100, 100, 100], pa.int8()))
    assert plain(wide.take([1, 2])) == [200, 100]
    narrow = backend.reducing_state("narrow", "tinyint", "sum")
    narrow.add_all([1, 1], [100, 20])
    for values in ([100, 100], [100, 0]):
        with pytest.raises(UserCodeError):
            narrow.add_all([1, 1], values)
    with pytest.raises(UserCodeError):
        narrow.add_all([1], [100])
    with pytest.raises(UserCodeError, match="2 values for 3 keys"):
        narrow.add_all([1, 1, 2], [1, 2])
    assert plain(narrow.take([1])) == [120]
    longest = backend.reducing_state("longest", "decimal(38,2)", "sum")
    for _ in range(2):
        longest.add_all([1, 1, 2], pa.array([1, 2, 3]))
    assert [str(value) for value in plain(longest.take([1, 2]))] == ["6.00", "6.00"]
    backend.select_key(1)
    longest.add(None)
    assert str(longest.get()) == "6.00"


@pytest.mark.parametrize("how", ["min", "max"])
def test_a_nan_gives_way(make: Make, how: str) -> None:
    backend = make()
    one, other = backend.reducing_state("one", "double", how), backend.reducing_state("other", "double", how)
    backend.select_key(1)
    for value in (float("nan"), 1.0, float("nan")):
        one.add(value)
        other.add_all([1], [value])
    assert one.get() == other.get() == 1.0


def test_as_many_map_keys_and_namespaces_as_keys(make: Make) -> None:
    backend = make()
    entries, timers = backend.map_state("m", "string", "bigint"), backend.timers("bigint")
    with pytest.raises(UserCodeError, match="1 values to go with 2 keys"):
        entries.put_all([1, 2], ["a"], [1, 2])
    with pytest.raises(UserCodeError, match="1 values to go with 2 keys"):
        entries.take([1, 2], ["a"])
    with pytest.raises(UserCodeError, match="1 namespaces for 2 keys"):
        timers.register_all(EVENT, [1, 2], 5, [1])
    assert len(timers) == 0


def test_times_that_no_timer_can_have(make: Make) -> None:
    backend = make()
    timers = backend.timers()
    backend.select_key(1)
    for time in (2**63, 1.5, True, "x"):
        with pytest.raises(UserCodeError):
            timers.register(EVENT, time)
        with pytest.raises(UserCodeError):
            timers.register_all(EVENT, [1], [time])
    assert len(timers) == 0


def test_a_map_key_with_one_field_called_position(make: Make) -> None:
    backend = make()
    backend.map_state("m", "position bigint", "bigint").put_all([1], [(5,)], [6])
    for canonical in (False, True):
        again = make.again(backend, canonical=canonical)
        assert plain(again.map_state("m", "position bigint", "bigint").take([1], [(5,)])) == [6]


def test_expired_keys_leave_room() -> None:
    clock = ManualClock(1_000)
    backend = MemoryBackend("bigint", max_parallelism=128, key_groups=ALL, clock=clock)
    state, entries = backend.value_state("v", "bigint", ttl=TTL), backend.map_state("m", "bigint", "bigint", ttl=TTL)
    for start in range(0, 20_000, 500):
        keys = pa.array(range(start, start + 500))
        state.put(keys, keys)
        entries.put_all(keys, keys, keys)
        clock.now_ms += TTL_MS // 2
    assert plain(state.take([19_999, 19_499, 18_999])) == [19_999, None, None]
    assert plain(entries.take([19_999, 18_999], [19_999, 18_999])) == [19_999, None]
    assert backend._space(None).size < 5_000
    assert entries._table.values.space.size < 5_000


def test_a_longer_time_to_live_brings_nothing_back(make: Make) -> None:
    backend = make()
    backend.map_state("m", "string", "bigint", ttl=TTL).put_all([1], ["a"], [1])
    make.clock.now_ms += TTL_MS
    backend.map_state("m", "string", "bigint", ttl=TTL).delete([1])
    again = make.again(backend).map_state("m", "string", "bigint", ttl=Ttl("1h"))
    assert plain(again.take([1], ["a"])) == [None]


def test_a_log_does_not_merge_chunks_beyond_what_arrow_can_hold(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_column, "_MAX_CHUNK_BYTES", 20_000)
    state = make().value_state("v", "string")
    for start in range(0, 4_000, 250):
        state.put(range(start, start + 250), [f"value {number}" * 5 for number in range(start, start + 250)])
    assert plain(state.take([0, 1_234, 3_999])) == [f"value {number}" * 5 for number in (0, 1_234, 3_999)]


def test_a_snapshot_does_not_see_what_comes_after_it(make: Make) -> None:
    """Not even while another thread writes it."""
    backend = make("string")
    names = {"text": "string", "number": "bigint", "object": object}
    states = {name: backend.value_state(name, kind) for name, kind in names.items()}
    elements, entries = backend.list_state("l", "bigint"), backend.map_state("m", "string", "bigint")
    keys = [f"key {number}" for number in range(1_100)]

    def fill(start: int) -> None:
        numbers = range(start, start + len(keys))
        states["text"].put(keys, [f"text {number}" for number in numbers])
        states["number"].put(keys, list(numbers))
        states["object"].put(keys, [[number] for number in numbers])
        elements.append(keys, list(numbers))
        entries.put_all(keys, [str(number % 7) for number in numbers], list(numbers))

    fill(0)
    snapshot = backend.snapshot()
    parts: list[tuple[KeyedPart, ...]] = []
    thread = threading.Thread(target=lambda: parts.append(written(snapshot, make.objects, 1)))
    thread.start()
    for start in (10_000, 20_000):
        fill(start)
        for value in states["object"].take(keys[:100]):
            value.append("changed")
        states["number"].put([f"other {number}" for number in range(2_000)], range(2_000))
        states["text"].delete(keys[::2])
        elements.delete(keys[::3])
    thread.join(60)
    assert len(parts) == 1
    again = make("string")
    again.restore([KeyedRestore(part, part.key_groups) for part in parts[0]], SnapshotReader(make.objects))
    numbers = list(range(len(keys)))
    assert plain(again.value_state("text", "string").take(keys)) == [f"text {number}" for number in numbers]
    assert plain(again.value_state("number", "bigint").take(keys)) == numbers
    assert again.value_state("object").take(keys) == [[number] for number in numbers]
    assert plain(again.value_state("number", "bigint").take(["other 1"])) == [None]
    assert plain(again.list_state("l", "bigint").take(keys)) == [[number] for number in numbers]
    assert plain(again.map_state("m", "string", "bigint").take(keys[:7], list("0123456"))) == numbers[:7]


def test_objects_that_are_changed_in_place_while_snapshots_wait(make: Make) -> None:
    backend = make()
    state = backend.value_state("v")
    state.put([1, 2], [["one"], ["one"]])
    waiting = []
    for word in ("two", "three", "four"):
        waiting.append((backend.snapshot(), [list(value) for value in state.take([1, 2])]))
        backend.select_key(1)
        found = state.get()
        found.append(word)
        state.set(found)
        for value in state.take([2]):
            value.append(word)
            state.put([2], [value])
    waiting[1][0].release()
    for number, (snapshot, expected) in enumerate([waiting[2], waiting[0]]):
        parts = written(snapshot, make.objects, 100 + number)
        fresh = make()
        fresh.restore([KeyedRestore(part, part.key_groups) for part in parts], SnapshotReader(make.objects))
        assert fresh.value_state("v").take([1, 2]) == expected
    assert state.take([1, 2]) == [["one", "two", "three", "four"]] * 2


def test_a_map_of_which_a_part_was_evicted_and_a_part_changed(make_rocksdb: Make) -> None:
    backend = make_rocksdb()
    entries, elements = backend.map_state("m", "string", "bigint"), backend.list_state("l", "bigint")
    backend.select_key(1)
    for key in "abcd":
        entries.put(key, 1)
    elements.extend(range(300))
    backend.evict()
    entries.put("a", 2)
    entries.remove("b")
    entries.put("e", 2)
    assert entries.get("c") == 1
    elements.add(300)
    assert dict(entries.items()) == {"a": 2, "c": 1, "d": 1, "e": 2}
    assert elements.get() == list(range(301))
    entries.clear()
    entries.put("d", 3)
    backend.evict()
    assert entries.items() == [("d", 3)]
    elements.add(301)
    backend.evict()
    assert elements.get() == list(range(302))


def test_entries_that_come_and_go_leave_room(make: Make) -> None:
    """Kept slots are renumbered while a snapshot still uses the old ones."""
    backend = make()
    entries, elements = backend.map_state("m", "bigint", "bigint"), backend.list_state("l", "bigint")
    kept = [1, 2, 3]
    snapshot = None
    for start in range(0, 6_000, 500):
        numbers = list(range(start, start + 500))
        entries.put_all(kept, [start] * 3, [start] * 3)
        elements.append(kept, [start] * 3)
        entries.put_all([10 + number for number in numbers], numbers, numbers)
        elements.append([10 + number for number in numbers], numbers)
        entries.delete([10 + number for number in numbers])
        elements.delete([10 + number for number in numbers])
        if start == 500:
            snapshot = backend.snapshot()
    everything = list(range(0, 6_000, 500))
    assert plain(elements.take(kept)) == [everything] * 3
    for key in kept:
        backend.select_key(key)
        assert sorted(entries.items()) == [(start, start) for start in everything]
    if isinstance(backend, MemoryBackend):
        assert entries._table.values.space.size < 3_000
    assert snapshot is not None
    parts = written(snapshot, make.objects, 100)
    fresh = make()
    fresh.restore([KeyedRestore(part, part.key_groups) for part in parts], SnapshotReader(make.objects))
    assert plain(fresh.list_state("l", "bigint").take([1, 3, 10, 600])) == [[0, 500], [0, 500], [], []]
    assert len(fresh.map_state("m", "bigint", "bigint").entries([1, 2, 3, 10, 600])[0]) == 6


def test_a_map_that_has_lost_most_of_its_entries(make: Make) -> None:
    backend = make()
    entries = backend.map_state("m", "bigint", "bigint")
    backend.select_key(1)
    for number in range(60):
        entries.put(number, number)
    for number in range(50):
        entries.remove(number)
    for _ in range(2):
        assert sorted(entries.keys()) == list(range(50, 60))
    entries.put(3, 3)
    assert sorted(entries.items()) == [(number, number) for number in (3, *range(50, 60))]


def test_a_timer_that_was_deleted_and_registered_again_fires_once(make: Make) -> None:
    backend = make()
    timers = backend.timers()
    for _ in range(3):
        timers.register_all(EVENT, [1, 2], 5)
        timers.delete_all(EVENT, [1], 5)
    timers.register_all(EVENT, [1], 5)
    assert len(timers) == 2
    due = timers.due(EVENT, 5)
    assert due is not None
    assert sorted(due.keys.to_pylist()) == [1, 2]
    assert len(timers) == 0


def test_timers_that_come_and_go_leave_room(make: Make) -> None:
    backend = make()
    timers = backend.timers()
    timers.register_all(EVENT, [1, 2, 3], [9_000, 9_001, 9_000])
    snapshot = backend.snapshot()
    for start in range(0, 6_000, 500):
        timers.register_all(EVENT, list(range(start, start + 500)), start)
        due = timers.due(EVENT, start)
        assert due is not None
        assert len(due) == 500
    assert timers.next_ms(EVENT) == 9_000
    due = timers.due(EVENT, 9_001)
    assert due is not None
    assert list(zip(due.times.tolist(), due.keys.to_pylist(), strict=True)) == [(9_000, 1), (9_000, 3), (9_001, 2)]
    fresh = make()
    parts = written(snapshot, make.objects, 100)
    fresh.restore([KeyedRestore(part, part.key_groups) for part in parts], SnapshotReader(make.objects))
    assert len(fresh.timers()) == 3


def test_values_of_every_type_that_come_and_go_leave_room(make: Make) -> None:
    backend = make()
    states = {name: backend.value_state(name, kind) for name, (kind, _) in VALUES.items()}
    waiting = []
    for start in range(0, 6_000, 500):
        numbers = list(range(start, start + 500))
        for name, state in states.items():
            state.put(numbers, [VALUES[name][1](number) for number in numbers])
        gone = [number for number in numbers if number % 50]
        for state in states.values():
            state.delete(gone)
        if start in (500, 1_500):
            waiting.append((backend.snapshot(), start + 500))
    parts = [(written(snapshot, make.objects, 100 + end), end) for snapshot, end in waiting]
    for name, state in states.items():
        kept = list(range(0, 6_000, 50))
        assert plain(state.take(kept)) == [VALUES[name][1](number) for number in kept], name
    for written_parts, end in parts:
        fresh = make()
        fresh.restore([KeyedRestore(part, part.key_groups) for part in written_parts], SnapshotReader(make.objects))
        kept = list(range(0, end, 50))
        for name, (kind, made) in VALUES.items():
            taken = plain(fresh.value_state(name, kind).take([*kept, 1, end]))
            assert taken == [*map(made, kept), None, None], name


def test_eviction_while_snapshots_wait(make_rocksdb: Make) -> None:
    """Their changes are older than those evicted, and must not overwrite them."""
    backend = make_rocksdb()
    state = backend.value_state("v", "bigint")
    waiting = []
    for number in range(3):
        state.put([1, number + 10], [number, number])
        waiting.append(backend.snapshot())
    state.put([1], [99])
    backend.evict()
    assert plain(state.take([1, 10, 12])) == [99, 0, 2]
    waiting.pop(1).release()
    for number, snapshot in ((0, waiting[0]), (2, waiting[1])):
        parts = written(snapshot, make_rocksdb.objects, 100 + number)
        fresh = make_rocksdb()
        fresh.restore([KeyedRestore(part, part.key_groups) for part in parts], SnapshotReader(make_rocksdb.objects))
        taken = plain(fresh.value_state("v", "bigint").take([1, 10, 12]))
        assert taken == [number, 0, 2 if number == 2 else None]
    backend.evict()
    assert plain(state.take([1, 10, 12])) == [99, 0, 2]


def test_reading_keeps_alive_what_is_evicted_and_restored(make: Make) -> None:
    refreshed = Ttl("100ms", refresh_on_read=True)

    def states(backend: KeyedBackend) -> tuple[Any, Any]:
        return (
            backend.value_state("v", "bigint", ttl=refreshed),
            backend.map_state("m", "string", "bigint", ttl=refreshed),
        )

    backend = make()
    state, entries = states(backend)
    state.put([1, 2], [1, 2])
    entries.put_all([1, 2], ["a", "a"], [1, 2])
    backend = make.again(backend)
    state, entries = states(backend)
    for _ in range(3):
        make.clock.now_ms += TTL_MS - 1
        assert plain(state.take([1])) == plain(entries.take([1], ["a"])) == [1]
        backend.select_key(1)
        assert state.get() == entries.get("a") == 1
        if isinstance(backend, RocksDbBackend):
            backend.evict()
    backend = make.again(backend)
    state, entries = states(backend)
    assert plain(state.take([1, 2])) == plain(entries.take([1, 2], ["a", "a"])) == [1, None]


def test_the_task_and_a_snapshot_may_both_open_the_database(
    make_rocksdb: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = make_rocksdb()
    state = backend.value_state("v", "bigint")
    state.put([1], [1])
    # A full one writes even changes that could be logged to the database.
    snapshot, opened, is_open = backend.snapshot(full=True), [], threading.Event()
    open_database = rocksdb_files.open_database

    def slow_open(directory: Path, **options: Any) -> Any:
        opened.append(directory)
        is_open.wait(0.2)
        return open_database(directory, **options)

    monkeypatch.setattr("snapline.state.rocksdb.rocksdb_backend.open_database", slow_open)
    thread = threading.Thread(target=lambda: written(snapshot, make_rocksdb.objects, 1))
    thread.start()
    assert plain(state.take([1, 2])) == [1, None]
    is_open.set()
    thread.join(60)
    assert len(opened) == 1


def test_a_snapshot_that_is_released_after_its_backend_was_closed(make: Make) -> None:
    backend = make()
    backend.value_state("v", "bigint").put([1], [1])
    snapshot = backend.snapshot()
    backend.close()
    snapshot.release()
    if isinstance(backend, RocksDbBackend):
        assert not backend._directory.exists()
        with pytest.raises(EngineError, match="closed"):
            _ = backend.db


def test_changes_that_could_not_be_written_are_not_forgotten(make_rocksdb: Make) -> None:
    backend = make_rocksdb()
    state = backend.value_state("v")
    # It can be pickled when it is put, but not when it is flushed.
    changing = ["x"]
    state.put([1, 2], ["x", changing])
    changing.append(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(UserCodeError, match="cannot be pickled"):
        backend.evict()
    with pytest.raises(StorageError, match="could not be written"):
        backend.snapshot()
    with pytest.raises(StorageError, match="could not be written"):
        backend.keys([1])
