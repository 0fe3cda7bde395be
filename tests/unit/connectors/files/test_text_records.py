"""Text files record by record, whatever is in them."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.connectors.files import text_records
from snapline.connectors.files.text_records import ObjectLines, TextRecords, is_damage, records
from snapline.contracts.source import BadRow, Wait

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.string())])


def split(data: bytes, format: str) -> list[tuple[int, bytes]]:
    return [(record.line, record.data) for record in records(io.BytesIO(data), format)]


@pytest.fixture(params=[1, 3, 7, 1 << 16])
def _chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_records, "_CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a,b", [(1, b"a,b")]),
        (b"a,b\n\nc,d\r\n\r\ne,f\rg\n", [(1, b"a,b\n"), (3, b"c,d\r\n"), (5, b"e,f\r"), (6, b"g\n")]),
        (b'"a\nb",1\n"c""\n""d",2\ne\n', [(1, b'"a\nb",1\n'), (3, b'"c""\n""d",2\n'), (5, b"e\n")]),
        (b'5" pipe,3\n"a\nb",4\n', [(1, b'5" pipe,3\n'), (2, b'"a\nb",4\n')]),
        (b'"a"b,1\n"c"\n', [(1, b'"a"b,1\n'), (2, b'"c"\n')]),
        (b",,\n ,\n", [(1, b",,\n"), (2, b" ,\n")]),
        (b"\xef\xbb\xbfa,b\n1,2\n", [(1, b"a,b\n"), (2, b"1,2\n")]),
    ],
)
def test_csv_is_split_as_arrow_does(data: bytes, expected: list[tuple[int, bytes]]) -> None:
    assert split(data, "csv") == expected


@pytest.mark.usefixtures("_chunks")
def test_a_quote_that_is_never_closed_spoils_its_line_only() -> None:
    found = list(records(io.BytesIO(b'a,b\n1,"x\n2,y\n3,z'), "csv"))
    assert [(record.line, record.data, record.is_broken) for record in found] == [
        (1, b"a,b\n", False),
        (2, b'1,"x\n', True),
        (3, b"2,y\n", False),
        (4, b"3,z", False),
    ]


def test_a_quote_is_looked_for_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_records, "_MAX_RECORD_BYTES", 50)
    monkeypatch.setattr(text_records, "_CHUNK_BYTES", 20)
    data = b'1,"x\n' + b"2,y\n" * 50 + b'3,"z"\n'
    found = list(records(io.BytesIO(data), "csv"))
    assert [record.is_broken for record in found] == [True] + [False] * 51


@pytest.mark.usefixtures("_chunks")
def test_lines_of_json() -> None:
    assert split(b'{"x":1}\n \n{"x":2}\r\n{"x":', "jsonl") == [(1, b'{"x":1}\n'), (3, b'{"x":2}\r\n'), (4, b'{"x":')]
    long = b'{"y":"' + b"z" * 300 + b'"}\n'
    assert split(long * 2, "jsonl") == [(1, long), (2, long)]


def read(data: bytes, format: str, position: int = 0) -> tuple[list[dict[str, Any]], list[BadRow], int]:
    bad: list[BadRow] = []
    reader = TextRecords(f"it.{format}", format, SCHEMA, io.BytesIO(data), position, bad.append)
    rows: list[dict[str, Any]] = []
    while (given := reader.read()) is not None:
        rows += [] if isinstance(given, Wait) else given.to_pylist()
    return rows, bad, reader.position


CSV = b'y,z,x\na,0,1\nb,0,oops\n"c\nc",0,3\nd,0\ne,0,5,6\n\xff,0,6\n,,\ng,0,"7\nh,0,8\n'


def test_bad_records_of_csv_are_reported_with_their_lines() -> None:
    rows, bad, position = read(CSV, "csv")
    assert rows == [{"x": 1, "y": "a"}, {"x": 3, "y": "c\nc"}, {"x": None, "y": None}, {"x": 8, "y": "h"}]
    assert [(item.line, item.text, item.file) for item in bad] == [
        (3, "b,0,oops", "it.csv"),
        (6, "d,0", "it.csv"),
        (7, "e,0,5,6", "it.csv"),
        (8, "\\xff,0,6", "it.csv"),
        (10, 'g,0,"7', "it.csv"),
    ]
    assert str(bad[0].error) == (
        "the file 'it.csv', line 3, column 'x', cannot be read as csv: CSV conversion error to int64: "
        "invalid value 'oops'; check the file, for the line 'b,0,oops'"
    )
    assert "a quote is not closed" in str(bad[4].error)
    assert position == 9


JSON = (
    b'{"x":1,"y":"a","z":[1]}\n'
    b'{"x":1.5,"y":"b"}\n'
    b'{"x":"3"}\n'
    b"\n"
    b'{"y":"d"}\n'
    b'{"x":5\n'
    b'{"x":6}{"x":7}\n'
    b"8\n"
    b'{"x":9,"y":9}\n'
    b"{}\n"
    b'{"x":11'
)


def test_bad_lines_of_json_are_reported() -> None:
    rows, bad, position = read(JSON, "jsonl")
    assert rows == [{"x": 1, "y": "a"}, {"x": None, "y": "d"}, {"x": None, "y": None}]
    assert [item.line for item in bad] == [2, 3, 6, 7, 8, 9, 11]
    assert bad[2].text == '{"x":5'
    assert str(bad[-1].error).startswith("the file 'it.jsonl', line 11, cannot be read as jsonl: ")
    assert position == 10


@pytest.mark.parametrize(("data", "format", "count"), [(CSV, "csv", 9), (JSON, "jsonl", 10)])
def test_any_position_can_be_resumed(data: bytes, format: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, bad, _ = read(data, format)
    monkeypatch.setattr(text_records, "_RECORDS", 2)
    for position in range(count + 1):
        after, bad_after, end = read(data, format, position)
        assert rows[len(rows) - len(after) :] == after
        assert [item.line for item in bad[len(bad) - len(bad_after) :]] == [item.line for item in bad_after]
        assert len(after) + len(bad_after) == count - position
        assert end == count


def test_what_a_damaged_file_still_has_is_read(tmp_path: Path) -> None:
    numbers = "".join(f"{number},t\n" for number in range(200_000))
    whole = gzip.compress(f"x,y\n{numbers}".encode())
    (tmp_path / "it.csv.gz").write_bytes(whole[: len(whole) // 2])
    stream = pa.CompressedInputStream(pa.OSFile(str(tmp_path / "it.csv.gz")), "gzip")
    bad: list[BadRow] = []
    reader = TextRecords("it.csv.gz", "csv", SCHEMA, stream, 0, bad.append)
    found: list[int] = []
    while (given := reader.read()) is not None:
        assert isinstance(given, pa.RecordBatch)
        found += given["x"].to_pylist()
    assert found == list(range(len(found)))
    assert 10_000 < len(found) < 190_000
    ((rest),) = bad
    assert (rest.text, rest.line) == (None, None)
    assert f"after line {len(found) + 1}, cannot be read as csv" in str(rest.error)


def test_storage_is_not_to_be_blamed_on_the_content() -> None:
    assert is_damage(OSError("Truncated compressed stream"))
    assert not is_damage(OSError(5, "Input/output error"))
    assert not is_damage(FileNotFoundError("it.csv"))


@pytest.mark.parametrize("text", ["null\n", '{"a": 1}\n  null\n', "\nnull"])
def test_a_line_with_null_never_reaches_arrow(text: str) -> None:
    """Arrow takes it for an object, or crashes."""
    lines = ObjectLines(pa.BufferReader(text.encode()))
    with pytest.raises(pa.ArrowInvalid, match="a line is null"):
        list(iter(lambda: lines.read(3), b""))


def test_null_inside_objects_and_texts_is_fine() -> None:
    text = b'{"a": null, "null": 1,\n "b": "x\\nnull"}\n{"nullable": 2}\n'
    lines = ObjectLines(pa.BufferReader(text))
    assert b"".join(iter(lambda: lines.read(4), b"")) == text
