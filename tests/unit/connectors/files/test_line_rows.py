from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from snapline.connectors.files import line_rows
from snapline.connectors.files.file_formats import open_rows

SCHEMA = pa.schema([("value", pa.string())])


def lines(path: Path, position: int | None = None) -> list[str]:
    rows = open_rows(str(path), "text", SCHEMA, None, position)
    found: list[str] = []
    while isinstance(batch := rows.read(), pa.RecordBatch):
        found += batch.column(0).to_pylist()
        assert rows.position == (len(found) + (position or 0))
    rows.close()
    return found


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_lines_end_as_in_spark_wherever_blocks_end(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_rows, "_BLOCK_BYTES", block)
    path = tmp_path / "file.txt"
    path.write_bytes("one\r\ntwo\n\nfour\rfünf\x85x\nlast".encode())
    every = ["one", "two", "", "four", "fünf\x85x", "last"]
    assert lines(path) == every
    assert lines(path, 4) == every[4:]
    assert lines(path, 6) == []


def test_other_bytes_are_replaced_and_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file.txt.gz"
    path.write_bytes(gzip.compress(b"a\xff\nb\n"))
    assert lines(path) == ["a�", "b"]
    (tmp_path / "empty.txt").write_bytes(b"")
    assert lines(tmp_path / "empty.txt") == []


def test_a_parser_makes_rows_of_all_lines_but_the_first(tmp_path: Path) -> None:
    def parse(lines: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([int(line.as_py()) for line in lines])], schema=schema)

    path = tmp_path / "file.txt"
    path.write_bytes(b"\xef\xbb\xbfn\n1\n2\n3\n")
    schema = pa.schema([("n", pa.int64())])
    for position, expected in ((None, [1, 2, 3]), (3, [3])):
        rows = open_rows(str(path), "text", schema, None, position, parse=parse)
        assert rows.read() == pa.RecordBatch.from_pydict({"n": expected})
        assert rows.position == 4
    assert lines(path) == ["n", "1", "2", "3"]
