"""The current key, and when changes of single keys are written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.selection import Prefetch
from snapline.state.timers import TimeDomain

GROUPS = KeyGroupRange(0, 127)


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    options: dict[str, Any] = {"max_parallelism": 128, "key_groups": GROUPS, "clock": int}
    made: KeyedBackend
    if request.param == "memory":
        made = MemoryBackend("string", **options)
    else:
        made = RocksDbBackend("string", directory=tmp_path / "state", **options)
    yield made
    made.close()


def test_rows_of_one_key_have_one_number_in_the_order_of_first_occurrence(backend: Any) -> None:
    selection = backend.selection
    assert selection.begin(backend.keys(["b", "a", "b", "c", "a"])) == [0, 1, 0, 2, 1]
    assert selection.count == 3
    assert selection.rows([2, 0]).key_hashes.tolist() == backend.keys(["c", "b"]).key_hashes.tolist()


def test_without_a_key_calls_for_one_key_are_refused(backend: Any) -> None:
    value, entries = backend.value_state("v", int), backend.map_state("m", str, int)
    elements, spaced = backend.list_state("l", int), backend.value_state("s", int, namespace="bigint")
    timers = backend.timers()
    backend.select_namespace(1)
    calls = [
        value.get,
        lambda: value.set(1),
        lambda: entries.get("a"),
        lambda: entries.put("a", 1),
        entries.keys,
        elements.get,
        lambda: elements.add(1),
        spaced.get,
        lambda: spaced.set(1),
        lambda: timers.register(TimeDomain.EVENT, 1),
    ]
    keys = backend.keys(["a", "b"])
    backend.select(keys, 0)
    backend.select_none()
    for call in calls:
        with pytest.raises(UserCodeError, match="no key is selected"):
            call()
    with pytest.raises(UserCodeError, match="no row 2 in a batch of 2 keys"):
        backend.select(keys, 2)


def test_changes_are_written_before_another_batch_and_at_the_end(backend: Any) -> None:
    value = backend.value_state("v", int)
    first, second = backend.keys(["a", "b"]), backend.keys(["b", "a"])
    backend.select(first, 0)
    value.set(1)
    backend.select(second, 1)
    assert value.get() == 1
    value.set(2)
    backend.select_none()
    assert value.take(["a", "b"]).to_pylist() == [2, None]


def test_changes_that_are_discarded_never_were(backend: Any) -> None:
    value, entries, elements = backend.value_state("v", int), backend.map_state("m", str, int), backend.list_state("l")
    timers = backend.timers()
    backend.select_key("a")
    value.set(1)
    entries.put("x", 1)
    elements.add([1])
    timers.register(TimeDomain.EVENT, 5)
    backend.select_none()
    backend.select(backend.keys(["a", "b"]), 0)
    value.set(2)
    entries.clear()
    elements.set([])
    timers.delete(TimeDomain.EVENT, 5)
    timers.register(TimeDomain.EVENT, 4)
    backend.selection.discard()
    backend.select_key("a")
    assert (value.get(), entries.items(), elements.get()) == (1, [("x", 1)], [[1]])
    assert timers.next_ms(TimeDomain.EVENT) == 5


def test_a_snapshot_has_the_changes_of_the_current_batch(backend: Any) -> None:
    value = backend.value_state("v", int)
    backend.select_key("a")
    value.set(7)
    snapshot = backend.snapshot()
    assert value._table.freeze().rows(128).num_rows == 1
    snapshot.release()


def test_a_state_that_is_dropped_leaves_no_changes(backend: Any) -> None:
    value = backend.value_state("v", int)
    backend.select_key("a")
    value.set(7)
    backend.drop_state("v")
    backend.select_none()
    again = backend.value_state("v", str)
    assert again.take(["a"]).to_pylist() == [None]


def test_two_handles_of_a_state_see_the_same_values(backend: Any) -> None:
    one, other = backend.value_state("v", int), backend.value_state("v", int, default=5)
    backend.select(backend.keys(["a", "b"]), 0)
    assert (one.get(), other.get()) == (None, 5)
    one.set(3)
    assert other.get() == 3
    assert other.take(["a"]).to_pylist() == [3]
    other.put(["a"], [4])
    assert one.get() == 4


def test_namespaces_of_a_batch_do_not_mix(backend: Any) -> None:
    spaced, floats = (backend.value_state(kind, int, namespace=kind) for kind in ("bigint", "double"))
    keys = backend.keys(["a", "b"])
    for number, namespace in ((0, 1), (1, 1), (0, 2)):
        backend.select(keys, number)
        backend.select_namespace(namespace)
        spaced.set(10 * number + namespace)
    for fraction, value in ((0.0, 1), (-0.0, 2), (float("nan"), 3), (-float("nan"), 4)):
        backend.select_namespace(fraction)
        floats.set(value)
    backend.select_none()
    assert spaced.take(["a", "b", "a", "b"], namespace=[1, 1, 2, 2]).to_pylist() == [1, 11, 2, None]
    assert floats.take(["a", "a"], namespace=pa.array([0.0, float("nan")])).to_pylist() == [2, 4]


def test_fewer_keys_are_fetched_at_once_if_they_are_large() -> None:
    prefetch = Prefetch()
    many: Any = SimpleNamespace(count=10_000)

    def keys() -> int:
        return len(prefetch.owners(many, 0, ()))

    first = keys()
    prefetch.fetched(100)
    assert keys() == 2 * first
    prefetch.fetched(100 << 20)
    assert keys() == first
    assert prefetch.is_full
    assert prefetch.owners(many, 9_998, {9_999}) == [9_998]
