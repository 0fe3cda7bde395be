"""The listing of a database's files, and reading states from a database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import DamagedError, RestoreError, StorageError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.batch_keys import KeyTypes
from snapline.state.rocksdb import rocksdb_files
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.rocksdb.rocksdb_files import (
    Listing,
    StateEntry,
    decode_listing,
    encode_listing,
    open_database,
    read_state,
)
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding

INFO = StateInfo("op", "n", StateKind.VALUE, 8, ValueEncoding.ARROW, 60)
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])


def test_a_listing_comes_back() -> None:
    data = encode_listing(Listing([StateEntry(3, INFO, SCHEMA)], 17), ["1.sst", "CURRENT"])
    assert list(json.loads(data)["states"][0]) == [
        "id",
        "uid",
        "state",
        "kind",
        "encoding",
        "max_parallelism",
        "ttl_ms",
        "schema",
    ]
    assert decode_listing(data, "x") == Listing([StateEntry(3, INFO, SCHEMA)], 17, ["1.sst", "CURRENT"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 3}, "x was written by a newer Snapline"),
        ({"changes": ["1.arrow"]}, "x names changes that are not among its files"),
        ({"files": ["../etc"]}, "x lists a file with an impossible name"),
        ({"files": None}, "x does not list the files"),
        ({"states": [{"id": 0}]}, "x does not list the files"),
    ],
)
def test_a_damaged_listing(change: dict[str, Any], problem: str) -> None:
    data = json.loads(encode_listing(Listing([StateEntry(0, INFO, SCHEMA)], 0), []))
    with pytest.raises(DamagedError, match=problem):
        decode_listing(json.dumps(data | change).encode(), "x")


def test_a_state_with_other_keys() -> None:
    entry = StateEntry(0, INFO, SCHEMA)
    assert str(entry.own_shape()) == "value of int64"
    with pytest.raises(RestoreError, match="state 'n' of 'op' was saved with keys of the type string"):
        entry.shape(KeyTypes(pa.int64()))


def test_states_are_read_in_tables_of_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_files, "FILE_ROWS", 4)
    groups = KeyGroupRange(0, 7)
    backend = RocksDbBackend(
        "string", max_parallelism=8, key_groups=groups, clock=lambda: 100, directory=tmp_path / "db"
    )
    backend.value_state("other", "bigint").put(["x"], [1])
    backend.value_state("n", "bigint", ttl="60ms").put([f"key {number}" for number in range(10)], list(range(10)))
    backend.evict()
    (entry,) = [entry for entry in backend.listing().states if entry.info.state == "n"]
    tables = list(read_state(backend.db, entry, groups))
    assert [table.num_rows for table in tables] == [4, 4, 2]
    whole = pa.concat_tables(tables)
    assert whole["key_group"].to_pylist() == sorted(whole["key_group"].to_pylist())
    assert sorted(zip(whole["key"].to_pylist(), whole["value"].to_pylist(), strict=True)) == [
        (f"key {number}", number) for number in range(10)
    ]
    half = read_state(backend.db, entry, KeyGroupRange(0, 3))
    assert {group for table in half for group in table["key_group"].to_pylist()} <= {0, 1, 2, 3}
    expired = read_state(backend.db, entry, groups, now_ms=160)
    assert sum(table.num_rows for table in expired) == 0
    backend.close()


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be opened"):
        open_database(tmp_path / "nothing", read_only=True)
