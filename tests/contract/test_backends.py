"""What every state backend must do."""

from __future__ import annotations

import datetime
import itertools
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from snapline.errors import ConfigurationError, EngineError, RestoreError, UserCodeError
from snapline.protocol.keygroups import KeyGroupRange, key_group_ranges
from snapline.protocol.restore.restore_plan import KeyedRestore
from snapline.protocol.snapshot import KeyedPart
from snapline.state.groups import Groups
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.stable_hash import NullKeyError
from snapline.state.timers import TimeDomain
from snapline.state.ttl import Ttl
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter
from snapline.testing import ManualClock

ALL = KeyGroupRange(0, 127)


class Make(Protocol):
    def __call__(self, key: object = "bigint", groups: KeyGroupRange = ALL, **options: Any) -> KeyedBackend: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture(params=["memory", "rocksdb", "rocksdb with a tiny cache"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Make]:
    numbers = itertools.count()
    made: list[KeyedBackend] = []

    def build(key: object = "bigint", groups: KeyGroupRange = ALL, **options: Any) -> KeyedBackend:
        common: dict[str, Any] = {"max_parallelism": 128, "key_groups": groups, "clock": clock, "uid": "op"} | options
        if request.param == "memory":
            backend: KeyedBackend = MemoryBackend(key, **common)
        else:
            # The large one logs even few changes instead of writing them to the database.
            cache: dict[str, Any] = {"least_logged": 1} if request.param == "rocksdb" else {"max_cached_entries": 3}
            backend = RocksDbBackend(key, directory=tmp_path / f"db-{next(numbers)}", **common, **cache)
        made.append(backend)
        return backend

    yield build
    for backend in made:
        backend.close()


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


def save(
    backend: KeyedBackend, objects: ObjectStore, checkpoint_id: int = 1, *, canonical: bool = False, full: bool = False
) -> tuple[KeyedPart, ...]:
    snapshot = backend.snapshot(canonical=canonical, full=full)
    target = SnapshotWriter(
        objects,
        f"/job/chk-{checkpoint_id}",
        None if canonical else "/job/shared",
        attempt=1,
        checkpoint_id=checkpoint_id,
        uid=backend.uid,
        subtask=backend.key_groups.start,
    )
    try:
        return snapshot.write(target)
    finally:
        snapshot.release()


def restore(backend: KeyedBackend, objects: ObjectStore, *parts: KeyedPart) -> KeyedBackend:
    chosen = [
        KeyedRestore(part, groups) for part in parts if (groups := part.key_groups.intersection(backend.key_groups))
    ]
    backend.restore(chosen, SnapshotReader(objects))
    return backend


def plain(values: Any) -> list[Any]:
    return values if isinstance(values, list) else list(values.to_pylist(maps_as_pydicts="strict"))


class TestValueState:
    def test_one_key_at_a_time(self, make: Make) -> None:
        backend = make("string")
        state = backend.value_state("n", "bigint", default=0)
        for key in ["a", "b", "a", "a"]:
            backend.select_key(key)
            state.set(state.get() + 1)
        found = {}
        for key in "abc":
            backend.select_key(key)
            found[key] = state.get()
        assert found == {"a": 3, "b": 1, "c": 0}
        backend.select_key("a")
        state.clear()
        assert state.get() == 0

    def test_rows_of_a_batch(self, make: Make) -> None:
        backend = make("string")
        state = backend.value_state("n", "bigint", default=0)
        names = ["a", "b", "a", "c"]
        keys = backend.keys(pa.array(names))
        for row in range(4):
            backend.select(keys, row)
            state.set(state.get() + row)
        assert state.take(pa.array(["a", "b", "c", "d"])).to_pylist() == [2, 1, 3, None]

    def test_whole_batches(self, make: Make) -> None:
        backend = make()
        state = backend.value_state("v", pa.string())
        state.put(pa.array([1, 2, 1]), pa.array(["x", "y", "z"]))
        assert state.take(pa.array([2, 1, 3, 2])).to_pylist() == ["y", "z", None, "y"]
        state.put(pa.array([1, 2]), pa.array(["a", None]))
        assert state.take(pa.array([1, 2])).to_pylist() == ["a", None]
        state.delete(pa.array([1, 9]))
        assert state.take(pa.array([1])).to_pylist() == [None]

    def test_a_null_and_a_value_for_one_key(self, make: Make) -> None:
        state = make().value_state("v", "bigint")
        state.put(pa.array([1, 1, 2, 2]), pa.array([5, None, None, 6]))
        assert state.take(pa.array([1, 2])).to_pylist() == [None, 6]

    def test_update_sees_each_key_once(self, make: Make) -> None:
        state = make().value_state("v", "bigint")
        keys, values = pa.array([1, 2, 1, 3, 1]), pa.array([10, 20, 30, 40, 50])

        def add(old: pa.Array, groups: Groups) -> pa.Array:
            return pc.add(pc.fill_null(old, 0), groups.sum(values))

        state.update(keys, add)
        state.update(keys, add)
        assert state.take(pa.array([1, 2, 3, 4])).to_pylist() == [180, 40, 80, None]

    def test_update_with_too_few_values(self, make: Make) -> None:
        state = make().value_state("v", "bigint")
        with pytest.raises(UserCodeError, match="returned 1 values for 2 keys"):
            state.update(pa.array([1, 2]), lambda old, groups: old.slice(0, 1))

    def test_empty_batches(self, make: Make) -> None:
        state = make().value_state("v", "bigint")
        nothing = pa.array([], pa.int64())
        state.put(nothing, nothing)
        state.update(nothing, lambda old, groups: old)
        assert state.take(nothing).to_pylist() == []

    def test_two_states_do_not_meet(self, make: Make) -> None:
        backend = make()
        one, other = backend.value_state("one", "bigint"), backend.value_state("other", "string")
        keys = backend.keys(pa.array([1, 2]))
        one.put(keys, pa.array([7, 8]))
        other.put(keys, pa.array(["x", None]))
        assert one.take(keys).to_pylist() == [7, 8]
        assert other.take(keys).to_pylist() == ["x", None]

    def test_objects(self, make: Make) -> None:
        backend = make("string")
        state = backend.value_state("v")
        backend.select_key("a")
        state.set({"list": [1]})
        state.get()["list"].append(2)
        state.set(state.get())
        backend.select_key("b")
        state.set({3, 4})
        assert state.take(["a", "b", "c"]) == [{"list": [1, 2]}, {3, 4}, None]

    def test_many_keys(self, make: Make) -> None:
        backend = make("string")
        state = backend.value_state("v", "bigint")
        for start in range(0, 20_000, 5_000):
            names = [f"key {number}" for number in range(start, start + 5_000)]
            state.put(pa.array(names), pa.array(range(start, start + 5_000)))
        wanted = [19_999, 0, 12_345, 20_000]
        assert state.take(pa.array([f"key {number}" for number in wanted])).to_pylist() == [19_999, 0, 12_345, None]

    def test_keys_that_come_and_go_leave_room(self, make: Make) -> None:
        state = make().value_state("v", "bigint")
        for start in range(0, 50_000, 1_000):
            keys = pa.array(range(start, start + 1_000))
            state.put(keys, keys)
            state.delete(pa.array(range(start, start + 999)))
        kept = pa.array([999, 1_999, 49_999, 0])
        assert state.take(kept).to_pylist() == [999, 1_999, 49_999, None]


KEYS: list[tuple[object, list[Any]]] = [
    ("tinyint", [-3, 0, 7]),
    ("int", [1, 2, 2**31 - 1]),
    (pa.uint64(), [0, 2**64 - 1, 5]),
    ("float", [0.5, -1.0, float("inf")]),
    ("double", [0.1, -0.0, 1e300]),
    ("string", ["", "a", "x" * 100]),
    (pa.large_string(), ["ä", "日本", "x" * 9]),
    ("binary", [b"", b"\x00", b"\x00\x00"]),
    ("boolean", [True, False]),
    ("date", [datetime.date(1969, 12, 31), datetime.date(2026, 1, 1)]),
    (pa.date64(), [datetime.date(1960, 1, 1), datetime.date(2026, 1, 1)]),
    (
        "timestamp",
        [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)],
    ),
    (pa.timestamp("ns"), [datetime.datetime(2026, 1, 1, 1, 2, 3, 4)]),
    (pa.timestamp("s"), [datetime.datetime(1, 1, 1), datetime.datetime(9999, 1, 1)]),
    ("a string, b bigint", [("x", 1), ("x", 2), ("", 1)]),
    (
        "struct<a:boolean,b:date,c:binary>",
        [(True, datetime.date(2026, 1, 1), b"x"), (False, datetime.date(1, 1, 1), b"")],
    ),
]


class TestKeys:
    @pytest.mark.parametrize(("kind", "keys"), KEYS, ids=[str(kind) for kind, _ in KEYS])
    def test_every_type_of_key(self, make: Make, objects: MemoryObjects, kind: object, keys: list[Any]) -> None:
        backend = make(kind)
        state, entries = backend.value_state("v", "bigint"), backend.map_state("m", "string", "bigint")
        state.put(keys, pa.array(range(len(keys))))
        for number, key in enumerate(keys):
            backend.select_key(key)
            assert state.get() == number
            entries.put("e", number)
        for canonical in (False, True):
            again = restore(make(kind), objects, *save(backend, objects, canonical=canonical))
            restored = again.value_state("v", "bigint")
            assert restored.take(keys).to_pylist() == list(range(len(keys)))
            taken = again.map_state("m", "string", "bigint").take(keys, ["e"] * len(keys))
            assert taken.to_pylist() == list(range(len(keys)))

    def test_the_distinct_keys_of_a_batch(self, make: Make) -> None:
        backend = make("string")
        rows, groups = backend.distinct(backend.keys(["a", "b", "a", "c", "b"]))
        assert sorted(rows.tolist()) == [2, 3, 4]
        assert rows[groups].tolist() == [2, 4, 2, 3, 4]
        rows, groups = backend.distinct(backend.keys(["c", "d"]))
        assert rows[groups].tolist() == [0, 1]

    def test_elements_of_distinct_keys(self, make: Make, objects: MemoryObjects) -> None:
        backend = make("string")
        state = backend.list_state("l", "bigint", namespace="bigint")
        state.append(["a", "b", "a"], [1, 2, 3], [7, 7, 7])
        state.append(["a", "a"], [4, 5], [8, 7])
        again = restore(make("string"), objects, *save(backend, objects))
        for states in (state, again.list_state("l", "bigint", namespace="bigint")):
            spans = states.spans(["x", "b", "a", "b", "a", "a"], [7, 7, 7, 7, 8, 7])
            values = spans.values.to_pylist()
            assert sorted(values) == [1, 2, 3, 4, 5]
            found = [values[at : at + count] for at, count in zip(spans.starts, spans.counts, strict=True)]
            assert found == [[], [2], [1, 3, 5], [2], [4], [1, 3, 5]]
            assert [found[row].count(value) for row, value in zip(spans.rows, values, strict=True)] == [1] * 5
            assert states.spans([], pa.array([], pa.int64())).values.to_pylist() == []

    def test_zeros_and_nans_are_one_key(self, make: Make) -> None:
        state = make("double").value_state("v", "bigint")
        state.put(pa.array([0.0, float("nan")]), pa.array([1, 2]))
        assert state.take(pa.array([-0.0, -float("nan")])).to_pylist() == [1, 2]

    def test_narrower_columns_are_widened(self, make: Make) -> None:
        state = make("bigint").value_state("v", "bigint")
        state.put(pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.int16()))
        assert state.take(pa.array([2], pa.uint32())).to_pylist() == [2]

    def test_chunked_and_dictionary_columns(self, make: Make) -> None:
        state = make("string").value_state("v", "string")
        keys = pa.chunked_array([["a"], ["b"]])
        state.put(keys, keys)
        assert state.take(pa.array(["b", "a"]).dictionary_encode()).to_pylist() == ["b", "a"]

    def test_null_keys(self, make: Make) -> None:
        state = make().value_state("v", "bigint")
        with pytest.raises(NullKeyError, match="filter such rows out"):
            state.put(pa.array([1, None]), pa.array([1, 2]))
        composite = make("a string, b bigint").value_state("v", "bigint")
        with pytest.raises(NullKeyError, match="'b'"):
            composite.take([("x", None)])

    def test_keys_of_another_type(self, make: Make) -> None:
        state = make().value_state("v", "bigint")
        with pytest.raises(UserCodeError, match="key column 'key' is string"):
            state.take(pa.array(["x"]))

    def test_keys_of_other_subtasks(self, make: Make) -> None:
        state = make(groups=KeyGroupRange(0, 3)).value_state("v", "bigint")
        with pytest.raises(EngineError, match="came to a subtask that owns 0 to 3"):
            state.take(pa.array(range(1_000)))

    def test_types_that_cannot_be_keys(self, make: Make) -> None:
        with pytest.raises(ConfigurationError, match="cannot be a key"):
            make("array<int>")
        with pytest.raises(ConfigurationError, match="cannot be any Python object"):
            make(object)

    def test_no_key_is_selected(self, make: Make) -> None:
        with pytest.raises(UserCodeError, match="no key is selected"):
            make().value_state("v").get()


VALUES: list[tuple[object, list[Any]]] = [
    ("smallint", [1, -2, 3]),
    ("double", [0.5, float("inf"), -0.0]),
    ("boolean", [True, False, True]),
    ("string", ["", "x", "日本"]),
    ("binary", [b"", b"\x00", b"abc"]),
    ("date", [datetime.date(2026, 1, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.duration("us"), [datetime.timedelta(seconds=1), datetime.timedelta(0), datetime.timedelta(days=-1)]),
    (pa.time32("s"), [datetime.time(1, 2, 3), datetime.time(0), datetime.time(23, 59, 59)]),
    ("decimal(20,3)", [pa.scalar("1.500").cast(pa.decimal128(20, 3)).as_py()] * 3),
    ("array<int>", [[1, None], [], [3]]),
    ("map<string,int>", [{"a": 1}, {}, {"b": None}]),
    ("struct<n:bigint,x:double>", [{"n": 1, "x": None}, {"n": None, "x": 0.5}, {"n": 3, "x": 1.0}]),
    (
        "struct<a:struct<b:int>,c:date>",
        [{"a": {"b": 1}, "c": None}, {"a": None, "c": None}, {"a": {"b": None}, "c": None}],
    ),
    ("struct<s:string,l:array<string>>", [{"s": "x", "l": ["y"]}, {"s": None, "l": None}, {"s": "", "l": []}]),
    (object, [{1: "x"}, ("a", [b"b"]), {"c"}]),
]


class TestValues:
    @pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
    def test_every_type_of_value(self, make: Make, objects: MemoryObjects, kind: object, values: list[Any]) -> None:
        backend = make()
        single, batch, elements = (
            backend.value_state("single", kind),
            backend.value_state("batch", kind),
            backend.list_state("elements", kind),
        )
        for key, value in enumerate(values):
            backend.select_key(key)
            single.set(value)
            assert single.get() == value
            elements.add(value)
        batch.put(list(range(len(values))), values)
        for canonical in (False, True):
            again = restore(make(), objects, *save(backend, objects, canonical=canonical))
            for name in ("single", "batch"):
                taken = again.value_state(name, kind).take(list(range(len(values) + 1)))
                assert plain(taken) == [*values, None]
            lists = again.list_state("elements", kind).take(list(range(len(values))))
            assert plain(lists) == [[value] for value in values]

    @pytest.mark.parametrize("kind", ["bigint", "string", "struct<n:bigint>", "array<int>"])
    def test_values_that_do_not_fit(self, make: Make, kind: str) -> None:
        backend = make()
        state = backend.value_state("v", kind)
        backend.select_key(1)
        state_before = state.get()
        with pytest.raises(UserCodeError, match="is no value of type"):
            state.set(object())
        with pytest.raises(UserCodeError, match="is no value of type"):
            state.put([1], [object()])
        assert state.get() == state_before

    def test_numbers_are_not_cut(self, make: Make) -> None:
        backend = make()
        state = backend.value_state("v", "int")
        backend.select_key(1)
        for value in (2**31, 1.5, "1"):
            with pytest.raises(UserCodeError):
                state.set(value)

    def test_wrong_number_of_values(self, make: Make) -> None:
        with pytest.raises(UserCodeError, match="1 values for 2 keys"):
            make().value_state("v", "bigint").put(pa.array([1, 2]), pa.array([1]))


class TestMapState:
    def test_one_key_at_a_time(self, make: Make) -> None:
        backend = make("string")
        state = backend.map_state("m", "string", "bigint")
        for key, inner, value in [("a", "x", 1), ("a", "y", 2), ("b", "x", 3), ("a", "x", 4)]:
            backend.select_key(key)
            state.put(inner, value)
        backend.select_key("a")
        assert sorted(state.items()) == [("x", 4), ("y", 2)]
        assert sorted(state) == sorted(state.keys()) == ["x", "y"]
        assert sorted(state.values()) == [2, 4]
        assert (len(state), "x" in state, "z" in state, state.get("z", -1)) == (2, True, False, -1)
        state.remove("x")
        state.remove("never there")
        assert state.items() == [("y", 2)]
        state.put("x", 5)
        assert sorted(state.items()) == [("x", 5), ("y", 2)]
        state.clear()
        assert (state.items(), len(state)) == ([], 0)
        state.put("y", 6)
        assert state.items() == [("y", 6)]
        backend.select_key("b")
        assert state.items() == [("x", 3)]

    def test_whole_batches(self, make: Make) -> None:
        state = make().map_state("m", "string", "bigint")
        keys, inner = pa.array([1, 1, 2, 1]), pa.array(["x", "y", "x", "x"])
        state.put_all(keys, inner, pa.array([1, 2, 3, 4]))
        assert state.take(pa.array([1, 1, 2, 2]), pa.array(["x", "y", "x", "y"])).to_pylist() == [4, 2, 3, None]
        rows, inner_keys, values = state.entries(pa.array([2, 3, 1]))
        found = sorted(zip(rows.tolist(), inner_keys.to_pylist(), values.to_pylist(), strict=True))
        assert found == [(0, "x", 3), (2, "x", 4), (2, "y", 2)]
        state.put_all(pa.array([1]), pa.array(["x"]), pa.array([None], pa.int64()))
        assert state.take(pa.array([1]), pa.array(["x"])).to_pylist() == [None]
        state.delete(pa.array([1, 2]))
        assert state.entries(pa.array([1, 2]))[0].size == 0

    def test_entries_that_come_and_go(self, make: Make) -> None:
        backend = make()
        state = backend.map_state("m", "bigint", "bigint")
        backend.select_key(1)
        for number in range(200):
            state.put(number, number)
            if number >= 3:
                state.remove(number - 3)
            assert len(state) == min(number + 1, 3)
        assert sorted(state.keys()) == [197, 198, 199]

    def test_composite_map_keys(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        state = backend.map_state("m", "a string, b int", object)
        backend.select_key(1)
        state.put(("x", 1), {"anything"})
        again = restore(make(), objects, *save(backend, objects))
        restored = again.map_state("m", "a string, b int", object)
        again.select_key(1)
        assert restored.items() == [({"a": "x", "b": 1}, {"anything"})]
        assert restored.get(("x", 1)) == {"anything"}


class TestListState:
    def test_one_key_at_a_time(self, make: Make) -> None:
        backend = make("string")
        state = backend.list_state("l", "bigint")
        for key, value in [("a", 3), ("b", 1), ("a", 1), ("a", 2)]:
            backend.select_key(key)
            state.add(value)
        backend.select_key("a")
        assert (state.get(), len(state), list(state)) == ([3, 1, 2], 3, [3, 1, 2])
        state.extend([9, 8])
        assert state.get() == [3, 1, 2, 9, 8]
        state.set([5])
        assert state.get() == [5]
        state.clear()
        state.extend([])
        assert state.get() == []
        state.add(7)
        assert state.get() == [7]
        backend.select_key("b")
        assert state.get() == [1]

    def test_whole_batches(self, make: Make) -> None:
        backend = make()
        state = backend.list_state("l", "string")
        state.append(pa.array([1, 2, 1]), pa.array(["a", "b", "c"]))
        state.append(pa.array([1, 3]), pa.array(["d", "e"]))
        assert state.take(pa.array([3, 1, 4, 1])).to_pylist() == [["e"], ["a", "c", "d"], [], ["a", "c", "d"]]
        rows, values = state.elements(pa.array([2, 1]))
        assert (rows.tolist(), values.to_pylist()) == ([0, 1, 1, 1], ["b", "a", "c", "d"])
        state.delete(pa.array([1]))
        assert state.take(pa.array([1, 2])).to_pylist() == [[], ["b"]]

    def test_elements_are_never_null(self, make: Make) -> None:
        backend = make()
        for name, kind in (("typed", "bigint"), ("any", object)):
            state = backend.list_state(name, kind)
            with pytest.raises(UserCodeError, match="cannot be null"):
                state.append(pa.array([1, 2]), [1, None])
            assert len(state.take(pa.array([1]))[0]) == 0


class Average:
    def create(self) -> dict[str, int]:
        return {"n": 0, "total": 0}

    def add(self, accumulator: dict[str, int], value: int) -> dict[str, int]:
        return {"n": accumulator["n"] + 1, "total": accumulator["total"] + value}

    def result(self, accumulator: dict[str, int]) -> float:
        return accumulator["total"] / accumulator["n"]

    def merge(self, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        return {name: one[name] + other[name] for name in one}


class TestReducingAndAggregating:
    @pytest.mark.parametrize(
        ("reduce", "result"),
        [("sum", 12), ("min", 1), ("max", 6), ("first", 5), ("last", 6), (lambda one, other: one - other, -2)],
    )
    def test_reduce(self, make: Make, reduce: Any, result: int) -> None:
        backend = make()
        single, batch = (
            backend.reducing_state("single", "bigint", reduce),
            backend.reducing_state("batch", "bigint", reduce),
        )
        keys, values = pa.array([1, 2, 1, 1]), pa.array([5, 100, 1, 6])
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            backend.select_key(key)
            single.add(value)
        batch.add_all(keys.slice(0, 3), values.slice(0, 3))
        batch.add_all(keys.slice(3), values.slice(3))
        for state in (single, batch):
            assert state.take(pa.array([1, 2, 3])).to_pylist() == [result, 100, None]
        backend.select_key(1)
        assert single.get() == result
        single.clear()
        assert single.get() is None
        batch.delete(keys)
        assert batch.take(keys).null_count == 4

    def test_unknown_reducer(self, make: Make) -> None:
        with pytest.raises(ConfigurationError, match="sum, min, max, first, last"):
            make().reducing_state("r", "bigint", "median")

    @pytest.mark.parametrize("accumulator", [object, "struct<n:bigint,total:bigint>"])
    def test_aggregate(self, make: Make, accumulator: object) -> None:
        backend = make()
        state = backend.aggregating_state("a", Average(), accumulator)
        state.add_all(pa.array([1, 2, 1]), pa.array([10, 5, 20]))
        backend.select_key(1)
        state.add(60)
        assert state.get() == 30.0
        assert state.take([2, 1, 3]) == [5.0, 30.0, None]
        state.clear()
        assert state.get() is None
        state.delete([2])
        assert state.take([2]) == [None]


class TestNamespaces:
    def test_values(self, make: Make, objects: MemoryObjects) -> None:
        backend = make("string")
        state = backend.value_state("v", "bigint", namespace="bigint")
        state.put(pa.array(["a", "a", "b"]), pa.array([1, 2, 3]), namespace=pa.array([10, 20, 10]))
        state.put(pa.array(["c"]), pa.array([4]), namespace=10)
        backend.select_key("a")
        backend.select_namespace(20)
        assert state.get() == 2
        state.set(5)
        again = restore(make("string"), objects, *save(backend, objects))
        restored = again.value_state("v", "bigint", namespace="bigint")
        assert restored.take(pa.array(["a", "a", "b", "c"]), pa.array([10, 20, 20, 10])).to_pylist() == [1, 5, None, 4]

    def test_windows_as_structs(self, make: Make) -> None:
        backend = make("string")
        window = pa.struct([("start", pa.timestamp("ms")), ("end", pa.timestamp("ms"))])
        state = backend.list_state("l", "bigint", namespace=window)
        one = {"start": datetime.datetime(2026, 1, 1), "end": datetime.datetime(2026, 1, 2)}
        backend.select_key("a")
        backend.select_namespace(one)
        state.add(1)
        state.append(["a", "a"], [2, 3], namespace=[one, {**one, "end": datetime.datetime(2026, 1, 3)}])
        assert state.get() == [1, 2]
        assert state.take(["a"], one).to_pylist() == [[1, 2]]

    def test_maps(self, make: Make) -> None:
        state = make().map_state("m", "string", "bigint", namespace="date")
        today, tomorrow = datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)
        state.put_all([1, 1], ["x", "x"], [1, 2], namespace=[today, tomorrow])
        assert state.take([1, 1], ["x", "y"], namespace=tomorrow).to_pylist() == [2, None]
        state.delete([1], namespace=today)
        assert state.entries([1, 1], namespace=[today, tomorrow])[2].to_pylist() == [2]

    def test_equal_values_of_different_types(self, make: Make) -> None:
        """1, 1.0 and True are equal in Python, and three different namespaces."""
        backend = make()
        states = {kind: backend.value_state(kind, "string", namespace=kind) for kind in ("bigint", "double", "boolean")}
        spaces: dict[str, Any] = {"bigint": 1, "double": 1.0, "boolean": True}
        keys = backend.keys([7])
        backend.select(keys, 0)
        for kind, state in states.items():
            backend.select_namespace(spaces[kind])
            state.set(kind)
        for kind, state in states.items():
            assert state.take([7], namespace=spaces[kind]).to_pylist() == [kind]

    def test_given_or_not(self, make: Make) -> None:
        backend = make()
        plain, spaced = backend.value_state("plain"), backend.value_state("spaced", namespace="bigint")
        backend.select_key(1)
        with pytest.raises(UserCodeError, match="there is no namespace here"):
            plain.take([1], namespace=1)
        with pytest.raises(UserCodeError, match="has a namespace"):
            spaced.take([1])
        with pytest.raises(UserCodeError, match="has a namespace"):
            spaced.get()
        with pytest.raises(UserCodeError, match="2 namespaces for 1 keys"):
            spaced.take([1], namespace=[1, 2])


class TestTtl:
    def test_values_expire(self, make: Make, clock: ManualClock, objects: MemoryObjects) -> None:
        backend = make()
        state = backend.value_state("v", "bigint", ttl=Ttl("1s"))
        state.put([1, 2], [1, 2])
        clock.now_ms += 600
        state.put([2], [3])
        assert state.take([1, 2]).to_pylist() == [1, 3]
        clock.now_ms += 400
        assert state.take([1, 2]).to_pylist() == [None, 3]
        backend.select_key(1)
        assert state.get() is None
        parts = save(backend, objects, canonical=True)
        clock.now_ms += 500
        again = restore(make(), objects, *parts).value_state("v", "bigint", ttl=Ttl("1s"))
        assert again.take([1, 2]).to_pylist() == [None, 3]
        clock.now_ms += 100
        assert again.take([1, 2]).to_pylist() == [None, None]

    def test_reading_refreshes(self, make: Make, clock: ManualClock) -> None:
        backend = make()
        read = backend.value_state("read", "bigint", ttl=Ttl("1s", refresh_on_read=True))
        read.put([1, 2], [1, 2])
        for _ in range(3):
            clock.now_ms += 900
            assert read.take([1]).to_pylist() == [1]
        backend.select_key(1)
        clock.now_ms += 900
        assert read.get() == 1
        clock.now_ms += 900
        assert (read.get(), read.take([2]).to_pylist()) == (1, [None])

    def test_elements_and_entries_expire_one_by_one(
        self, make: Make, clock: ManualClock, objects: MemoryObjects
    ) -> None:
        backend = make()
        elements, entries = (
            backend.list_state("l", object, ttl=Ttl("1s")),
            backend.map_state("m", "int", "int", ttl=Ttl("1s")),
        )
        backend.select_key(1)
        for number in range(3):
            elements.add(number)
            entries.put(number, number)
            clock.now_ms += 400
        assert (elements.get(), sorted(entries.keys())) == ([1, 2], [1, 2])
        again = restore(make(), objects, *save(backend, objects))
        clock.now_ms += 400
        again.select_key(1)
        assert again.list_state("l", object, ttl=Ttl("1s")).get() == [2]
        assert again.map_state("m", "int", "int", ttl=Ttl("1s")).items() == [(2, 2)]

    def test_a_ttl_can_be_given_later(self, make: Make, clock: ManualClock, objects: MemoryObjects) -> None:
        backend = make()
        backend.value_state("v", "bigint").put([1], [1])
        again = restore(make(), objects, *save(backend, objects))
        state = again.value_state("v", "bigint", ttl=Ttl("1s"))
        assert state.take([1]).to_pylist() == [1]
        clock.now_ms += 1_000
        assert state.take([1]).to_pylist() == [None]

    def test_reading_refreshes_elements_and_entries(self, make: Make, clock: ManualClock) -> None:
        backend = make()
        ttl = Ttl("1s", refresh_on_read=True)
        elements, entries = backend.list_state("l", "int", ttl=ttl), backend.map_state("m", "int", "int", ttl=ttl)
        backend.select_key(1)
        elements.extend([1, 2])
        entries.put(1, 1)
        entries.put(2, 2)
        for _ in range(3):
            clock.now_ms += 900
            assert (elements.get(), entries.get(1)) == ([1, 2], 1)
        assert entries.items() == [(1, 1)]
        clock.now_ms += 1_000
        assert (elements.get(), entries.items()) == ([], [])

    @pytest.mark.parametrize(("before", "after"), [(Ttl("1s"), None), (None, Ttl("1s")), (Ttl("1s"), Ttl("1h"))])
    def test_another_ttl_declared_before_the_restore(
        self, make: Make, clock: ManualClock, objects: MemoryObjects, before: Ttl | None, after: Ttl | None
    ) -> None:
        backend = make()
        backend.value_state("v", "int", ttl=before).put([1], [5])
        again = make()
        state = again.value_state("v", "bigint", ttl=after)
        restore(again, objects, *save(backend, objects))
        assert state.take([1]).to_pylist() == [5]
        clock.now_ms += 1_000
        assert state.take([1]).to_pylist() == [None if after == Ttl("1s") else 5]

    def test_nothing_lives_for_no_time(self, make: Make) -> None:
        with pytest.raises(ConfigurationError, match="ttl is 0"):
            make().value_state("v", ttl=Ttl(0))

    def test_a_duration_by_itself_is_a_ttl(self, make: Make, clock: ManualClock) -> None:
        state = make().value_state("v", "bigint", ttl="1s")
        state.put([1], [5])
        clock.now_ms += 999
        assert state.take([1]).to_pylist() == [5]
        clock.now_ms += 1
        assert state.take([1]).to_pylist() == [None]


class TestTimers:
    def test_in_order_and_once(self, make: Make) -> None:
        backend = make("string")
        timers = backend.timers()
        timers.register_all(TimeDomain.EVENT, pa.array(["b", "a", "a", "a"]), pa.array([20, 10, 30, 10]))
        backend.select_key("a")
        timers.register(TimeDomain.EVENT, 10)
        timers.register(TimeDomain.PROCESSING, 5)
        assert (len(timers), timers.next_ms(TimeDomain.EVENT)) == (4, 10)
        assert timers.due(TimeDomain.EVENT, 9) is None
        due = timers.due(TimeDomain.EVENT, 20)
        assert due is not None
        assert (due.keys.to_pylist(), due.times.tolist(), due.namespaces) == (["a", "b"], [10, 20], None)
        state = backend.value_state("v", "bigint")
        state.put(due.rows, pa.array([1, 2]))
        assert state.take(pa.array(["a", "b"])).to_pylist() == [1, 2]
        assert timers.due(TimeDomain.EVENT, 20) is None
        timers.register(TimeDomain.EVENT, 10)
        again = timers.due(TimeDomain.EVENT, 20)
        assert again is not None
        assert again.keys.to_pylist() == ["a"]

    def test_deleting(self, make: Make) -> None:
        backend = make()
        timers = backend.timers()
        timers.register_all(TimeDomain.PROCESSING, [1, 2, 3], 10)
        timers.delete_all(TimeDomain.PROCESSING, [1, 9], [10, 10])
        backend.select_key(2)
        timers.delete(TimeDomain.PROCESSING, 10)
        timers.register(TimeDomain.PROCESSING, 10)
        due = timers.due(TimeDomain.PROCESSING, 10)
        assert due is not None
        assert sorted(due.keys.to_pylist()) == [2, 3]

    def test_a_few_at_a_time(self, make: Make) -> None:
        timers = make().timers()
        timers.register_all(TimeDomain.EVENT, list(range(10)), list(range(10)))
        sizes = []
        while (due := timers.due(TimeDomain.EVENT, 100, limit=4)) is not None:
            sizes.append(len(due))
        assert sizes == [4, 4, 2]

    def test_many_come_and_go(self, make: Make) -> None:
        timers = make().timers()
        fired = 0
        for time in range(0, 30_000, 1_000):
            timers.register_all(TimeDomain.EVENT, list(range(1_000)), time)
            due = timers.due(TimeDomain.EVENT, time - 1_000)
            fired += 0 if due is None else len(due)
        assert (fired, len(timers)) == (29_000, 1_000)

    def test_saved(self, make: Make, objects: MemoryObjects) -> None:
        backend = make("timestamp")
        timers = backend.timers(namespace="string")
        when = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in range(1, 6)]
        timers.register_all(TimeDomain.EVENT, when, [1, 2, 3, 4, 5], namespace=["x", "y", "x", "y", "x"])
        timers.register_all(TimeDomain.PROCESSING, when[:1], 7, namespace="z")
        assert len(timers.due(TimeDomain.EVENT, 2) or []) == 2
        again = restore(make("timestamp"), objects, *save(backend, objects)).timers(namespace="string")
        due = again.due(TimeDomain.EVENT, 100)
        assert due is not None
        assert due.namespaces is not None
        assert (due.keys.to_pylist(), due.namespaces.to_pylist(), due.times.tolist()) == (
            when[2:],
            ["x", "y", "x"],
            [3, 4, 5],
        )
        assert again.next_ms(TimeDomain.PROCESSING) == 7

    def test_wrong_times(self, make: Make) -> None:
        backend = make()
        backend.select_key(1)
        with pytest.raises(UserCodeError, match="whole milliseconds"):
            backend.timers().register(TimeDomain.EVENT, 1.5)  # type: ignore[arg-type]
        with pytest.raises(UserCodeError, match="1 times for 2 timers"):
            backend.timers().register_all(TimeDomain.EVENT, [1, 2], [1])


class TestSnapshots:
    def test_what_comes_after_is_not_in_it(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        typed, texts, anything = (
            backend.value_state("typed", "struct<a:bigint,b:bigint>"),
            backend.value_state("texts", "string"),
            backend.value_state("anything"),
        )
        elements = backend.list_state("elements", "bigint")
        timers = backend.timers()

        def fill(keys: range, mark: int) -> None:
            typed.put(list(keys), [{"a": mark, "b": mark} for _ in keys])
            texts.put(list(keys), [str(mark)] * len(keys))
            anything.put(list(keys), [[mark] for _ in keys])
            elements.append(list(keys), [mark] * len(keys))
            timers.register_all(TimeDomain.EVENT, list(keys), mark)

        fill(range(10), 1)
        snapshot = backend.snapshot()
        fill(range(5, 2_000), 2)
        backend.select_key(0)
        held = anything.get()
        held.append(99)
        anything.set(held)
        typed.delete([1])
        elements.delete([2])
        target = SnapshotWriter(objects, "/j/chk-1", "/j/shared", attempt=1, checkpoint_id=1, uid="op", subtask=0)
        parts = snapshot.write(target)
        snapshot.release()
        again = restore(make(), objects, *parts)
        keys = list(range(11))
        assert again.value_state("typed", "struct<a:bigint,b:bigint>").take(keys).to_pylist() == [
            {"a": 1, "b": 1}
        ] * 10 + [None]
        assert again.value_state("texts", "string").take(keys).to_pylist() == ["1"] * 10 + [None]
        assert again.value_state("anything").take(keys) == [[1]] * 10 + [None]
        assert again.list_state("elements", "bigint").take(keys).to_pylist() == [[1]] * 10 + [[]]
        assert len(again.timers()) == 10
        assert anything.take([0, 5]) == [[1, 99], [2]]
        assert typed.take([1, 5, 1_999]).to_pylist() == [None, {"a": 2, "b": 2}, {"a": 2, "b": 2}]

    def test_two_at_once(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        state, anything = backend.value_state("v", "bigint"), backend.value_state("any")
        taken = []
        for mark in (1, 2, 3):
            state.put([1, 2], [mark, mark])
            anything.put([1], [[mark]])
            taken.append(backend.snapshot())
            anything.take([1])[0].append("later")
        for mark, snapshot in ((2, taken[1]), (1, taken[0]), (3, taken[2])):
            target = SnapshotWriter(
                objects, f"/j/chk-{mark}", "/j/shared", attempt=1, checkpoint_id=mark, uid="op", subtask=0
            )
            parts = snapshot.write(target)
            snapshot.release()
            again = restore(make(), objects, *parts)
            assert again.value_state("v", "bigint").take([1, 2]).to_pylist() == [mark, mark]
            assert again.value_state("any").take([1]) == [[mark]]

    def test_one_that_is_not_wanted(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        state = backend.value_state("v", "bigint")
        state.put([1], [1])
        backend.snapshot().release()
        state.put([2], [2])
        again = restore(make(), objects, *save(backend, objects))
        assert again.value_state("v", "bigint").take([1, 2]).to_pylist() == [1, 2]

    def test_a_chain_of_restores(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        parts: tuple[KeyedPart, ...] = ()
        for round_ in range(1, 6):
            if parts:
                backend = restore(make(), objects, *parts)
            backend.value_state("v", "bigint").put([round_, 0], [round_, round_])
            backend.list_state("l", "bigint").append([0], [round_])
            parts = save(backend, objects, round_)
            backend.confirm(round_)
            parts = save(backend, objects, 10 * round_)
        again = restore(make(), objects, *parts)
        assert again.value_state("v", "bigint").take(list(range(6))).to_pylist() == [5, 1, 2, 3, 4, 5]
        assert again.list_state("l", "bigint").take([0]).to_pylist() == [[1, 2, 3, 4, 5]]

    def test_rescaling(self, make: Make, objects: MemoryObjects) -> None:
        keys = list(range(3_000))
        backend = make()
        backend.value_state("v", "bigint").put(keys, keys)
        backend.list_state("l", "string").append(keys, [str(key) for key in keys])
        backend.timers().register_all(TimeDomain.EVENT, keys, keys)
        parts = save(backend, objects)
        for number, parallelism in enumerate((3, 2, 5, 1)):
            found: dict[int, int] = {}
            new_parts: list[KeyedPart] = []
            for groups in key_group_ranges(128, parallelism):
                subtask = restore(make(groups=groups), objects, *parts)
                due = subtask.timers().due(TimeDomain.EVENT, 10_000)
                mine = sorted(due.keys.to_pylist()) if due is not None else []
                values = subtask.value_state("v", "bigint").take(mine).to_pylist()
                lists = subtask.list_state("l", "string").take(mine).to_pylist()
                assert values == mine
                assert lists == [[str(key)] for key in mine]
                assert not found.keys() & set(mine)
                found |= dict(zip(mine, values, strict=True))
                subtask.timers().register_all(TimeDomain.EVENT, mine, mine)
                new_parts += save(subtask, objects, number + 2)
            assert sorted(found) == keys
            parts = tuple(new_parts)

    def test_state_that_nobody_asks_for_is_carried_on(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        backend.value_state("kept", "string").put([1], ["x"])
        backend.map_state("m", "string", "bigint").put_all([1], ["a"], [1])
        middle = restore(make(), objects, *save(backend, objects))
        again = restore(make(), objects, *save(middle, objects, 2))
        assert again.value_state("kept", "string").take([1]).to_pylist() == ["x"]
        assert again.map_state("m", "string", "bigint").take([1], ["a"]).to_pylist() == [1]

    def test_nothing(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        backend.value_state("v", "bigint")
        backend.timers()
        again = restore(make(), objects, *save(backend, objects))
        assert again.value_state("v", "bigint").take([1]).to_pylist() == [None]


class TestDeclaring:
    def test_twice(self, make: Make) -> None:
        backend = make()
        backend.value_state("v", "bigint").put([1], [5])
        assert backend.value_state("v", pa.int64()).take([1]).to_pylist() == [5]
        with pytest.raises(ConfigurationError, match="was declared before as value of"):
            backend.value_state("v", "string")
        with pytest.raises(ConfigurationError, match="was declared before"):
            backend.list_state("v", "bigint")
        with pytest.raises(ConfigurationError, match="was declared before"):
            backend.value_state("v", "bigint", namespace="int")

    @pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "_timers", 5])
    def test_impossible_names(self, make: Make, name: Any) -> None:
        with pytest.raises(ConfigurationError):
            make().value_state(name)

    def test_restored_with_another_type(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        backend.value_state("v", "bigint").put([1], [5])
        parts = save(backend, objects)
        wrong: list[Callable[[KeyedBackend], object]] = [
            lambda again: again.value_state("v", "string"),
            lambda again: again.value_state("v", "int"),
            lambda again: again.value_state("v"),
            lambda again: again.list_state("v", "bigint"),
            lambda again: again.value_state("v", "bigint", namespace="int"),
        ]
        for declare in wrong:
            with pytest.raises(RestoreError, match="was saved as value of"):
                declare(restore(make(), objects, *parts))
        with pytest.raises(RestoreError, match="saved with keys of the type int64"):
            restore(make("string"), objects, *parts)

    def test_restored_with_a_wider_type(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        backend.value_state("v", "int").put([1, 2], [5, 6])
        backend.list_state("l", "float").append([1], [0.5])
        again = restore(make(), objects, *save(backend, objects))
        state = again.value_state("v", "bigint")
        state.put([2], [2**40])
        assert state.take([1, 2]).to_pylist() == [5, 2**40]
        assert again.list_state("l", "double").take([1]).to_pylist() == [[0.5]]

    def test_structs_may_change_their_fields(self, make: Make, objects: MemoryObjects) -> None:
        """Added with a default or null, dropped, reordered, widened; whatever holds the structs."""
        old, new = "a INT NOT NULL, b STRING, gone DOUBLE", "b STRING, n BIGINT NOT NULL, a BIGINT, more ARRAY<INT>"
        backend = make()
        row = {"a": 1, "b": "x", "gone": 0.5}
        backend.value_state("v", old).put([1, 2], [row, {**row, "b": None}])
        backend.value_state("nested", f"s STRUCT<{old}>, l ARRAY<STRUCT<{old}>>").put(
            [1], [{"s": row, "l": [row, None]}]
        )
        backend.list_state("l", old).append([1, 1], [row, row])
        backend.map_state("m", "string", f"map<string,struct<{old}>>").put_all([1], ["k"], [{"in": row}])
        backend.value_state("fixed", "a INT, b DOUBLE").put([1, 2], [{"a": 1, "b": 0.5}, {"a": None, "b": None}])
        again = restore(make(), objects, *save(backend, objects))
        state = again.value_state("v", new, default={"n": 7, "more": [1]})
        made = {"b": "x", "n": 7, "a": 1, "more": [1]}
        assert plain(state.take([1, 2, 3])) == [made, {**made, "b": None}, None]
        bare = "b STRING, a BIGINT, more INT"
        short = {"b": "x", "a": 1, "more": None}
        nested = again.value_state("nested", f"l ARRAY<STRUCT<{bare}>>, s STRUCT<{bare}>")
        assert plain(nested.take([1])) == [{"l": [short, None], "s": short}]
        assert plain(again.list_state("l", bare).take([1])) == [[short, short]]
        assert plain(again.map_state("m", "string", f"map<string,struct<{bare}>>").take([1], ["k"])) == [{"in": short}]
        fixed = again.value_state("fixed", "b DOUBLE, c BIGINT, a BIGINT")
        assert plain(fixed.take([1, 2])) == [{"b": 0.5, "c": None, "a": 1}, {"b": None, "c": None, "a": None}]
        state.put([3], [made])
        last = restore(make(), objects, *save(again, objects, 2))
        assert plain(last.value_state("v", new).take([1, 3])) == [made, made]

    @pytest.mark.parametrize(
        ("declared", "problem"),
        [
            ("a INT, b STRING, c INT NOT NULL", "the new field 'c' may not be null, and there is no default for it"),
            ("a INT, b STRING NOT NULL", "field 'b': it could be null and may not be null now"),
            ("a SMALLINT, b STRING", "field 'a': int32 cannot become int16"),
            ("bigint", "cannot become int64"),
        ],
    )
    def test_changes_of_structs_that_would_lose_values(
        self, make: Make, objects: MemoryObjects, declared: str, problem: str
    ) -> None:
        backend = make()
        backend.value_state("v", "a INT, b STRING").put([1], [{"a": 1, "b": None}])
        again = restore(make(), objects, *save(backend, objects))
        with pytest.raises(RestoreError, match=f"(?s){problem}.*migrate="):
            again.value_state("v", declared)
        assert plain(again.value_state("v", "a INT, b STRING").take([1])) == [{"a": 1, "b": None}]

    def test_a_function_of_the_user_converts_the_rest(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        backend.value_state("v", "string").put([1, 2], ["10", "20"])
        backend.value_state("o", object).put([1], [{"n": 3}])
        backend.list_state("l", "bigint").append([1, 1], [1, 2])
        backend.map_state("m", "string", "bigint").put_all([1], ["k"], [4])
        backend.reducing_state("r", "bigint", "sum").add_all([1], [5])
        again = restore(make(), objects, *save(backend, objects))
        numbers = again.value_state("v", "bigint", migrate=int)
        assert plain(numbers.take([1, 2, 3])) == [10, 20, None]
        assert plain(again.value_state("o", "n BIGINT", migrate=dict).take([1])) == [{"n": 3}]
        assert plain(again.list_state("l", object, migrate=str).take([1])) == [["1", "2"]]
        assert plain(again.map_state("m", "string", "string", migrate=str).take([1], ["k"])) == ["4"]
        total = again.reducing_state("r", "double", "sum", migrate=float)
        total.add_all([1], [0.5])
        assert plain(total.take([1])) == [5.5]
        last = restore(make(), objects, *save(again, objects, 2))
        never: Any = None
        assert plain(last.value_state("v", "bigint", migrate=never).take([1])) == [10]

    @pytest.mark.parametrize(
        ("migrate", "problem"),
        [
            (lambda value: None, "returned None for a value"),
            (lambda value: 1 / 0, "ZeroDivisionError"),
            (lambda value: "x", "is no value of type int64"),
        ],
    )
    def test_a_function_that_does_not_convert(
        self, make: Make, objects: MemoryObjects, migrate: Any, problem: str
    ) -> None:
        backend = make()
        backend.value_state("v", "string").put([1], ["1"])
        again = restore(make(), objects, *save(backend, objects))
        with pytest.raises(UserCodeError, match=f"state 'v': the function given as migrate= failed: .*{problem}"):
            again.value_state("v", "bigint", migrate=migrate)

    def test_declared_before_the_restore(self, make: Make, objects: MemoryObjects) -> None:
        backend = make()
        backend.value_state("v", "bigint").put([1], [5])
        again = make()
        state = again.value_state("v", "bigint")
        restore(again, objects, *save(backend, objects))
        assert state.take([1]).to_pylist() == [5]


class TestBetweenBackends:
    """State can change its backend with a canonical savepoint, but not with native files."""

    @pytest.mark.parametrize("direction", ["memory to rocksdb", "rocksdb to memory"])
    def test_canonical(self, tmp_path: Path, clock: ManualClock, objects: MemoryObjects, direction: str) -> None:
        common: dict[str, Any] = {"max_parallelism": 128, "key_groups": ALL, "clock": clock, "uid": "op"}
        backends = [MemoryBackend("string", **common), RocksDbBackend("string", directory=tmp_path / "db", **common)]
        old, new = backends if direction == "memory to rocksdb" else reversed(backends)
        names = [f"key {number}" for number in range(500)]
        old.value_state("v", "struct<a:bigint,b:string>").put(names, [{"a": 1, "b": name} for name in names])
        old.value_state("o", ttl=Ttl("1h")).put(names, [{name} for name in names])
        old.list_state("l", "string", namespace="int").append(names, names, namespace=7)
        old.map_state("m", "bigint", "string").put_all(names, list(range(500)), names)
        old.timers().register_all(TimeDomain.EVENT, names, list(range(500)))
        restore(new, objects, *save(old, objects, canonical=True))
        taken = new.value_state("v", "struct<a:bigint,b:string>").take(names).to_pylist()
        assert taken == [{"a": 1, "b": name} for name in names]
        assert new.value_state("o", ttl=Ttl("1h")).take(names) == [{name} for name in names]
        assert new.list_state("l", "string", namespace="int").take(names, 7).to_pylist() == [[name] for name in names]
        assert new.map_state("m", "bigint", "string").take(names, list(range(500))).to_pylist() == names
        assert len(new.timers()) == 500
        for backend in (old, new):
            backend.close()

    def test_native(self, tmp_path: Path, clock: ManualClock, objects: MemoryObjects) -> None:
        common: dict[str, Any] = {"max_parallelism": 128, "key_groups": ALL, "clock": clock, "uid": "op"}
        old = RocksDbBackend("string", directory=tmp_path / "db", **common)
        old.value_state("v", "bigint").put(["a"], [1])
        with pytest.raises(RestoreError, match="canonical savepoint"):
            restore(MemoryBackend("string", **common), objects, *save(old, objects))
        old.close()


def _unpicklable() -> Any:
    return lambda: None


def test_an_object_that_cannot_be_pickled(make: Make, objects: MemoryObjects) -> None:
    """A call or a snapshot fails; nothing else is lost."""
    backend = make()
    state = backend.value_state("v")
    backend.select_key(1)
    state.set([1])

    def keep_and_save() -> None:
        state.set(_unpicklable())
        save(backend, objects)

    with pytest.raises(UserCodeError, match="cannot be pickled"):
        keep_and_save()
    state.set([2])
    again = restore(make(), objects, *save(backend, objects, 2))
    assert again.value_state("v").take([1]) == [[2]]


def test_an_object_whose_class_is_gone(make: Make, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make()
    monkeypatch.setattr(Average, "__module__", "gone")
    monkeypatch.setitem(sys.modules, "gone", type(sys)("gone"))
    sys.modules["gone"].Average = Average  # type: ignore[attr-defined]
    backend.value_state("v").put([1], [Average()])
    parts = save(backend, objects)
    monkeypatch.delitem(sys.modules, "gone")
    with pytest.raises(RestoreError, match="make its class importable"):
        restore(make(), objects, *parts).value_state("v").take([1])


class Trap:
    """Its pickle runs code."""

    sprung = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return spring, ()


def spring() -> int:
    Trap.sprung += 1
    return 7


@pytest.mark.parametrize("canonical", [False, True])
def test_a_pickle_runs_only_where_the_job_declares_an_object(
    make: Make, objects: MemoryObjects, canonical: bool
) -> None:
    first = make()
    for name in ("number", "gone"):
        state = first.value_state(name, object)
        for key in range(10):
            first.select_key(key)
            state.set(Trap())
    parts, sprung = save(first, objects, canonical=canonical), Trap.sprung
    second = restore(make(), objects, *parts)
    with pytest.raises(RestoreError, match=r"saved as value of any Python object, and is declared as value of int64"):
        second.value_state("number", int)
    # Neither is what was refused opened, nor what nobody asks for, also when it is saved again.
    again = save(second, objects, 2, canonical=canonical)
    assert Trap.sprung == sprung
    third = restore(make(), objects, *again)
    state = third.value_state("number", object)
    third.select_key(3)
    assert state.get() == 7
    assert Trap.sprung > sprung


def test_nothing_expires_while_time_is_held(make: Make, clock: ManualClock) -> None:
    backend = make()
    value = backend.value_state("v", "bigint", ttl=Ttl("1s"))
    elements = backend.list_state("l", "bigint", ttl=Ttl("1s"))
    backend.hold_time(clock.now_ms)
    value.put([1], [1])
    elements.append([1], [1])
    clock.now_ms += 1_000
    assert (plain(value.take([1])), plain(elements.take([1]))) == ([1], [[1]])
    value.put([2], [2])  # at the held time
    backend.hold_time(None)
    assert (plain(value.take([1, 2])), plain(elements.take([1]))) == ([None, None], [[]])


def test_a_state_is_dropped_whether_it_was_declared_or_restored(make: Make, objects: MemoryObjects) -> None:
    backend = make()
    for name in ("kept", "declared", "restored"):
        backend.value_state(name, "bigint").put([1, 2], [1, 2])
    backend.map_state("map", "string", "bigint").put_all([1], ["x"], [1])
    backend.drop_state("declared")
    backend.drop_state("unknown")
    assert plain(backend.value_state("declared", "string").take([1])) == [None]
    again = restore(make(), objects, *save(backend, objects))
    again.drop_state("restored")
    again.drop_state("map")
    once_more = restore(make(), objects, *save(again, objects, 2))
    assert plain(once_more.value_state("kept", "bigint").take([1, 2])) == [1, 2]
    assert plain(once_more.value_state("restored", "string").take([1, 2])) == [None, None]
    assert once_more.map_state("map", "bigint", "string").entries([1])[0].tolist() == []


def test_what_has_expired_leaves_the_database(tmp_path: Path, clock: ManualClock, objects: MemoryObjects) -> None:
    backend = RocksDbBackend(
        "bigint", max_parallelism=128, key_groups=ALL, clock=clock, directory=tmp_path / "db", uid="op"
    )
    state = backend.value_state("v", "bigint", ttl=Ttl("1s"))
    state.put(list(range(100)), list(range(100)))
    save(backend, objects)
    assert len(list(backend.db.keys())) == 100
    clock.now_ms += 600
    state.put([7, 8], [7, 8])
    clock.now_ms += 600
    save(backend, objects, 2)
    assert len(list(backend.db.keys())) == 2
    assert state.take([6, 7, 8]).to_pylist() == [None, 7, 8]
    backend.close()


@pytest.mark.parametrize("kind", ["memory", "rocksdb"])
def test_the_synchronous_part_copies_nothing(tmp_path: Path, clock: ManualClock, kind: str) -> None:
    """Freezing many values must not cost more than freezing few."""
    common: dict[str, Any] = {"max_parallelism": 128, "key_groups": ALL, "clock": clock}
    backend = (
        MemoryBackend("bigint", **common)
        if kind == "memory"
        else RocksDbBackend("bigint", directory=tmp_path / "db", **common)
    )
    keys = pa.array(np.arange(200_000))
    backend.value_state("v", "struct<a:bigint,b:bigint>").put(
        keys, pa.StructArray.from_arrays([keys, keys], names=["a", "b"])
    )
    backend.value_state("o").put(keys, [[1]] * len(keys))
    tracemalloc.start()
    try:
        snapshot = backend.snapshot()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # New flags for changes: a byte for each slot.
    assert peak_bytes < 200_000 + (2 << 20 if kind == "rocksdb" else 0)
    snapshot.release()
    backend.close()


class TestMisuse:
    """Wrong use raises and changes nothing else."""

    def test_a_string_that_is_no_text(self, make: Make, objects: MemoryObjects) -> None:
        backend = make("string")
        state, elements = backend.value_state("s", "string"), backend.list_state("l", "string")
        for key, value in (("a", "A"), ("b", "B")):
            backend.select_key(key)
            state.set(value)
            for add in (state.set, elements.add):
                with pytest.raises(UserCodeError, match="is no value of type"):
                    add("\ud800")
        state.put(["c", "d"], ["C", "D"])
        again = restore(make("string"), objects, *save(backend, objects)).value_state("s", "string")
        assert state.take(["a", "b", "c"]).to_pylist() == again.take(["a", "b", "c"]).to_pylist() == ["A", "B", "C"]

    @pytest.mark.parametrize(
        ("kind", "values"),
        [
            ("boolean", pa.array([5])),
            ("date", pa.array([datetime.datetime(2020, 1, 1, 5)])),
            ("decimal(10,1)", pa.array([0.25])),
            ("string", pa.array([5])),
            ("bigint", pa.array(["5"])),
            ("int", pa.array([2**40])),
            ("timestamp", pa.array([5])),
        ],
    )
    def test_arrow_values_are_not_bent_to_fit(self, make: Make, kind: str, values: pa.Array) -> None:
        state = make().value_state("v", kind)
        with pytest.raises(UserCodeError, match="are no values of type"):
            state.put([1], values)
        if not kind.startswith("decimal"):
            with pytest.raises(UserCodeError, match="not all of it is"):
                make(kind).value_state("v", "int").put(values, [1])

    def test_arrow_values_of_a_like_type_fit(self, make: Make) -> None:
        backend = make()
        for kind, values in (
            ("bigint", pa.array([5], pa.int8())),
            ("double", pa.array([5])),
            ("float", pa.array([0.1])),
        ):
            backend.value_state(kind, kind).put([1], values)
        assert backend.value_state("bigint", "bigint").take([1]).to_pylist() == [5]
        with pytest.raises(UserCodeError, match="not all of it is float"):
            make("float").value_state("v", "int").put(pa.array([0.1, 0.1000000001]), [1, 2])

    @pytest.mark.parametrize("kind", [pa.string_view(), pa.list_(pa.binary_view())])
    def test_views(self, make: Make, kind: pa.DataType) -> None:
        with pytest.raises(ConfigurationError, match="declare string or binary"):
            make().value_state("v", kind)

    def test_nulls_add_nothing(self, make: Make) -> None:
        state = make().reducing_state("r", "bigint", "sum")
        state.add_all([1, 2, 2], pa.array([None, 1, None], pa.int64()))
        assert state.take([1, 2]).to_pylist() == [None, 1]

    @pytest.mark.parametrize(
        ("kind", "reduce"),
        [
            ("boolean", "sum"),
            ("string", "sum"),
            ("boolean", "min"),
            ("struct<a:int>", "max"),
            ("int", None),
            ("int", 5),
        ],
    )
    def test_what_cannot_be_reduced(self, make: Make, kind: str, reduce: Any) -> None:
        with pytest.raises(ConfigurationError, match="cannot reduce by"):
            make().reducing_state("r", kind, reduce)

    def test_not_even_arrays(self, make: Make) -> None:
        backend = make()
        state, anything = backend.value_state("v", "int"), state_any(backend)
        for call in (
            lambda: state.take(5),
            lambda: state.put([1], 5),
            lambda: state.update([1], lambda old, groups: None),
            lambda: anything.put([1], 5),
            lambda: backend.timers().register_all("event", [1], 1),  # type: ignore[arg-type]
            lambda: backend.select(backend.keys([1]), 1),
            lambda: backend.select(backend.keys([1]), -1),
        ):
            with pytest.raises(UserCodeError):
                call()
        with pytest.raises(ConfigurationError, match=r"state 't': .*ttl.*a bare number has no unit"):
            backend.value_state("t", "int", ttl=5)

    def test_long_lists_of_few_keys(self, make: Make) -> None:
        state = make().list_state("l", "int")
        state.append([1, 2] * 500, list(range(1_000)))
        assert state.take([2, 3, 1]).to_pylist() == [list(range(1, 1_000, 2)), [], list(range(0, 1_000, 2))]
        state.delete([1, 3])
        assert [len(found) for found in state.take([1, 2])] == [0, 500]


def state_any(backend: KeyedBackend) -> Any:
    return backend.value_state("any")
