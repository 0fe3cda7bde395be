"""Encoders: what every format holds, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from snapline.connectors.files.file_encoders import WRITE_FORMATS, check_schema, encoder, read_whole


@pytest.mark.parametrize("format", [format for format in WRITE_FORMATS if format != "text"])
def test_written_rows_are_read_back(tmp_path: Path, format: str) -> None:
    batches = [pa.record_batch({"x": [1, 2], "y": ["a", "b"]}), pa.record_batch({"x": [3], "y": ["c"]})]
    path = tmp_path / f"file.{format}"
    with open(path, "wb") as file:
        made = encoder(format, file, batches[0].schema)
        made.write(batches[:1])
        made.write(batches[1:])
        made.close()
        assert not file.closed
    assert read_whole(path) == pa.Table.from_batches(batches)


def test_files_of_unknown_formats_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    assert read_whole(tmp_path / "notes.md") is None


def test_json_lines_hold_every_kind_of_value() -> None:
    batch = pa.record_batch(
        {
            "t": pa.array([datetime(2024, 1, 2, tzinfo=UTC)], pa.timestamp("ms", "UTC")),
            "s": ['a "quoted"\nline'],
            "l": [[1, None]],
            "n": pa.array([None], pa.int64()),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    file = BytesIO()
    encoder("jsonl", file, batch.schema).write([batch])
    expected = '{"t":"2024-01-02T00:00:00Z","s":"a \\"quoted\\"\\nline","l":[1,null],"n":null,"m":{"k":1}}\n'
    assert file.getvalue().decode() == expected


def test_schemas_a_format_cannot_hold_are_refused() -> None:
    with pytest.raises(pa.ArrowException, match="Unsupported Type:list"):
        check_schema("csv", pa.schema([("l", pa.list_(pa.int8()))]))
    with pytest.raises(pa.ArrowException, match="'t' is in nanoseconds"):
        check_schema("jsonl", pa.schema([("t", pa.timestamp("ns"))]))
    check_schema("parquet", pa.schema([("t", pa.timestamp("ns"))]))


def test_text_files_hold_one_column(tmp_path: Path) -> None:
    rows = pa.record_batch({"value": ["a", None, "c"]})
    path = tmp_path / "file.txt"
    with open(path, "wb") as file:
        made = encoder("text", file, rows.schema)
        made.write([rows])
        made.close()
    assert path.read_text() == "a\n\nc\n"
    table = read_whole(path)
    assert table is not None
    assert table.to_pydict() == {"value": ["a", "", "c"]}
    with pytest.raises(pa.ArrowInvalid, match="one column"):
        check_schema("text", pa.schema([("n", pa.int64())]))


def test_csv_without_names(tmp_path: Path) -> None:
    rows = pa.record_batch({"x": [1], "y": ["a"]})
    path = tmp_path / "file.csv"
    with open(path, "wb") as file:
        made = encoder("csv_rows", file, rows.schema)
        made.write([rows])
        made.close()
    assert path.read_text() == '1,"a"\n'
