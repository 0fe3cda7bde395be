"""Reading entries that are not in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend


@pytest.mark.parametrize("key", ["bigint", "string", "struct<a:bigint,b:string>"])
def test_some_keys_exist_and_some_do_not(tmp_path: Path, key: str) -> None:
    backend = RocksDbBackend(
        key, max_parallelism=8, key_groups=KeyGroupRange(0, 7), clock=lambda: 0, directory=tmp_path / "db"
    )

    def keys(*numbers: int) -> list[object]:
        made: dict[str, Any] = {"bigint": lambda n: n - 50, "string": lambda n: f"{n:03}" * (n % 90)}
        return [made.get(key, lambda n: {"a": n % 7, "b": str(n)})(number) for number in numbers]

    values, maps = backend.value_state("v", "string"), backend.map_state("m", "string", "bigint")
    even = list(range(2, 100, 2))
    values.put(keys(*even), [str(number) for number in even])
    maps.put_all(keys(*even, *even), ["a"] * len(even) + ["b"] * len(even), [*even, *even])
    backend.evict()
    assert values.take(keys(*range(2, 100))).to_pylist() == [str(n) if n % 2 == 0 else None for n in range(2, 100)]
    assert values.take(keys(*even[::-1])).to_pylist() == [str(number) for number in even[::-1]]
    rows, inner, found = maps.entries(keys(4, 5, 6))
    assert (rows.tolist(), inner.to_pylist(), found.to_pylist()) == ([0, 0, 2, 2], ["a", "b"] * 2, [4, 4, 6, 6])
    backend.close()
