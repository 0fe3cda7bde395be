"""Every source that comes with Snapline keeps the contract of sources."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.testing import ScriptedSource, SourceContract

ROWS = 3000
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


def table(start: int = 0, count: int = ROWS) -> pa.Table:
    numbers = np.arange(start, start + count)
    texts = [None if number % 7 == 0 else f'row "{number}",\n{number}' for number in numbers.tolist()]
    return pa.table({"number": numbers, "text": pa.array(texts, pa.string())}, schema=SCHEMA)


def generated(start: int, count: int) -> pa.RecordBatch:
    return table(start, count).combine_chunks().to_batches()[0]


def rows_one_by_one() -> Iterator[Any]:
    yield from table().to_pylist()


def batches_and_rows() -> Iterator[Any]:
    yield from table(0, 10).to_pylist()
    yield from table(10, 1000).to_batches(max_chunksize=100)
    yield from (tuple(row.values()) for row in table(1010, ROWS - 1010).to_pylist())


def parquet_files(directory: Path) -> sl.Source:
    pq.write_table(table(0, 2000), directory / "a.parquet", row_group_size=300)
    pq.write_table(table(0, 0), directory / "b.parquet")
    pq.write_table(table(2000, 1000), directory / "c.parquet", row_group_size=1000)
    return sl.sources.Files(directory)


def csv_files(directory: Path) -> sl.Source:
    pyarrow.csv.write_csv(table(0, 2500), directory / "a.csv")
    (directory / "b.csv").touch()
    (directory / "c.csv").write_text("number,text\n")
    with gzip.open(directory / "d.csv.gz", "wb") as file:
        pyarrow.csv.write_csv(table(2500, 500), file)
    return sl.sources.Files(directory, format="csv")


def jsonl_files(directory: Path) -> sl.Source:
    for name, part in (("a", table(0, 2999)), ("b", table(0, 0)), ("c", table(2999, 1))):
        lines = b"".join(msgspec.json.encode(row) + b"\n" for row in part.to_pylist())
        (directory / f"{name}.jsonl").write_bytes(lines)
    return sl.sources.Files(f"{directory}/*.jsonl", format="jsonl", schema=SCHEMA)


def csv_files_with_bad_rows(directory: Path) -> sl.Source:
    """Bad rows at the start of a file, in the middle, and in a row; and a file of which nothing is good."""
    lines = pyarrow_csv(table(0, 2000)).splitlines(keepends=True)
    header, rows = lines[0], pyarrow_csv(table(0, 2000)).removeprefix(lines[0])
    parts = [pyarrow_csv(table(start, 250)).removeprefix(header) for start in range(0, 2000, 250)]
    assert "".join(parts) == rows
    (directory / "a.csv").write_text(f"{header}x,y\n" + "one,two\n1,2,3\n".join(parts) + "4\n")
    (directory / "b.csv").write_text("something else\n1\n")
    (directory / "c.csv").write_text(pyarrow_csv(table(2000, 1000)))
    return sl.sources.Files(directory, format="csv", schema=SCHEMA, on_error="drop")


def pyarrow_csv(rows: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(rows, sink)
    text: str = sink.getvalue().to_pybytes().decode()
    return text


def jsonl_files_with_bad_rows(directory: Path) -> sl.Source:
    lines = [msgspec.json.encode(row).decode() + "\n" for row in table().to_pylist()]
    for place in (2999, 2000, 1999, 17, 0):
        lines.insert(place, '{"number": "text"}\n{"number"\n')
    (directory / "a.jsonl").write_text("".join(lines))
    return sl.sources.Files(directory, format="jsonl", schema=SCHEMA, on_error="drop")


def parquet_files_with_bad_rows(directory: Path) -> sl.Source:
    rows = table()
    numbers = rows["number"].cast(pa.float64())
    bad = pa.table({"number": [0.5, 1e300], "text": ["x", "y"]})
    pq.write_table(pa.concat_tables([bad, rows.set_column(0, "number", numbers), bad]), directory / "a.parquet")
    (directory / "b.parquet").write_bytes((directory / "a.parquet").read_bytes()[:1000])
    return sl.sources.Files(directory, schema=SCHEMA, on_error="drop")


def watched_files(directory: Path) -> sl.Source:
    parquet_files(directory)
    return sl.sources.Files(directory, watch="1s")


def scripted(_: Path, *, ends: bool = True) -> sl.Source:
    tuples = [tuple(row.values()) for row in table(30, 70).to_pylist()]
    batches = table(100, ROWS - 100).to_batches(max_chunksize=290)
    return ScriptedSource([*table(0, 30).to_pylist(), sl.Wait(0.001), tuples, *batches], SCHEMA, ends=ends)


Make = Callable[[Path], sl.Source]
SOURCES: dict[str, Make] = {
    "generate": lambda _: sl.sources.Generate(generated, ROWS, schema=SCHEMA, splits=3, batch_rows=130),
    "list": lambda _: sl.sources.Iterator(table().to_pylist()),
    "tuples": lambda _: sl.sources.Iterator([tuple(row.values()) for row in table().to_pylist()], SCHEMA),
    "generator": lambda _: sl.sources.Iterator(rows_one_by_one, SCHEMA),
    "batches and rows": lambda _: sl.sources.Iterator(batches_and_rows, SCHEMA),
    "parquet": parquet_files,
    "csv": csv_files,
    "jsonl": jsonl_files,
    "csv with bad rows": csv_files_with_bad_rows,
    "jsonl with bad rows": jsonl_files_with_bad_rows,
    "parquet with bad rows": parquet_files_with_bad_rows,
    "watched": watched_files,
    "scripted": scripted,
    "scripted without an end": lambda _: scripted(_, ends=False),
}


class TestSources(SourceContract):
    quiet_s = 0.05

    @pytest.fixture(autouse=True, params=SOURCES)
    def _small_reads(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Many reads for few rows."""
        monkeypatch.setattr("snapline.connectors.iterator._BATCH_ITEMS", 170)
        monkeypatch.setattr("snapline.connectors.iterator._SKIP_ITEMS", 400)
        monkeypatch.setattr("snapline.connectors.files.file_formats._BATCH_ROWS", 170)
        monkeypatch.setattr("snapline.connectors.files.file_formats._BLOCK_BYTES", 5000)
        monkeypatch.setattr("snapline.connectors.files.text_records._RECORDS", 130)
        self._make = SOURCES[request.param]

    def make_source(self, directory: Path) -> sl.Source:
        return self._make(directory)

    def expected_rows(self) -> pa.Table:
        return table()
