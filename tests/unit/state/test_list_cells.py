"""List states of single keys within a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def test_short_and_long_lists_keep_their_order(backend: KeyedBackend) -> None:
    state = backend.list_state("l", int)
    lengths = [0, 1, MOST_STEPS, 3 * MOST_STEPS]
    keys = backend.keys([10, 11, 12, 13])
    for row, length in enumerate(lengths):
        backend.select(keys, row)
        state.extend(range(length))
    for added in range(3):
        forget(backend)
        for row, length in enumerate(lengths):
            backend.select(keys, row)
            state.add(100 + added)
            expected = [*range(length), *range(100, 101 + added)]
            assert (state.get(), len(state), list(state)) == (expected, len(expected), expected)


def test_to_add_is_not_to_read(backend: KeyedBackend) -> None:
    state = backend.list_state("l", int)
    state.append([1, 2], [1, 2])
    forget(backend)
    keys = backend.keys([1, 2])
    with mock.patch.object(state._table.values, "read") as read:
        for row in (0, 1):
            backend.select(keys, row)
            state.add(5)
            state.extend([])
        backend.select_none()
    assert not read.called
    assert state.take([1, 2]).to_pylist() == [[1, 5], [2, 5]]


def test_lists_that_are_replaced_and_cleared(backend: KeyedBackend) -> None:
    state = backend.list_state("l", "a ARRAY<BIGINT>")
    keys = backend.keys([1, 2, 3])
    for row in range(3):
        backend.select(keys, row)
        state.extend([{"a": [number]} for number in range(3)])
    forget(backend)
    backend.select(keys, 0)
    found = state.get()
    found[0]["a"].append(99)
    assert state.get() == [{"a": [number]} for number in range(3)], "what is handed out is a copy"
    state.set(found[:1])
    backend.select(keys, 1)
    state.clear()
    state.add({"a": []})
    backend.select(keys, 2)
    state.clear()
    forget(backend)
    found = []
    for row in range(3):
        backend.select(keys, row)
        found.append(state.get())
    assert found == [[{"a": [0, 99]}], [{"a": []}], []]


def test_an_element_that_is_refused_changes_nothing(backend: KeyedBackend) -> None:
    state = backend.list_state("l", int)
    backend.select(backend.keys([1, 2]), 0)
    state.add(1)
    calls: list[Callable[[], None]] = [
        lambda: state.add(None),
        lambda: state.extend([2, None]),
        lambda: state.set([2, "x"]),
        lambda: state.add(1.5),
    ]
    for call in calls:
        with pytest.raises(UserCodeError):
            call()
    assert state.get() == [1]
