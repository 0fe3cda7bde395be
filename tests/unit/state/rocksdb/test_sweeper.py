"""Expired entries leave the database, some at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from snapline.state.rocksdb import sweeper
from snapline.state.rocksdb.rocksdb_files import StateEntry, open_database
from snapline.state.rocksdb.row_codec import head, stamp
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding


def entry(ttl_ms: int | None) -> StateEntry:
    info = StateInfo("op", "n", StateKind.VALUE, 8, ValueEncoding.ARROW, ttl_ms)
    return StateEntry(3, info, pa.schema([("key", pa.int64()), ("value", pa.int64())]))


def test_it_goes_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "SWEPT_ENTRIES", 4)
    database = open_database(tmp_path / "db")
    for number, value in enumerate(stamp([b"x"] * 10, np.arange(10))):
        database[head(3, number)] = value
    database[head(4, 0)] = stamp([b"other state"], np.array([0]))[0]
    made = sweeper.Sweeper()
    left = []
    for now_ms in (10, 10, 10, 12):
        made.sweep(database, entry(5), now_ms)
        left.append(len(list(database.keys())))
    assert left == [7, 5, 5, 3], "times 0 to 5 have expired; the next round begins anew, and finds 6 and 7"
    made.sweep(database, entry(None), 1_000)
    assert len(list(database.keys())) == 3
    database.close()
