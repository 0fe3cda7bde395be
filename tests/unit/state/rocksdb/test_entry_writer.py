"""Entries in the database, whether they come through its memory or as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapline.errors import StorageError
from snapline.state.rocksdb import entry_writer
from snapline.state.rocksdb.entry_writer import copy_entries, write_entries
from snapline.state.rocksdb.rocksdb_files import open_database


@pytest.fixture(params=[1, 1_000])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A database that takes everything as files, or nothing."""
    monkeypatch.setattr(entry_writer, "FILE_ENTRIES", request.param)
    made = open_database(tmp_path / "db")
    yield made
    made.close()


def contents(database: Any) -> dict[bytes, bytes]:
    return dict(database.items())


def test_later_entries_replace_and_delete_earlier_ones(database: Any, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch.sst"
    write_entries(database, scratch, 3, iter([([b"a", b"b"], [b"1", b"2"]), ([b"c"], [b""])]))
    write_entries(database, scratch, 3, iter([([b"a", b"b", b"d"], [None, b"22", b"4"])]))
    write_entries(database, scratch, 1, iter([([b"d"], [b"5"])]))
    assert contents(database) == {b"b": b"22", b"c": b"", b"d": b"5"}
    assert not scratch.exists()


def test_entries_are_copied_under_another_number(database: Any, tmp_path: Path) -> None:
    other = open_database(tmp_path / "other")
    for number in range(5):
        other[b"\0\1" + bytes([0, number])] = bytes([number])
    copy_entries(other, b"\0\1\0\1", b"\0\1\0\4", database, 7, tmp_path / "scratch.sst")
    copy_entries(other, b"\0\2", b"\0\3", database, 7, tmp_path / "scratch.sst")
    other.close()
    assert contents(database) == {b"\0\7" + bytes([0, number]): bytes([number]) for number in (1, 2, 3)}


def test_a_file_that_cannot_be_written(database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_writer, "FILE_ENTRIES", 1)
    with pytest.raises(StorageError, match=r"state could not be written to .*missing"):
        write_entries(database, tmp_path / "missing" / "scratch.sst", 1, iter([([b"a"], [b"1"])]))
