"""The cache of the RocksDB backend: what it reads, what it drops, and how much memory it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.rocksdb.state_memory import StateMemory


def backend(directory: Path, **options: Any) -> RocksDbBackend:
    return RocksDbBackend(
        pa.int64(),
        max_parallelism=8,
        key_groups=KeyGroupRange(0, 7),
        clock=lambda: 0,
        directory=directory,
        **options,
    )


def is_whole(state_of: RocksDbBackend) -> bool:
    return state_of.has_everything_cached


def test_what_was_evicted_is_found_again(tmp_path: Path) -> None:
    state_of = backend(tmp_path / "db", max_cached_entries=10)
    values, lists = state_of.value_state("values", pa.int64()), state_of.list_state("lists", pa.int64())
    assert is_whole(state_of)
    for start in range(0, 60, 6):
        keys = state_of.keys(pa.array(range(start, start + 6)))
        values.put(keys, pa.array(range(start, start + 6)))
        lists.append(keys, pa.array(range(start, start + 6)))
    assert not is_whole(state_of)
    assert values.take(pa.array(range(61))).to_pylist() == [*range(60), None]
    assert lists.take(pa.array(range(61))).to_pylist() == [*([number] for number in range(60)), []]
    state_of.close()


def test_nothing_is_asked_for_before_that(tmp_path: Path) -> None:
    state_of = backend(tmp_path / "db")
    values = state_of.value_state("values", pa.int64())
    values.put(pa.array([1, 2]), pa.array([10, 20]))
    assert values.take(pa.array([1, 2, 3])).to_pylist() == [10, 20, None]
    assert is_whole(state_of)
    assert not (tmp_path / "db" / "db").exists(), "the database was not even opened"
    state_of.close()


def test_what_is_hot_stays_in_the_cache(tmp_path: Path) -> None:
    state_of = backend(tmp_path / "db", max_cached_entries=400)
    values, maps = state_of.value_state("values", pa.int64()), state_of.map_state("maps", pa.int64(), pa.int64())
    hot = list(range(20))
    for start in range(100, 1300, 60):
        keys = [*hot, *range(start, start + 60)]
        values.put(keys, keys)
        maps.put_all(keys, keys, keys)
    assert not is_whole(state_of)
    state_of.db.close()  # reading anything more would fail
    assert values.take(pa.array(hot)).to_pylist() == hot
    assert maps.take(pa.array(hot), pa.array(hot)).to_pylist() == hot
    with pytest.raises(Exception, match="closed"):
        values.take(pa.array([100]))


def test_eviction_writes_only_what_changed_and_leaves(tmp_path: Path) -> None:
    state_of = backend(tmp_path / "db", max_cached_entries=100)
    values = state_of.value_state("values", pa.int64())
    values.put(pa.array(range(90)), pa.array(range(90)))
    values.put(pa.array(range(80, 95)), pa.array(range(80, 95)))
    values.put(pa.array(range(95, 120)), pa.array(range(95, 120)))
    values.take(pa.array([119]))
    stored = len(list(state_of.db.keys()))
    assert 0 < stored < 120 - 25, "the hottest are only in the cache"
    assert values.take(pa.array(range(121))).to_pylist() == [*range(120), None]
    state_of.close()


def test_tables_stay_within_the_memory_they_share(tmp_path: Path) -> None:
    memory = StateMemory(4 << 20)
    made = [backend(tmp_path / f"db-{number}", memory=memory) for number in range(2)]
    states = [one.value_state("text", "string") for one in made]
    rows = 5_000
    for start in range(0, 10 * rows, rows):
        for state in states:
            keys = pa.array(range(start, start + rows))
            state.put(keys, [f"{number:050}" for number in range(start, start + rows)])
            assert sum(space.nbytes for one in made for space in one._spaces.values()) < memory.limit_bytes
    assert not any(is_whole(one) for one in made)
    for state in states:
        assert state.take([0, 10 * rows - 1, 10 * rows]).to_pylist() == [f"{0:050}", f"{10 * rows - 1:050}", None]
    for one in made:
        one.close()
    assert memory.used_bytes < 1 << 20
