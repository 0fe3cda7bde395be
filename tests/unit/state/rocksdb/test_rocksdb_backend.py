"""The RocksDB backend reads its database only for entries that may be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend


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
