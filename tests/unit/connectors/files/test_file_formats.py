"""Readers of one file: any position, exact values, and errors that name the file and the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snapline.connectors.files.file_formats import infer_schema, open_rows, row_groups
from snapline.connectors.files.file_rows import FileRows
from snapline.contracts.source import BadRow, Wait
from snapline.errors import ConfigurationError, StorageError, UserCodeError

X = pa.schema([("x", pa.int64())])
TEXT = pa.schema([("x", pa.string()), ("y", pa.string())])


def rows_of(reader: FileRows) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while (given := reader.read()) is not None:
        rows += [] if isinstance(given, Wait) else given.to_pylist()
    reader.close()
    return rows


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_text_and_null_are_told_apart(tmp_path: Path) -> None:
    csv = written(tmp_path / "a.csv", 'x,y\n1,""\n,\nNA,NA\n')
    assert rows_of(open_rows(csv, "csv", TEXT)) == [
        {"x": "1", "y": ""},
        {"x": None, "y": None},
        {"x": "NA", "y": "NA"},
    ]
    jsonl = written(tmp_path / "b.jsonl", '{"y":null,"more":1}\n{"x":"a"}\n')
    assert rows_of(open_rows(jsonl, "jsonl", TEXT)) == [{"x": None, "y": None}, {"x": "a", "y": None}]


def test_types_that_hold_the_same_values_are_cast(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    assert rows_of(open_rows(str(tmp_path / "a.parquet"), "parquet", X)) == [{"x": 1}]


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_reading_continues_at_a_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setattr("snapline.connectors.files.file_formats._BATCH_ROWS", 3)
    monkeypatch.setattr("snapline.connectors.files.file_formats._BLOCK_BYTES", 24)
    path = str(tmp_path / f"a.{format}")
    match format:
        case "parquet":
            pq.write_table(pa.table({"x": range(20)}), path, row_group_size=7)
        case "csv":
            Path(path).write_text("x\n" + "".join(f"{number}\n" for number in range(20)))
        case _:
            Path(path).write_text("".join(f'{{"x":{number}}}\n' for number in range(20)))
    first = open_rows(path, format, X)
    read: list[int] = []
    while len(read) < 8:
        given = first.read()
        assert given is not None
        read += [] if isinstance(given, Wait) else given.column("x").to_pylist()
    rest = rows_of(open_rows(path, format, X, position=first.position))
    first.close()
    assert read + [row["x"] for row in rest] == list(range(20))


def test_row_groups_can_be_read_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": range(10)}), path, row_group_size=4)
    assert row_groups(path) == 3
    assert [row["x"] for row in rows_of(open_rows(path, "parquet", X, groups=[1, 3]))] == [4, 5, 6, 7, 8, 9]


def test_a_schema_is_inferred_or_refused(tmp_path: Path) -> None:
    good = written(tmp_path / "a.csv", "x,y\n1,a\n")
    assert infer_schema(good, "csv") == pa.schema([("x", pa.int64()), ("y", pa.string())])
    empty_column = written(tmp_path / "b.csv", "x,y\n1,\n")
    with pytest.raises(ConfigurationError, match="cannot infer the type of the column 'y'"):
        infer_schema(empty_column, "csv")
    with pytest.raises(ConfigurationError, match="cannot infer the schema of the first file"):
        infer_schema(written(tmp_path / "empty.csv", ""), "csv")


@pytest.mark.parametrize(
    ("format", "text", "complaint"),
    [
        ("csv", "y,x\na,1\nb,oops\n", "b.csv', line 3, column 'x', cannot be read as csv.*'oops'"),
        ("csv", "y\n1\n", "b.csv' cannot be read as csv: Column 'x'"),
        ("csv", "x\n1,2\n", "b.csv', line 2, cannot be read as csv.*Expected 1 columns, got 2"),
        (
            "jsonl",
            '{"x":"a"}\n',
            r"b.jsonl', line 1, cannot be read as jsonl.*changed from number to string",
        ),
        ("jsonl", '{"x":1', "b.jsonl', line 1, cannot be read as jsonl"),
    ],
)
def test_a_text_file_that_does_not_fit_is_named_with_its_column(
    tmp_path: Path, format: str, text: str, complaint: str
) -> None:
    path = written(tmp_path / f"b.{format}", text)
    with pytest.raises(UserCodeError, match=complaint):
        rows_of(open_rows(path, format, X))


def test_a_parquet_file_that_does_not_fit_is_named_with_its_column(tmp_path: Path) -> None:
    def read(name: str) -> None:
        open_rows(str(tmp_path / name), "parquet", X).read()

    pq.write_table(pa.table({"y": [1]}), tmp_path / "other.parquet")
    with pytest.raises(UserCodeError, match=r"other\.parquet' has no column 'x'; it has 'y'"):
        read("other.parquet")
    pq.write_table(pa.table({"x": ["text"]}), tmp_path / "text.parquet")
    with pytest.raises(UserCodeError, match=r"text\.parquet' gave the column 'x' as string"):
        read("text.parquet")
    written(tmp_path / "bad.parquet", "this is no Parquet at all")
    with pytest.raises(UserCodeError, match=r"bad\.parquet' cannot be read as parquet"):
        read("bad.parquet")
    with pytest.raises(StorageError, match=r"gone\.parquet' cannot be read"):
        read("gone.parquet")


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_bad_rows_are_reported_once_and_others_are_read_from_any_position(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are read by Arrow, up to the first bad row; a position is good for both ways to read."""
    monkeypatch.setattr("snapline.connectors.files.file_formats._BLOCK_BYTES", 60)
    monkeypatch.setattr("snapline.connectors.files.text_records._RECORDS", 7)
    values = ["oops" if number in (17, 18, 30) else str(number) for number in range(40)]
    lines = values if format == "csv" else [f'{{"x":{value}}}' for value in values]
    path = written(tmp_path / f"a.{format}", "\n".join((["x"] if format == "csv" else []) + lines) + "\n")
    bad: list[BadRow] = []
    reader = open_rows(path, format, X, bad_row=bad.append)
    seen: list[tuple[int, int, Any]] = []
    read: list[int] = []
    while (given := reader.read()) is not None:
        read += [] if isinstance(given, Wait) else given.column("x").to_pylist()
        seen.append((len(read), len(bad), reader.position))
    reader.close()
    assert read == [number for number in range(40) if number not in (17, 18, 30)]
    assert [item.text for item in bad] == [lines[17], lines[18], lines[30]]
    assert len({position for _, _, position in seen}) > 5
    for rows, bad_rows, position in seen:
        again: list[BadRow] = []
        reader = open_rows(path, format, X, position=position, bad_row=again.append)
        assert [row["x"] for row in rows_of(reader)] == read[rows:]
        assert [item.line for item in again] == [item.line for item in bad[bad_rows:]]


def test_rows_of_parquet_that_do_not_fit_are_bad_one_by_one(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.0, 1.5, None, 4.0, 2.5]}), path)
    bad: list[BadRow] = []
    assert rows_of(open_rows(path, "parquet", X, bad_row=bad.append)) == [{"x": 1}, {"x": None}, {"x": 4}]
    assert [(item.text, item.file, item.line) for item in bad] == [('{"x":1.5}', path, None), ('{"x":2.5}', path, None)]
    strict = pa.schema([pa.field("x", pa.float64(), nullable=False)])
    assert len(rows_of(open_rows(path, "parquet", strict, bad_row=bad.append))) == 4
    assert "gave nulls in the column 'x', which its schema says has none, for the row {'x': None}" in str(bad[2].error)


def test_the_rest_of_a_damaged_row_group_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = np.random.default_rng(1).integers(0, 1 << 60, 4000)
    pq.write_table(pa.table({"x": rows}), path, row_group_size=1000, use_dictionary=False, compression="gzip")
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    for place in range(column.data_page_offset + 200, column.data_page_offset + 2000):
        data[place] = 0
    path.write_bytes(data)
    bad: list[BadRow] = []
    found = rows_of(open_rows(str(path), "parquet", X, bad_row=bad.append))
    assert [row["x"] for row in found] == [*rows[:1000].tolist(), *rows[2000:].tolist()]
    assert [item.text for item in bad] == [None]
    assert "a.parquet', row group 1 from row 0 on, cannot be read as parquet" in str(bad[0].error)
    with pytest.raises(UserCodeError, match="row group 1 from row 0 on"):
        rows_of(open_rows(str(path), "parquet", X))
