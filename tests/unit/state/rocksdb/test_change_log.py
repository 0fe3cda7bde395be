"""Files of changes: what is written comes back, and what is no such file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import DamagedError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.rocksdb.change_log import read_changes, write_changes
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend


@pytest.fixture
def backend(tmp_path: Path) -> Any:
    made = RocksDbBackend(
        "string", max_parallelism=8, key_groups=KeyGroupRange(0, 7), clock=lambda: 7, directory=tmp_path / "db"
    )
    yield made
    made.close()


def frozen(backend: RocksDbBackend) -> list[Any]:
    states = backend._states.values()
    return [(number, state.values.kind.stored, state.values.freeze_changes()) for number, state in enumerate(states)]


def test_changes_come_back_in_order(backend: RocksDbBackend, tmp_path: Path) -> None:
    values = backend.value_state("v", "struct<a:bigint,b:string>")
    maps = backend.map_state("m", "bigint", "string", ttl="1s", namespace="date")
    objects = backend.value_state("o")
    values.put(["x", "y"], [{"a": 1, "b": None}, {"a": 2, "b": "t"}])
    maps.put_all(["x"], [5], ["five"], namespace=[np.datetime64("2026-01-05").item()])
    objects.put(["x"], [[1]])
    assert write_changes(tmp_path / "one", frozen(backend)) == 4
    values.delete(["x"])
    assert write_changes(tmp_path / "two", frozen(backend)) == 1
    assert write_changes(tmp_path / "three", frozen(backend)) == 0
    assert not (tmp_path / "three").exists()
    first, second, third = read_changes(tmp_path / "one", "one")
    assert (first[0], first[1].to_pylist()) == (
        0,
        [{"key": "x", "value": {"a": 1, "b": None}}, {"key": "y", "value": {"a": 2, "b": "t"}}],
    )
    assert (second[0], second[1].column_names) == (1, ["key", "namespace", "map_key", "value", "last_update_ms"])
    assert second[1].drop_columns("namespace").to_pylist() == [
        {"key": "x", "map_key": 5, "value": "five", "last_update_ms": 7}
    ]
    assert (third[0], third[1].column("value").type) == (2, pa.binary())
    assert [table.to_pylist() for _, table in read_changes(tmp_path / "two", "two")] == [[{"key": "x", "value": None}]]


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_a_damaged_file_is_named(backend: RocksDbBackend, tmp_path: Path, cut: float) -> None:
    backend.value_state("v", "bigint").put(["x", "y"], [1, 2])
    write_changes(tmp_path / "one", frozen(backend))
    data = (tmp_path / "one").read_bytes()
    (tmp_path / "one").write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(DamagedError, match="memory://one is damaged"):
        list(read_changes(tmp_path / "one", "memory://one"))
