"""Value states of single keys within a batch: fetched together, written together, exact expiry."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from snapline.errors import UserCodeError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state import selection
from snapline.state.memory_backend import MemoryBackend
from snapline.state.ttl import Ttl
from snapline.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def backend(clock: ManualClock) -> MemoryBackend:
    return MemoryBackend("bigint", max_parallelism=128, key_groups=KeyGroupRange(0, 127), clock=clock)


def test_the_keys_of_a_batch_are_fetched_and_written_together(backend: MemoryBackend) -> None:
    state = backend.value_state("v", int)
    numbers = list(range(100))
    state.put(numbers, numbers)
    keys = backend.keys(numbers)
    table = state._table
    with (
        mock.patch.object(table, "read", wraps=table.read) as read,
        mock.patch.object(table, "write", wraps=table.write) as write,
    ):
        for row in numbers:
            backend.select(keys, row)
            state.set(state.get() + 1)
        assert not write.called
        backend.select_none()
    assert read.call_count == 2, "64 keys first, then twice as many"
    assert write.call_count == 1
    assert state.take(numbers).to_pylist() == [number + 1 for number in numbers]


def test_what_was_set_is_not_overwritten_by_what_is_fetched(backend: MemoryBackend) -> None:
    state = backend.value_state("v", int)
    state.put([1, 2], [10, 20])
    keys = backend.keys([1, 2])
    backend.select(keys, 1)
    state.set(None)
    backend.select(keys, 0)
    assert state.get() == 10
    backend.select(keys, 1)
    assert state.get() is None


def test_a_value_of_another_type_is_refused_at_once_and_changes_nothing(backend: MemoryBackend) -> None:
    state = backend.value_state("v", "a INT, b ARRAY<STRING>")
    backend.select(backend.keys([1, 2]), 0)
    state.set({"a": 1, "b": ["x"]})
    for wrong in ({"a": 1.5, "b": []}, {"a": 2**31, "b": []}, {"a": 1, "c": []}, 7):
        with pytest.raises(UserCodeError, match="is no value of type struct"):
            state.set(wrong)
    assert state.get() == {"a": 1, "b": ["x"]}


@pytest.mark.parametrize("refresh", [False, True])
def test_values_expire_within_a_batch_too(backend: MemoryBackend, clock: ManualClock, refresh: bool) -> None:
    state = backend.value_state("v", int, ttl=Ttl("100ms", refresh_on_read=refresh))
    keys = backend.keys([1, 2, 3])
    for row in range(3):
        backend.select(keys, row)
        state.set(row)
    clock.now_ms += 60
    backend.select(keys, 0)
    assert state.get() == 0
    backend.select(keys, 1)
    state.set(5)
    clock.now_ms += 60
    found = []
    for row in range(3):
        backend.select(keys, row)
        found.append(state.get())
    assert found == [0 if refresh else None, 5, None]


def test_much_is_not_kept_until_the_end_of_the_batch(backend: MemoryBackend) -> None:
    state: Any = backend.value_state("v", str)
    numbers = list(range(40))
    state.put(numbers, ["x" * 1000] * 40)
    keys = backend.keys(numbers)
    limits: dict[str, Any] = {"_MOST_BYTES": 10_000, "_SMALL_BYTES": 5_000, "_FIRST_PREFETCHED": 4}
    with mock.patch.multiple(selection, **limits):
        # The number of keys fetched at once is set when the state is declared.
        state._cells.prefetch = selection.Prefetch()
        for row in numbers:
            backend.select(keys, row)
            state.set(state.get() + "y")
            assert len(state._cells.values) <= 20
    backend.select_none()
    assert state.take(numbers).to_pylist() == ["x" * 1000 + "y"] * 40


def test_neither_keys_nor_lengths_keep_entries_alive_but_reading_them_does(
    backend: MemoryBackend, clock: ManualClock
) -> None:
    ttl = Ttl("100ms", refresh_on_read=True)
    entries, elements = backend.map_state("m", str, int, ttl=ttl), backend.list_state("l", int, ttl=ttl)
    keys = backend.keys([1, 2, 3])
    for row in range(3):
        backend.select(keys, row)
        entries.put("a", row)
        elements.add(row)
    clock.now_ms += 60
    backend.select(keys, 0)
    assert (len(entries), entries.keys(), len(elements)) == (1, ["a"], 1)
    backend.select(keys, 1)
    assert (entries.items(), elements.get()) == ([("a", 1)], [1])
    clock.now_ms += 60
    found = []
    for row in range(3):
        backend.select(keys, row)
        found.append((len(entries), len(elements)))
    assert found == [(0, 0), (1, 1), (0, 0)]
