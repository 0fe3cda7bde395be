"""Lists and maps with many entries per key: long chains are looked up at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend

ELEMENTS = 700
"""More than the steps that are followed along a chain."""


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyedBackend]:
    settings: dict[str, Any] = {"max_parallelism": 8, "key_groups": KeyGroupRange(0, 7), "clock": lambda: 0}
    made: KeyedBackend = (
        MemoryBackend(pa.int64(), **settings)
        if request.param == "memory"
        else RocksDbBackend(pa.int64(), directory=tmp_path / "db", **settings)
    )
    yield made
    made.close()


@pytest.mark.parametrize("keys", [1, 3, 40])
def test_lists_are_read_in_order_and_cleared(backend: KeyedBackend, keys: int) -> None:
    state = backend.list_state("numbers", pa.int64())
    for start in range(0, ELEMENTS, 100):
        rows = [
            (key, number) for number in range(start, start + 100) for key in range(keys) if key % 2 == 0 or number < 5
        ]
        state.append([key for key, _ in rows], pa.array([number for _, number in rows]))
    asked = [*range(keys), 0, 999]
    found = state.take(asked).to_pylist()
    expected = [list(range(ELEMENTS if key % 2 == 0 else 5)) for key in range(keys)]
    assert found == [*expected, expected[0], []]
    backend.select_key(0)
    assert state.get() == expected[0]
    state.delete([0])
    assert state.get() == []
    assert sum(map(len, state.take(list(range(keys))).to_pylist())) == sum(map(len, expected)) - ELEMENTS
    state.append([0], pa.array([7]))
    assert state.get() == [7]


def test_maps_that_were_cleared_and_filled_again(backend: KeyedBackend) -> None:
    state = backend.map_state("map", pa.int64(), pa.int64())
    for value in (1, 2):
        state.put_all([5] * ELEMENTS, pa.array(range(ELEMENTS)), pa.array([value] * ELEMENTS))
        state.put_all([6] * 3, pa.array(range(3)), pa.array([value] * 3))
        backend.select_key(5)
        assert sorted(state.items()) == [(number, value) for number in range(ELEMENTS)]
        state.remove(3)
        assert len(state) == ELEMENTS - 1
        state.delete([5])
        assert len(state) == 0
    backend.select_key(6)
    assert sorted(state.items()) == [(number, 2) for number in range(3)]
