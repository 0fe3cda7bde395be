"""Map states of single keys within a batch: short maps are fetched whole, long ones by entry."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from snapline.errors import UserCodeError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.map_tables import MOST_STEPS
from snapline.state.memory_backend import MemoryBackend
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend

OPTIONS: dict[str, Any] = {"max_parallelism": 128, "key_groups": KeyGroupRange(0, 127), "clock": int}


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyedBackend]:
    made: KeyedBackend
    if request.param == "memory":
        made = MemoryBackend("bigint", **OPTIONS)
    else:
        made = RocksDbBackend("bigint", directory=tmp_path / "state", **OPTIONS)
    yield made
    made.close()


def forget(backend: KeyedBackend) -> None:
    """Have the next calls read what was written."""
    backend.select_none()
    if isinstance(backend, RocksDbBackend):
        backend.evict()


LENGTHS = {0: 0, 1: 1, 2: MOST_STEPS, 3: MOST_STEPS + 1, 4: 3 * MOST_STEPS}


def test_short_and_long_maps_of_a_batch(backend: KeyedBackend) -> None:
    state = backend.map_state("m", str, int)
    for key, length in LENGTHS.items():
        state.put_all([key] * length, [f"{number}" for number in range(length)], list(range(length)))
    forget(backend)
    keys = backend.keys(list(LENGTHS))
    for is_second in (False, True):
        for row, length in LENGTHS.items():
            backend.select(keys, row)
            assert state.get("0") == (0 if length or is_second else None)
            assert state.get("nowhere", -1) == -1
            assert f"{length - 1}" in state or not length
            state.put("new", row)
            state.remove("0")
            assert (state.get("new"), state.get("0"), "0" in state) == (row, None, False)
            state.put("0", 0)
        forget(backend)
    for row, length in LENGTHS.items():
        backend.select(keys, row)
        found = {f"{number}": number for number in range(length)} | {"0": 0, "new": row}
        assert dict(state.items()) == found
        assert (len(state), set(state), sorted(state.values())) == (len(found), set(found), sorted(found.values()))


def test_long_maps_are_not_fetched_to_read_an_entry(backend: KeyedBackend) -> None:
    state = backend.map_state("m", int, int)
    many = 10 * MOST_STEPS
    state.put_all([1] * many + [2] * many, [*range(many)] * 2, [*range(many)] * 2)
    forget(backend)
    keys = backend.keys([1, 2])
    table = state._table
    with mock.patch.object(table.values, "read", wraps=table.values.read) as read:
        for row in (0, 1, 0):
            backend.select(keys, row)
            assert state.get(many - 1) == many - 1
        assert sum(len(call.args[0]) for call in read.call_args_list) <= 2 * MOST_STEPS


def test_entries_that_come_and_go_do_not_make_walks_longer(backend: KeyedBackend) -> None:
    state = backend.map_state("m", int, "a BIGINT")
    keys = backend.keys([1, 2])
    for number in range(5 * MOST_STEPS):
        backend.select(keys, number % 2)
        state.put(number, {"a": number})
        assert len(state) <= 3
        if number >= 4:
            backend.select(keys, number % 2)
            state.remove(number - 4)
        # Each round is a batch of its own.
        keys = backend.keys([1, 2])
    backend.select(keys, 1)
    last = 5 * MOST_STEPS - 1
    assert sorted(state.keys()) == [last - 2, last]
    _, entries, is_long = state._table.walk_short(backend.keys([1, 2]))
    assert (len(entries), is_long.tolist()) == (4, [False, False])
    # An entry that was removed and unlinked comes back.
    backend.select(backend.keys([2, 1]), 0)
    state.put(1, {"a": -1})
    backend.select(backend.keys([1, 2]), 1)
    assert sorted(state.keys()) == [1, last - 2, last]


def test_a_cleared_map_has_only_what_is_put_after(backend: KeyedBackend) -> None:
    state = backend.map_state("m", str, int)
    state.put_all([1, 1, 2], ["a", "b", "a"], [1, 2, 3])
    keys = backend.keys([1, 2])
    backend.select(keys, 0)
    state.put("c", 3)
    state.clear()
    assert (len(state), state.get("a")) == (0, None)
    state.put("b", 9)
    assert state.items() == [("b", 9)]
    forget(backend)
    backend.select_key(1)
    assert state.items() == [("b", 9)]
    assert state.take([2], ["a"]).to_pylist() == [3]


DAY = datetime.date(2026, 1, 2)
KEYS: dict[str, list[tuple[Any, Any]]] = {
    "double": [(0.0, 0.0), (-0.0, 0.0), (1.5, 1.5)],
    "boolean": [(True, True), (False, False)],
    "binary": [(b"x", b"x")],
    "date": [(DAY, DAY)],
    "a BIGINT, b STRING": [((1, "x"), {"a": 1, "b": "x"}), ({"a": 1, "b": "x"}, {"a": 1, "b": "x"})],
    "int": [(1, 1), (1.0, 1)],
}


@pytest.mark.parametrize("kind", list(KEYS))
def test_map_keys_of_every_type(backend: KeyedBackend, kind: str) -> None:
    state, expected = backend.map_state("m", kind, str), {}
    keys = backend.keys([1, 2])
    for given, stored in KEYS[kind]:
        backend.select(keys, 0)
        state.put(given, repr(stored))
        expected[repr(stored)] = stored
        assert state.get(given) == repr(stored)
    for _ in range(2):
        assert {repr(key): value for key, value in state.items()} == {name: name for name in expected}
        forget(backend)
        backend.select(keys, 0)


@pytest.mark.parametrize("wrong", [None, 2**40, "x", 1.5, [1]])
def test_map_keys_of_another_type_are_refused(backend: KeyedBackend, wrong: Any) -> None:
    state = backend.map_state("m", "int", int)
    backend.select(backend.keys([1, 2]), 0)
    for call in (lambda: state.get(wrong), lambda: state.put(wrong, 1), lambda: state.remove(wrong)):
        with pytest.raises(UserCodeError):
            call()
    assert state.items() == []
