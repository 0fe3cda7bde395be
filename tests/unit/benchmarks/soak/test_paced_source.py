"""A source that reads as far as a file allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.soak.paced_source import Limit, Paced

from snapline.contracts.source import SourceReader, Wait

SCHEMA = pa.schema([("id", pa.int64())])
BLOCK = 10


def numbers(start: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(start, start + count), pa.int64())], schema=SCHEMA)


def paced(file: Path, rows_each: int = 1) -> Paced:
    return Paced(
        numbers, str(file), schema=SCHEMA, rows_per_second=1e9, splits=2, batch_rows=BLOCK, rows_each=rows_each
    )


def reader_of(source: Paced, positions: dict[int, int] | None = None) -> SourceReader:
    unused: Any = None
    reader = source.reader(unused)
    for number, split in enumerate(source.splits(2)):
        reader.add_split(split, (positions or {}).get(number))
    return reader


def read_all(reader: SourceReader, wanted: int | None = None) -> list[int]:
    """All ids up to the end, or until so many have come."""
    ids: list[int] = []
    while wanted is None or len(ids) < wanted:
        got = reader.read()
        if got is None:
            break
        if isinstance(got, pa.RecordBatch):
            ids += got["id"].to_pylist()
    return ids


def test_nothing_is_read_before_there_is_a_limit(tmp_path: Path) -> None:
    reader = reader_of(paced(tmp_path / "limit"))
    assert all(isinstance(reader.read(), Wait) for _ in range(5))


def test_it_reads_up_to_the_limit_and_ends_at_the_last_one(tmp_path: Path) -> None:
    limit = Limit(tmp_path / "limit")
    limit.set(2 * BLOCK)
    reader = reader_of(paced(tmp_path / "limit"))
    assert sorted(read_all(reader, 2 * BLOCK)) == list(range(2 * BLOCK))
    assert isinstance(reader.read(), Wait)
    limit.set(6 * BLOCK, is_last=True)
    assert sorted(read_all(reader)) == list(range(2 * BLOCK, 6 * BLOCK))
    assert reader.read() is None


def test_a_restored_reader_ends_at_the_same_row(tmp_path: Path) -> None:
    Limit(tmp_path / "limit").set(4 * BLOCK, is_last=True)
    reader = reader_of(paced(tmp_path / "limit"), {0: BLOCK + 3, 1: 2 * BLOCK})
    assert sorted(read_all(reader)) == list(range(2 * BLOCK + 3, 3 * BLOCK))


def test_a_row_may_stand_for_several(tmp_path: Path) -> None:
    Limit(tmp_path / "limit").set(8 * BLOCK, is_last=True)
    assert sorted(read_all(reader_of(paced(tmp_path / "limit", rows_each=2)))) == list(range(4 * BLOCK))


def test_a_limit_is_read_as_it_was_set(tmp_path: Path) -> None:
    limit = Limit(tmp_path / "limit")
    assert limit.get() == (0, False)
    limit.set(400)
    assert limit.get() == (400, False)
    limit.set(800, is_last=True)
    assert limit.get() == (800, True)
